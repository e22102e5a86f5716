"""
Opinions of the live engine about the sources of a log: what they declare, and what its detectors say.

The user agent with most of a source's requests speaks for the source. A known bot is verified by its address: its
published ranges, or its name in the DNS (`resolve`). Detectors have the limits and weights of the gate (`ReportRule`).
Evidence that is enough at the gate decides here as well. Lighter evidence is shown and does not count: a log has too
little of a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.decision import Evidence
from hedgerow.core.visit import Proof
from hedgerow.detectors.registry import registry
from hedgerow.detectors.spec import ReportRule, SettingsTables
from hedgerow.report.source_labels import FALSE, NOTHING, PROGRAM, SUREST, VERIFIED, Findings
from hedgerow.report.tables.figures import Figures
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import BotProofs, Bots, KnownBot, NameLookup, declares_itself

if TYPE_CHECKING:
    from hedgerow.web.lookups.dns import Resolver

_ENOUGH = 1.0
_MAX_LOOKUPS = 50
_PROVEN = {"verified": VERIFIED, "false": FALSE}


class DeclaredBots:
    """What sources declare: *state*, one of the above for each; by which of their user agents (*agents*)."""

    def __init__(self, tables: Tables, bots: Bots) -> None:
        agents = tables.figures["agent"]
        texts = [text.decode("latin-1") for text in tables.builder.agents.texts]
        bot_of: list[KnownBot | None] = [None] * len(texts)
        automatic, claims = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
        # Only those that speak for a source: to search a text for all bots takes long.
        for k in np.unique(agents).tolist():
            if texts[k]:
                bot_of[k] = bots.claimed(texts[k])
                automatic[k], claims[k] = declares_itself(texts[k]), bot_of[k] is not None
        self.state: NDArray[np.int8] = np.where(automatic | claims, PROGRAM, NOTHING).astype(np.int8)[agents]
        self._all = bots
        self.agents: NDArray[np.int64] = agents
        """The number of the user agent that made most of each source's requests."""
        self._texts: list[str] = texts
        self._bots: dict[int, KnownBot] = {}
        address = tables.builder.address
        provable = {bot.name: bots.provable(bot) for bot in bot_of if bot is not None}
        for k in np.flatnonzero(claims[agents]).tolist():
            bot = bot_of[agents[k]]
            if bot is None:
                continue
            self._bots[k] = bot
            if not provable[bot.name]:
                continue
            source = int(tables.figures.sources[k])
            proof: Proof = bots.prove(bot, address(source), float(tables.figures.last[k]) / 1e6)
            self.state[k] = _PROVEN.get(proof, self.state[k])

    def agent(self, source: int) -> str:
        """The user agent that made most of a source's requests."""
        return self._texts[int(self.agents[source])]

    def agents_of(self, some: NDArray[np.int64]) -> list[str]:
        """The same of many sources at once."""
        texts = self._texts
        return [texts[agent] for agent in self.agents[some].tolist()]

    def bot(self, source: int) -> str:
        """The known bot that a source says it is, or ""."""
        return self._bots[source].name if source in self._bots else ""

    def identities(self) -> NDArray[np.int64]:
        """
        Return a number for what each source says it is: a known bot, or a program, by the first word of its user agent.

        0 for those that declare nothing.
        """
        numbers: dict[str, int] = {}
        words = [text.split("/", 1)[0].split(" ", 1)[0] for text in self._texts]
        each = np.array([numbers.setdefault(word, len(numbers) + 1) for word in words], np.int64)
        found = np.where(self.state != NOTHING, each[self.agents], 0)
        for place, bot in self._bots.items():
            found[place] = numbers.setdefault(bot.name, len(numbers) + 1)
        return found

    def naming(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return which sources have a user agent that contains one of *names*, but for those that name a known bot."""
        found = np.zeros(len(self._texts), np.bool_)
        for k in np.unique(self.agents).tolist():
            found[k] = any(name in self._texts[k].lower() for name in names)
        naming = found[self.agents]
        naming[list(self._bots)] = False
        return naming

    def may_be_welcome(self, source: int) -> bool:
        """Whether a source says it is a bot that is welcome once verified, and has not been caught lying."""
        bot = self._bots.get(source)
        return bot is not None and self.state[source] != FALSE and self._all.allows(bot)

    def sentence(self, source: int) -> str:
        """What a source declares that declares anything, for a person."""
        state, name = self.state[source], self.bot(source)
        if state == VERIFIED:
            return f"It is {name}, as its address proves."
        if state == FALSE:
            return f"It says that it is {name}, and its address is another's."
        return f"It says that it is {name}." if name else "Its user agent is a program's."


class DeclarationOpinion:
    """What a source says of itself: who says it is a program is one."""

    detector, codes = "declared", ("declared-bot", "false-bot", "verified-bot")
    _KINDS: Mapping[int, int] = {PROGRAM: 0, FALSE: 1, VERIFIED: 2}

    def __init__(self, declared: DeclaredBots) -> None:
        self._declared = declared
        self.probability: NDArray[np.float64] = np.where(declared.state == NOTHING, np.nan, SUREST)
        self.probability[declared.state == VERIFIED] = np.nan
        self.speaks: NDArray[np.bool_] = declared.state != NOTHING

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        state = self._declared.state[some]
        kind = np.array([self._KINDS[one] for one in state.tolist()], np.int64)
        weight = np.where(state == VERIFIED, 0.0, 1.0)
        return Findings(np.arange(len(some)), kind, weight, list(map(self._declared.sentence, some.tolist())))


class DetectorOpinion:
    """
    What a detector says about each source, in evidence of the group *detector*.

    *judged* is the evidence about each kind of source, and *kinds* the kind of each source.
    """

    def __init__(
        self, detector: str, codes: Sequence[str], judged: Sequence[Sequence[Evidence]], kinds: NDArray[np.int64]
    ) -> None:
        self.detector, self.codes = detector, tuple(codes)
        self._judged = [[e for e in evidence if e.detector == detector] for evidence in judged]
        self._kinds = kinds
        sure = [SUREST if sum(e.weight for e in evidence) >= _ENOUGH else np.nan for evidence in self._judged]
        self.probability: NDArray[np.float64] = np.array(sure, np.float64)[kinds]
        self.speaks: NDArray[np.bool_] = np.array([bool(evidence) for evidence in self._judged], np.bool_)[kinds]

    def says(self, codes: Collection[str]) -> NDArray[np.bool_]:
        """Return about which sources it says one of *codes*."""
        saying = [any(e.code in codes for e in evidence) for evidence in self._judged]
        return np.array(saying, np.bool_)[self._kinds]

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        judged = [self._judged[kind] for kind in self._kinds[some].tolist()]
        found = [one for evidence in judged for one in evidence]
        whom = np.repeat(np.arange(len(some)), [len(evidence) for evidence in judged])
        kinds = np.array([self.codes.index(one.code) for one in found], np.int64)
        weights = np.array([one.weight for one in found], np.float64)
        return Findings(whom, kinds, weights, [one.text for one in found])


def detector_opinions(
    figures: Figures, declared: DeclaredBots | None, settings: SettingsTables
) -> dict[str, DetectorOpinion]:
    """
    Return the opinions of all detectors that have something to say about this log, by group of evidence.

    *declared* tells user agents, or is None where they are ignored; detectors that need them then say nothing.
    """
    columns = {"http_1_0": figures["old_http"] == figures["requests"]}
    if declared is not None:
        columns["user_agent"] = declared.agents
    opinions: dict[str, DetectorOpinion] = {}
    for spec, rule in registry().report_rules(settings):
        if "user_agent" in rule.columns and declared is None:
            continue
        values = [columns[name] if name in columns else figures[name] for name in rule.columns]
        first, kinds = _distinct(values, len(figures.sources))
        judged = [_judge(rule, source, values, declared) for source in first.tolist()]
        groups = {one.detector for evidence in judged for one in evidence}
        for group in sorted(groups):
            codes = [code.code for code in spec.codes if code.group == group]
            opinions[group] = DetectorOpinion(group, codes, judged, kinds)
    return opinions


def _distinct(columns: Sequence[NDArray[np.int64]], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first source of each kind, where sources of one kind agree in all *columns*; and each one's kind."""
    kinds = np.zeros(size, np.int64)
    first = np.zeros(min(size, 1), np.int64)
    for column in columns:
        _, numbers = np.unique(column, return_inverse=True)
        _, first, kinds = np.unique(kinds * (len(column) + 1) + numbers, return_index=True, return_inverse=True)
    return first, kinds


def _judge(
    rule: ReportRule, source: int, values: Sequence[NDArray[np.int64]], declared: DeclaredBots | None
) -> Sequence[Evidence]:
    return rule.judge(*[
        declared.agent(source) if name == "user_agent" and declared is not None else column[source].item()
        for name, column in zip(rule.columns, values, strict=True)
    ])  # fmt: skip


def resolve(questions: Sequence[NameLookup], proofs: BotProofs, resolver: Resolver) -> int:
    """Ask the DNS all *questions* and tell *proofs* the answers. Return how many got no answer."""
    return asyncio.run(_resolve({(q.bot.name, q.address): q for q in questions}, proofs, resolver))


async def _resolve(questions: dict[tuple[str, str], NameLookup], proofs: BotProofs, resolver: Resolver) -> int:
    from hedgerow.web.lookups.dns import DnsTimeoutError, is_in

    slots = asyncio.Semaphore(_MAX_LOOKUPS)

    async def ask(question: NameLookup) -> bool:
        async with slots:
            try:
                true = await is_in(question.address, question.bot.domains, resolver)
            except DnsTimeoutError:
                return False
        proofs.learn(question, true=true)
        return True

    answered = await asyncio.gather(*(ask(question) for question in questions.values()))
    return answered.count(False)

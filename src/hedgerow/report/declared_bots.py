"""
Declared: what a source says it is, and whether that is true.

The user agent that makes most of a source's requests speaks for it. A known bot is verified by its address: its
published ranges, or its name in the DNS, where that was asked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.visit import Proof
from hedgerow.report.rate_limit_proposal import declares_itself
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, KnownBot

NOTHING, PROGRAM, FALSE, VERIFIED = 0, 1, 2, 3
"""What became of it: declares nothing, declares itself a program, lies about which bot it is, is the bot it says."""


class DeclaredBots:
    """What sources declare: *state*, one of the above for each; by which of their user agents (*agents*)."""

    def __init__(self, tables: Tables, bots: Bots) -> None:
        agents = tables.figures["agent"]
        texts = [text.decode("latin-1") for text in tables.numbering.agents.texts]
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
        address = tables.numbering.address
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
            if proof == "verified":
                self.state[k] = VERIFIED
            elif proof == "false":
                self.state[k] = FALSE

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

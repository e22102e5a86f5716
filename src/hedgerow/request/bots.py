"""
Known bots: which one a user agent claims to be, and whether the address confirms the claim.

`data/bots.toml` lists the bots. A published address range, the host name of the address or a signature proves a claim.
Host names are looked up in the background and stored in `BotProofs`. Until the answer arrives the claim is pending: it
counts neither for nor against the visitor. The settings may add bots by network; those are verified at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

import msgspec

from hedgerow.core.address import Networks
from hedgerow.core.visit import Proof

Category = Literal[
    "search", "ai-training", "ai-search", "ai-assistant", "archive", "monitoring", "preview", "feed", "seo", "other"
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
BotPolicy = Literal["pass", "contain", "refuse"]
"""What happens to a verified bot. pass: it passes. contain: it is judged like everybody. refuse: it is refused."""

DEFAULT_POLICIES: Mapping[Category, BotPolicy] = {
    "search": "pass", "ai-training": "contain", "ai-search": "pass", "ai-assistant": "pass", "archive": "pass",
    "monitoring": "pass", "preview": "pass", "feed": "pass", "seo": "contain", "other": "contain",
}  # fmt: skip

RANGES_FRESH_FOR = 30 * 86_400.0
"""Seconds for which a published list is complete enough to disprove a claim."""

_MAX_CACHED_LENGTH = 400
_MAX_PROOFS = 20_000


class Bot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A bot of the settings that may pass.

    It is verified by one of *networks* and, if given, by *user_agent* as part of its user agent. A search engine's
    network may also carry people.
    """

    name: str
    networks: tuple[str, ...]
    user_agent: str = ""


class KnownBot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `data/bots.toml`, which documents the fields."""

    name: str
    category: Category
    agent: str = ""
    robots: str = ""
    domains: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    signer: str = ""
    lenient: bool = False


class Ranges(NamedTuple):
    """A published list of networks, and when it was fetched."""

    networks: Networks
    read_at: float


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bot: tuple[KnownBot, ...]
    ranges: dict[str, str]


@cache
def _table() -> _Table:
    text = files("hedgerow").joinpath("data/bots.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Table)


def known_bots() -> tuple[KnownBot, ...]:
    return _table().bot


def published_ranges() -> Mapping[str, str]:
    """Return the URL of each published address list by the list's name."""
    return _table().ranges


def in_domain(name: str, domains: Sequence[str]) -> bool:
    """
    Return whether a host name is one of *domains* or a sub-domain of one.

    >>> in_domain("a.googlebot.com.", ["googlebot.com"]), in_domain("googlebot.com.evil.example", ["googlebot.com"])
    (True, False)
    """
    host = name.rstrip(".").lower()
    return any(host == domain or host.endswith("." + domain) for domain in domains)


class NameLookup(NamedTuple):
    """A pending DNS lookup: does the host name of *address* belong to *bot*?"""

    bot: KnownBot
    address: str
    at: float


class _Answer(NamedTuple):
    true: bool
    until: float


class BotProofs:
    """
    A bounded cache of the DNS answers about addresses that claim to be bots.

    An answer is valid for *true_for* or *false_for* seconds. After that it is looked up again, and stays in use until
    the new answer arrives, so an outage of DNS changes nothing. False claims are stored apart, so that a flood of them
    evicts no real bot. *ask* starts a lookup; it must not block, and may drop the request.
    """

    def __init__(
        self,
        ask: Callable[[NameLookup], None] | None = None,
        *,
        true_for: float = 86_400.0,
        false_for: float = 3600.0,
        max_entries: int = _MAX_PROOFS,
    ) -> None:
        self.ask = ask
        self.true_for = true_for
        self.false_for = false_for
        self._max_entries = max_entries
        self._true: dict[tuple[str, str], _Answer] = {}
        self._false: dict[tuple[str, str], _Answer] = {}

    def __len__(self) -> int:
        return len(self._true) + len(self._false)

    def find(self, bot: KnownBot, address: str, at: float) -> Proof:
        """Return what is known about a claim. A missing or outdated answer is looked up."""
        key = (bot.name, address)
        answer = self._true.get(key) or self._false.get(key)
        if (answer is None or answer.until < at) and self.ask is not None:
            self.ask(NameLookup(bot, address, at))
        if answer is None:
            return "pending" if self.ask is not None else "unprovable"
        return "verified" if answer.true else "false"

    def learn(self, question: NameLookup, *, true: bool) -> None:
        key = (question.bot.name, question.address)
        answers, other = (self._true, self._false) if true else (self._false, self._true)
        other.pop(key, None)
        answers.pop(key, None)
        while len(answers) >= self._max_entries:
            del answers[next(iter(answers))]
        answers[key] = _Answer(true, question.at + (self.true_for if true else self.false_for))


_LITERAL = re.compile(r"(?:[\w /!-]|\\\.)+", re.ASCII)


def _literal_words(patterns: Iterable[str]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return the lower-case words of all literal *patterns*, and one pattern for the others."""
    words, others = [], []
    for pattern in patterns:
        parts = pattern.split("|")
        if all(_LITERAL.fullmatch(part) for part in parts):
            words += [part.replace("\\", "").lower() for part in parts]
        else:
            others.append(f"(?:{pattern})")
    # `(?!)` never matches.
    return tuple(words), re.compile("|".join(others) or "(?!)", re.IGNORECASE)


class Bots:
    """
    Recognises claims to be a bot and checks them by address.

    *bots* come from the settings, *known* from `data/bots.toml`. *ranges* are published lists by name. *policies* give
    the treatment of each category.
    """

    def __init__(
        self,
        bots: Sequence[Bot] = (),
        *,
        known: Sequence[KnownBot] = (),
        ranges: Mapping[str, Ranges] | None = None,
        policies: Mapping[Category, BotPolicy] = DEFAULT_POLICIES,
        proofs: BotProofs | None = None,
    ) -> None:
        self._bots = tuple((bot.name, Networks(bot.networks), bot.user_agent.lower()) for bot in bots)
        self._known = tuple(bot for bot in known if bot.agent)
        self._ranges = ranges or {}
        self._policies = policies
        # Not `proofs or ...`: an empty cache is false.
        self._proofs = BotProofs() if proofs is None else proofs
        # One group per bot; the number of the matching group is the bot's index.
        pattern = "|".join(f"({bot.agent})" for bot in self._known)
        self._pattern = re.compile(pattern, re.IGNORECASE) if pattern else None
        self._words, self._others = _literal_words(bot.agent for bot in self._known)
        self._cached = lru_cache(maxsize=1 << 12)(self._search)

    def __bool__(self) -> bool:
        return bool(self._bots or self._known)

    def verified(self, address: str, user_agent: str) -> str:
        """Return the name of the matching bot of the settings, or ""."""
        for name, networks, word in self._bots:
            if address in networks and word in user_agent.lower():
                return name
        return ""

    def claimed(self, user_agent: str) -> KnownBot | None:
        return self._cached(user_agent) if len(user_agent) <= _MAX_CACHED_LENGTH else self._search(user_agent)

    def _search(self, user_agent: str) -> KnownBot | None:
        # Most user agents name no bot. Searching for plain words rules them out in a tenth of the time.
        if user_agent.isascii() and not self._others.search(user_agent):
            lower = user_agent.lower()
            if not any(word in lower for word in self._words):
                return None
        match = self._pattern.search(user_agent) if self._pattern is not None else None
        return self._known[match.lastindex - 1] if match is not None and match.lastindex else None

    def allows(self, bot: KnownBot) -> bool:
        """Return whether the policy lets this bot pass once it is verified."""
        return self._policies[bot.category] == "pass"

    def provable(self, bot: KnownBot) -> bool:
        """Return whether any list or lookup could prove a claim to be *bot*."""
        listed = any(name in self._ranges for name in bot.ranges)
        return listed or (bool(bot.domains) and (self._proofs.ask is not None or len(self._proofs) > 0))

    def prove(self, bot: KnownBot, address: str, at: float) -> Proof:
        """Return whether an address belongs to the bot, as far as is known now."""
        lists = [self._ranges[name] for name in bot.ranges if name in self._ranges]
        if any(address in ranges.networks for ranges in lists):
            return "verified"
        if bot.domains:
            proof = self._proofs.find(bot, address, at)
        elif len(lists) == len(bot.ranges) > 0 and all(abs(at - r.read_at) <= RANGES_FRESH_FOR for r in lists):
            proof = "false"
        else:
            proof = "unprovable"
        return "unprovable" if proof == "false" and bot.lenient else proof

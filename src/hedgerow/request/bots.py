"""
Known bots: who says it is one, and whether that is true.

A claim is what the user agent says; `data/bots.toml` names the bots that can be claimed. It is proven by the address (a
published range, or the name of the address, which is looked up beside the request and remembered in `BotProofs`), or by
a signature. Until the answer is there the claim is pending: neither trusted nor held against anybody.

The settings may name further bots by their networks; those are verified at once.
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
"""pass: a verified bot is welcome. contain: it is judged like everybody else. refuse: it is turned away."""

DEFAULT_POLICIES: Mapping[Category, BotPolicy] = {
    "search": "pass", "ai-training": "contain", "ai-search": "pass", "ai-assistant": "pass", "archive": "pass",
    "monitoring": "pass", "preview": "pass", "feed": "pass", "seo": "contain", "other": "contain",
}  # fmt: skip

RANGES_FRESH_FOR = 30 * 86_400.0
"""Seconds for which an address that is in none of a bot's published ranges is held not to be its own."""

_LONGEST_CACHED = 400
_DEFAULT_MOST = 20_000


class Bot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A bot that is welcome.

    It is verified when it comes from one of *networks* and, where *user_agent* is given, its user agent holds that
    word: a search engine's network may also carry people.
    """

    name: str
    networks: tuple[str, ...]
    user_agent: str = ""


class KnownBot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `data/bots.toml`, which says what each field means."""

    name: str
    category: Category
    agent: str = ""
    robots: str = ""
    domains: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    signer: str = ""
    lenient: bool = False


class Ranges(NamedTuple):
    """A published list of networks, and when it was read; None where nobody knows."""

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
    """The bots of `data/bots.toml`."""
    return _table().bot


def published_ranges() -> Mapping[str, str]:
    """The lists of addresses that are published, by name, with where."""
    return _table().ranges


def in_domain(name: str, domains: Sequence[str]) -> bool:
    """
    Whether a host name is one of *domains* or below one of them: whole labels, at the end.

    >>> in_domain("a.googlebot.com.", ["googlebot.com"]), in_domain("googlebot.com.evil.example", ["googlebot.com"])
    (True, False)
    """
    plain = name.rstrip(".").lower()
    return any(plain == domain or plain.endswith("." + domain) for domain in domains)


class Name(NamedTuple):
    """A question to be looked up: does this address belong to that bot, by its name?"""

    bot: KnownBot
    address: str
    at: float


class _Found(NamedTuple):
    true: bool
    until: float


class BotProofs:
    """
    What was found about the names of addresses, in a bounded memory.

    An answer holds for *true_for* or *false_for* seconds. After that it is asked again, and stands until there is
    another: while no name server answers, nothing changes. Lies are kept apart, so that a flood of them drives no true
    bot out. *ask* is called with each question; it must not wait, and may drop it.
    """

    def __init__(
        self,
        ask: Callable[[Name], None] | None = None,
        *,
        true_for: float = 86_400.0,
        false_for: float = 3600.0,
        most: int = _DEFAULT_MOST,
    ) -> None:
        self.ask = ask
        self.true_for = true_for
        self.false_for = false_for
        self._most = most
        self._true: dict[tuple[str, str], _Found] = {}
        self._false: dict[tuple[str, str], _Found] = {}

    def __len__(self) -> int:
        return len(self._true) + len(self._false)

    def of(self, bot: KnownBot, address: str, at: float) -> Proof:
        """What is known about a claim, by the name of the address; what is not known, or too old, is asked."""
        key = (bot.name, address)
        found = self._true.get(key) or self._false.get(key)
        if (found is None or found.until < at) and self.ask is not None:
            self.ask(Name(bot, address, at))
        if found is None:
            return "pending" if self.ask is not None else "unprovable"
        return "verified" if found.true else "false"

    def learn(self, question: Name, *, true: bool) -> None:
        """Remember the answer to a question."""
        key = (question.bot.name, question.address)
        kept, other = (self._true, self._false) if true else (self._false, self._true)
        other.pop(key, None)
        kept.pop(key, None)
        while len(kept) >= self._most:
            del kept[next(iter(kept))]
        kept[key] = _Found(true, question.at + (self.true_for if true else self.false_for))


_PLAIN = re.compile(r"(?:[\w /!-]|\\\.)+", re.ASCII)


def _words_of(patterns: Iterable[str]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Words, in small letters, of which one is in whatever *patterns* find; and a pattern for what has no such word."""
    words, others = [], []
    for pattern in patterns:
        parts = pattern.split("|")
        if all(_PLAIN.fullmatch(part) for part in parts):
            words += [part.replace("\\", "").lower() for part in parts]
        else:
            others.append(f"(?:{pattern})")
    # Where there is none, nothing is found.
    return tuple(words), re.compile("|".join(others) or "(?!)", re.IGNORECASE)


class Bots:
    """
    Tells who claims to be a bot, and whether that is true.

    *bots* are those of the settings, *known* those of the table. *ranges* are published lists by name. *policies* say
    what becomes of each category.
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
        # Not `proofs or ...`: one that knows nobody yet is false.
        self._proofs = BotProofs() if proofs is None else proofs
        # One group for each; the group's number tells which.
        pattern = "|".join(f"({bot.agent})" for bot in self._known)
        self._pattern = re.compile(pattern, re.IGNORECASE) if pattern else None
        self._words, self._others = _words_of(bot.agent for bot in self._known)
        self._cached = lru_cache(maxsize=1 << 12)(self._search)

    def __bool__(self) -> bool:
        return bool(self._bots or self._known)

    def verified(self, address: str, user_agent: str) -> str:
        """The name of the bot of the settings that this is, or "" where it is none."""
        for name, networks, word in self._bots:
            if address in networks and word in user_agent.lower():
                return name
        return ""

    def claimed(self, user_agent: str) -> KnownBot | None:
        """The known bot that a user agent names."""
        return self._cached(user_agent) if len(user_agent) <= _LONGEST_CACHED else self._search(user_agent)

    def _search(self, user_agent: str) -> KnownBot | None:
        # Most name nobody, and that no word is there is found in a tenth of the time.
        if user_agent.isascii() and not self._others.search(user_agent):
            lower = user_agent.lower()
            if not any(word in lower for word in self._words):
                return None
        found = self._pattern.search(user_agent) if self._pattern is not None else None
        return self._known[found.lastindex - 1] if found is not None and found.lastindex else None

    def welcomes(self, bot: KnownBot) -> bool:
        """Whether the policy lets this bot pass once it is verified."""
        return self._policies[bot.category] == "pass"

    def provable(self, bot: KnownBot) -> bool:
        """Whether anything is known, or will be asked, by which a claim to be *bot* could be proven."""
        listed = any(name in self._ranges for name in bot.ranges)
        return listed or (bool(bot.domains) and (self._proofs.ask is not None or len(self._proofs) > 0))

    def prove(self, bot: KnownBot, address: str, at: float) -> Proof:
        """Whether an address is the bot's own, as far as is known now."""
        lists = [self._ranges[name] for name in bot.ranges if name in self._ranges]
        if any(address in ranges.networks for ranges in lists):
            return "verified"
        if bot.domains:
            proof = self._proofs.of(bot, address, at)
        elif len(lists) == len(bot.ranges) > 0 and all(abs(at - r.read_at) <= RANGES_FRESH_FOR for r in lists):
            proof = "false"
        else:
            proof = "unprovable"
        return "unprovable" if proof == "false" and bot.lenient else proof

"""
Known bots: which one a user agent claims to be, and whether address, signature and robots.txt compliance confirm it.

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
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec

from hedgerow.core.address import Networks
from hedgerow.core.visit import Proof

if TYPE_CHECKING:
    # Without the packages behind them: reports of logs need no signatures.
    from hedgerow.request.bot_signature import Request, Signatures
    from hedgerow.request.robots_compliance import RobotsCompliance

Category = Literal[
    "search", "ai-training", "ai-search", "ai-assistant", "archive", "monitoring", "preview", "feed", "seo", "other"
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
BotPolicy = Literal["pass", "contain", "license", "refuse"]
"""
What happens to a known bot. pass: it passes once it is verified. contain: it is judged like everybody. license: it is
answered with 402 and the terms of the site. refuse: it is refused.
"""

DEFAULT_POLICIES: Mapping[Category, BotPolicy] = {
    "search": "pass", "ai-training": "contain", "ai-search": "pass", "ai-assistant": "pass", "archive": "pass",
    "monitoring": "pass", "preview": "pass", "feed": "pass", "seo": "contain", "other": "contain",
}  # fmt: skip

RANGES_FRESH_FOR = 30 * 86_400.0
"""Seconds for which a published list is complete enough to disprove a claim."""

_MAX_CACHED_LENGTH = 400
_MAX_PROOFS = 20_000
_ROBOTS_SIGN = ("robots",)
_SIGNATURE_SIGNS = {
    "forged": ("signature-forged",), "replayed": ("signature-replayed",), "expired": ("signature-expired",),
    "misdirected": ("signature-misdirected",),
}  # fmt: skip


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


_PROGRAM_WORDS = (
    "bot", "crawl", "spider", "slurp", "scrapy", "curl", "wget", "python", "perl", "ruby", "java/", "php/", "go-http",
    "okhttp", "httpclient", "headless", "monitor", "archiver", "feed", "fetch", "scan", "check", "preview", "http://",
    "https://",
)  # fmt: skip
_PHONE_MAKER = "cubot"


def declares_itself(user_agent: str) -> bool:
    """
    Return whether a user agent names a program: by a word such as "bot", or by the address of a page about itself.

    An empty one is not a person's either.

    >>> declares_itself("Examplebot/2.1"), declares_itself("Mozilla/5.0 Firefox/140.0")
    (True, False)
    """
    # One pattern for all words would take ten times as long.
    text = user_agent.lower().replace(_PHONE_MAKER, " ")
    return not text or any(word in text for word in _PROGRAM_WORDS)


class BotMatch(NamedTuple):
    """*bot* is the name of a verified bot that may pass, or "". The other fields are those of `Visit`."""

    bot: str
    claim: str = ""
    proof: Proof = ""
    anomalies: tuple[str, ...] = ()


_NO_MATCH = BotMatch("")


class BotVerifier:
    """
    Recognises bots.

    Without *signatures* none is checked. Without *robots_compliance* no bot has to obey robots.txt.
    """

    def __init__(
        self,
        bots: Bots | None = None,
        signatures: Signatures | None = None,
        robots_compliance: RobotsCompliance | None = None,
    ) -> None:
        self.bots = Bots() if bots is None else bots
        self.robots_compliance = robots_compliance
        self._signatures = signatures
        self._any_bots = bool(self.bots)

    def match(self, request: Request, address: str, user_agent: str, target: str) -> BotMatch:
        """
        Return the bot that sent a request. *target* is the requested page without any marker.

        A valid signature decides. Without one, the claim in the user agent is checked by address.
        """
        signed = self._signatures.check(request) if self._signatures is not None else None
        if signed is None:
            return self.match_address(request.at, address, user_agent, request.host, target)
        if signed.bot is not None and signed.outcome == "verified":
            return self._verified(signed.bot, request.at, request.host, target)
        by_address = self.match_address(request.at, address, user_agent, request.host, target)
        if by_address.bot or signed.bot is None:
            return by_address
        anomalies = by_address.anomalies + _SIGNATURE_SIGNS.get(signed.outcome, ())
        if not by_address.claim:
            pending = signed.outcome == "pending"
            return BotMatch("", signed.bot.name, "pending" if pending else "unprovable", anomalies)
        return by_address._replace(anomalies=anomalies)

    def match_address(self, at: float, address: str, user_agent: str, host: str = "", target: str = "") -> BotMatch:
        """Return the bot with this address and user agent. Log lines have no more than these."""
        if not self._any_bots:
            return _NO_MATCH
        name = self.bots.verified(address, user_agent)
        bot = self.bots.claimed(user_agent)
        if name or bot is None:
            return BotMatch(name) if name else _NO_MATCH
        proof = self.bots.prove(bot, address, at)
        if proof == "verified":
            return self._verified(bot, at, host, target)
        anomalies = _ROBOTS_SIGN if proof == "unprovable" and self._disobeys(bot, at, host, target) else ()
        return BotMatch("", bot.name, proof, anomalies)

    def _verified(self, bot: KnownBot, at: float, host: str, target: str) -> BotMatch:
        anomalies: tuple[str, ...] = ()
        if self.robots_compliance is not None:
            if self._disobeys(bot, at, host, target):
                anomalies = _ROBOTS_SIGN
                self.robots_compliance.revoke(bot.name, at)
            if self.robots_compliance.is_revoked(bot.name, at):
                return BotMatch("", bot.name, "verified", anomalies)
        return BotMatch(bot.name if self.bots.allows(bot) else "", bot.name, "verified", anomalies)

    def _disobeys(self, bot: KnownBot, at: float, host: str, target: str) -> bool:
        return bool(
            self.robots_compliance and bot.robots and self.robots_compliance.disobeys(host, bot.robots, target, at)
        )

"""
Clearance: the encrypted cookie of a visitor who solved a challenge. It is bound to the visitor and graded on each use.

Addresses change and browsers are updated. A new address in the same network, or one changed signal, is evidence but
does not void the clearance. From another network it is void, unless the account is the same. A clearance that comes
from many networks at once is shared.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from os import urandom
from typing import Literal

import msgspec

from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.challenge.sealed_box import SealedBoxes
from hedgerow.core.address import network_of
from hedgerow.core.state import CLEARANCE
from hedgerow.core.visit import Visit
from hedgerow.errors import DECODE_ERRORS
from hedgerow.markers.token import TokenCodecs

COOKIE = b"hedgerow-clearance"

Grade = Literal["none", "good", "doubtful", "void", "shared"]
"""
none: no cookie, not issued by this site, or expired. good: unchanged. doubtful: valid, with evidence against it. void:
used by another visitor. shared: used from many networks.
"""

_DIGEST_BYTES = 8
_CLOCK_SKEW = 60.0
"""Seconds by which the clocks of several servers may differ."""


def own_cookie(name: bytes, *, secure: bool) -> bytes:
    """
    Return the name of one of Hedgerow's cookies. Over https no other host and no plain connection can set it.

    >>> own_cookie(b"hedgerow", secure=True), own_cookie(b"hedgerow", secure=False)
    (b'__Host-hedgerow', b'hedgerow')
    """
    return b"__Host-" + name if secure else name


class _Content(msgspec.Struct, frozen=True, array_like=True):
    id: bytes
    at: float
    until: float
    kind: ChallengeKind
    visitor: bytes
    prefix: bytes
    network: bytes
    user_agent: bytes
    language: bytes


class ClearanceCheck(msgspec.Struct, frozen=True):
    """
    The result of checking a clearance: grade, anomalies, and when and by which kind of challenge it was earned.

    *visitor* is a key of its own, so that several people behind one address are distinct visitors.
    """

    grade: Grade
    anomalies: tuple[str, ...] = ()
    at: float = 0.0
    kind: ChallengeKind | None = None
    visitor: str = ""

    @property
    def counts(self) -> bool:
        """True if the clearance gives its holder a visitor key of its own."""
        return self.grade in {"good", "doubtful"}


NONE = ClearanceCheck("none")


class ClearanceUsage:
    """The networks that used each clearance recently. Only the *max_entries* clearances used last are stored."""

    def __init__(self, *, networks: int = 3, window: float = 600.0, max_entries: int = 100_000) -> None:
        self._max_entries = max_entries
        self.configure(networks=networks, window=window)
        self._seen: OrderedDict[bytes, dict[bytes, float]] = OrderedDict()

    def configure(self, *, networks: int, window: float) -> None:
        """Set the number of *networks* within *window* seconds from which a clearance counts as shared."""
        self._too_many = networks
        self._window = window

    def __len__(self) -> int:
        return len(self._seen)

    def record_use(self, clearance: bytes, network: bytes, at: float) -> int:
        """Record a use, and return the number of networks within the window, including this one."""
        seen = self._seen.setdefault(clearance, {})
        self._seen.move_to_end(clearance)
        if len(self._seen) > self._max_entries:
            self._seen.popitem(last=False)
        return self.add(seen, network, at)

    def add(self, seen: dict[bytes, float], network: bytes, at: float) -> int:
        """Record *network* in the uses *seen* of one clearance, and return the number within the window."""
        seen[network] = at
        for other in [name for name, when in seen.items() if at - when > self._window]:
            del seen[other]
        if len(seen) > self._too_many:
            # The limit is reached, so older networks do not matter.
            del seen[min(seen, key=lambda name: seen[name])]
        return len(seen)

    def are_outdated(self, seen: dict[bytes, float], at: float) -> bool:
        return all(at - when > self._window for when in seen.values())

    def is_shared(self, networks: int) -> bool:
        return networks >= self._too_many


class Clearances:
    """Issues and checks clearances that are valid for *seconds*."""

    def __init__(
        self, codecs: TokenCodecs, *, seconds: float = 86_400.0, clearance_usage: ClearanceUsage | None = None
    ) -> None:
        self._boxes = SealedBoxes(codecs, b"hedgerow-clear")
        self._seconds = seconds
        self._usage = ClearanceUsage() if clearance_usage is None else clearance_usage

    def issue(self, visit: Visit, kind: ChallengeKind, at: float, *, language: str = "") -> tuple[str, str]:
        """Return the cookie's value and the key of a visitor who solved a challenge. An earlier key is kept."""
        had = visit.visitor.startswith(CLEARANCE)
        name = bytes.fromhex(visit.visitor.removeprefix(CLEARANCE)) if had else urandom(_DIGEST_BYTES)
        content = _Content(name, at, at + self._seconds, kind, *_signals(visit, language))
        return self._boxes.of(visit.host).seal(msgspec.msgpack.encode(content)), CLEARANCE + name.hex()

    def cookie(self, value: str, *, secure: bool) -> bytes:
        name, end = own_cookie(COOKIE, secure=secure), b"; Secure" if secure else b""
        return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%b" % (name, value.encode(), self._seconds, end)

    def check(self, value: str, visit: Visit, at: float, *, language: str = "") -> ClearanceCheck:
        """Check the cookie *value* that came with *visit*. *language* is its Accept-Language."""
        raw = self._boxes.of(visit.host).open(value) if value else None
        try:
            content = msgspec.msgpack.decode(raw, type=_Content) if raw is not None else None
        except DECODE_ERRORS:
            content = None
        if content is None or not content.at - _CLOCK_SKEW <= at < content.until:
            return NONE
        visitor, prefix, network, user_agent, own_language = _signals(visit, language)
        networks = self._usage.record_use(content.id, network, at)
        same_account = bool(visit.account) and visitor == content.visitor
        if self._usage.is_shared(networks) and not same_account:
            return ClearanceCheck("shared", ("clearance-shared",), content.at, content.kind)
        anomalies = []
        if network != content.network:
            anomalies.append("clearance-network")
        elif prefix != content.prefix:
            anomalies.append("clearance-address")
        if user_agent != content.user_agent:
            anomalies.append("clearance-user-agent")
        if own_language != content.language:
            anomalies.append("clearance-language")
        elsewhere = network != content.network and not same_account
        # One signal may change by itself. Two at once mean another browser.
        another = user_agent != content.user_agent and own_language != content.language
        another_account = visit.account != "" and visitor != content.visitor and prefix != content.prefix
        grade: Grade = "good"
        if elsewhere or another or another_account:
            grade = "void"
        elif anomalies:
            grade = "doubtful"
        return ClearanceCheck(grade, tuple(anomalies), content.at, content.kind, CLEARANCE + content.id.hex())


def _signals(visit: Visit, language: str) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    network = network_of(visit.address) or visit.prefix
    return _digest(visit.visitor), _digest(visit.prefix), _digest(network), _digest(visit.user_agent), _digest(language)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES).digest()

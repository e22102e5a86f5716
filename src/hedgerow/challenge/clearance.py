"""
Clearance: the cookie of a visitor that has solved a challenge. Sealed, bound to the visitor, and graded.

People's addresses change, and their browsers are updated: a change of the address within its network, or of one
signal, is evidence and voids nothing. From another network it does not count, unless an account says that it is the
same person. One that comes from many networks at once has been handed round.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from os import urandom
from typing import Literal

import msgspec

from hedgerow.challenge.hooks import ChallengeKind
from hedgerow.challenge.sealed_box import SealedBoxes
from hedgerow.core.address import network_of
from hedgerow.core.state import CLEARANCE
from hedgerow.core.visit import Visit
from hedgerow.markers.token import TokenCodecs

COOKIE = b"hedgerow-clearance"

Grade = Literal["none", "good", "doubtful", "void", "shared"]
"""
none: there is no cookie, or it is not ours, or over. good: as it was given. doubtful: counts, with evidence against it.
void: it is another's, or was; ask again. shared: many have it.
"""

_DIGEST_BYTES = 8
_AHEAD = 60.0
"""Seconds by which the clocks of several gates may differ."""


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
    What a cookie is worth: its grade, the signs against it, and when and by what it was earned.

    *visitor* is who has it: a visitor of its own, so that the people behind one address are told apart.
    """

    grade: Grade
    signs: tuple[str, ...] = ()
    at: float = 0.0
    kind: ChallengeKind | None = None
    visitor: str = ""

    @property
    def counts(self) -> bool:
        """Whether it makes its bearer a visitor of its own."""
        return self.grade in {"good", "doubtful"}


NONE = ClearanceCheck("none")


class ClearanceUsage:
    """From which networks each clearance has been seen lately: of the *most* seen last."""

    def __init__(self, *, networks: int = 3, window: float = 600.0, most: int = 100_000) -> None:
        self._most = most
        self.use(networks=networks, window=window)
        self._seen: OrderedDict[bytes, dict[bytes, float]] = OrderedDict()

    def use(self, *, networks: int, window: float) -> None:
        """So many *networks* within *window* seconds are too many from now on."""
        self._many = networks
        self._window = window

    def __len__(self) -> int:
        return len(self._seen)

    def see(self, clearance: bytes, network: bytes, at: float) -> int:
        """Note one, and say from how many networks it has come within the window, this one included."""
        seen = self._seen.setdefault(clearance, {})
        self._seen.move_to_end(clearance)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return self.add(seen, network, at)

    def add(self, seen: dict[bytes, float], network: bytes, at: float) -> int:
        """Note *network* among those that one clearance was *seen* from, and count those within the window."""
        seen[network] = at
        for other in [name for name, when in seen.items() if at - when > self._window]:
            del seen[other]
        if len(seen) > self._many:
            # Enough to know; a thousand networks are no reason to remember a thousand.
            del seen[min(seen, key=lambda name: seen[name])]
        return len(seen)

    def are_over(self, seen: dict[bytes, float], at: float) -> bool:
        """Whether all of that is too long ago to count."""
        return all(at - when > self._window for when in seen.values())

    def are_many(self, networks: int) -> bool:
        """Whether so many are too many for one person."""
        return networks >= self._many


class Clearances:
    """Gives and checks clearances that hold for *seconds*."""

    def __init__(
        self, seals: TokenCodecs, *, seconds: float = 86_400.0, clearance_usage: ClearanceUsage | None = None
    ) -> None:
        self._boxes = SealedBoxes(seals, b"hedgerow-clear")
        self._seconds = seconds
        self._sightings = ClearanceUsage() if clearance_usage is None else clearance_usage

    def give(self, visit: Visit, kind: ChallengeKind, at: float, *, language: str = "") -> tuple[str, str]:
        """
        The value of the cookie for who has solved a challenge of this *kind*, and the visitor that it makes it.

        Who has had one stays who it was.
        """
        had = visit.visitor.startswith(CLEARANCE)
        name = bytes.fromhex(visit.visitor.removeprefix(CLEARANCE)) if had else urandom(_DIGEST_BYTES)
        content = _Content(name, at, at + self._seconds, kind, *_signals(visit, language))
        return self._boxes.of(visit.host).seal(msgspec.msgpack.encode(content)), CLEARANCE + name.hex()

    def cookie(self, value: str, *, secure: bool) -> bytes:
        """The Set-Cookie header."""
        end = b"; Secure" if secure else b""
        return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%b" % (COOKIE, value.encode(), self._seconds, end)

    def check(self, value: str, visit: Visit, at: float, *, language: str = "") -> ClearanceCheck:
        """What the cookie *value* is worth that came with *visit*; *language* is its Accept-Language."""
        raw = self._boxes.of(visit.host).open(value) if value else None
        try:
            content = msgspec.msgpack.decode(raw, type=_Content) if raw is not None else None
        except msgspec.DecodeError:
            content = None
        if content is None or not content.at - _AHEAD <= at < content.until:
            return NONE
        visitor, prefix, network, user_agent, its_language = _signals(visit, language)
        networks = self._sightings.see(content.id, network, at)
        same_account = bool(visit.account) and visitor == content.visitor
        if self._sightings.are_many(networks) and not same_account:
            return ClearanceCheck("shared", ("clearance-shared",), content.at, content.kind)
        signs = []
        if network != content.network:
            signs.append("clearance-network")
        elif prefix != content.prefix:
            signs.append("clearance-address")
        if user_agent != content.user_agent:
            signs.append("clearance-user-agent")
        if its_language != content.language:
            signs.append("clearance-language")
        elsewhere = network != content.network and not same_account
        # One signal may change by itself; two at once are another browser.
        another = user_agent != content.user_agent and its_language != content.language
        another_account = visit.account != "" and visitor != content.visitor and prefix != content.prefix
        grade: Grade = "good"
        if elsewhere or another or another_account:
            grade = "void"
        elif signs:
            grade = "doubtful"
        return ClearanceCheck(grade, tuple(signs), content.at, content.kind, CLEARANCE + content.id.hex())


def _signals(visit: Visit, language: str) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    network = network_of(visit.address) or visit.prefix
    return _digest(visit.visitor), _digest(visit.prefix), _digest(network), _digest(visit.user_agent), _digest(language)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES).digest()

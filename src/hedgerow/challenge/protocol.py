"""
One protocol for all kinds: a ticket says where a visitor wanted to go, a challenge what it is asked. Both are sealed.

The ticket is made when a visit is stopped and lives for an hour, so that a late or wrong answer costs a person another
try and not the form that was filled in. The challenge lives for seconds and can be answered once, rightly or wrongly:
it is spent before the answer is looked at. It names its ticket, its visitor, its kind, its difficulty and its end, all
in one box, so there are no parts that could be exchanged. Each has a secret of its own under which its question is
signed and its answer digested; a solution of one is nothing to another.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest
from os import urandom
from typing import TypeVar

import msgspec

from hedgerow.challenge import proof_of_work as work
from hedgerow.challenge.captcha import Captcha, digest
from hedgerow.challenge.form_data import Form
from hedgerow.challenge.hooks import ChallengeFailure, ChallengeKind
from hedgerow.challenge.redirect_target import HOME, local_target
from hedgerow.challenge.sealed_box import SealedBoxes
from hedgerow.challenge.used_challenges import UsedChallenges
from hedgerow.core.visit import Visit
from hedgerow.markers.token import TokenCodecs

TICKET_SECONDS = 3600.0
_ID_BYTES = 12
_SECRET_BYTES = 16
_AHEAD = 60.0
_T = TypeVar("_T")
_NOWHERE = frozenset({"trap", "maze"})


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """
    Where a visitor wanted to go, and with what.

    *form* is the data of a POST; None where there was none or it could not be carried, which *lost* tells. *back* is
    the page that the form stood on.
    """

    id: bytes
    visitor: bytes
    at: float
    suspicion: float
    method: str
    target: str
    back: str = HOME
    form: Form | None = None
    lost: bool = False


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """What a visitor was asked. *answer* is the keyed digest of what an image or a recording says."""

    kind: ChallengeKind
    id: bytes
    ticket: bytes
    visitor: bytes
    expires: float
    difficulty: int
    secret: bytes
    answer: bytes = b""


class Issued(msgspec.Struct, frozen=True):
    """A challenge to be shown: *ticket* and *challenge* go back with the answer; the rest is what is shown."""

    kind: ChallengeKind
    ticket: str
    challenge: str
    seconds: float
    question: str = ""
    puzzle: Captcha | None = None


class Solved(msgspec.Struct, frozen=True):
    """An answer that counts."""

    kind: ChallengeKind
    ticket: Ticket


class Failed(msgspec.Struct, frozen=True):
    """One that does not. *ticket* is there where it could be read, so that another challenge can be given for it."""

    failure: ChallengeFailure
    ticket: Ticket | None = None
    kind: ChallengeKind | None = None


class Unconfirmed(msgspec.Struct, frozen=True):
    """An answer that an external provider is to confirm. The challenge has been spent."""

    ticket: Ticket


class Challenges:
    """
    Issues challenges and checks answers.

    *seconds* says how long one of each kind may take. *puzzles* gives an image or a recording, or None where none is
    ready.
    """

    def __init__(
        self,
        seals: TokenCodecs,
        spent: UsedChallenges,
        *,
        seconds: Callable[[ChallengeKind], float],
        puzzles: Callable[[ChallengeKind], Captcha | None],
        easiest: int = 5_000,
        hardest: int = 200_000,
    ) -> None:
        self._tickets = SealedBoxes(seals, b"hedgerow-ticket")
        self._challenges = SealedBoxes(seals, b"hedgerow-ask")
        self._spent = spent
        self._seconds = seconds
        self._puzzles = puzzles
        self._easiest = easiest
        self._hardest = hardest

    def ticket(self, visit: Visit, suspicion: float, *, form: Form | None = None, lost: bool = False) -> Ticket:
        """A ticket for a visit that was stopped. A link that leads nowhere leads home."""
        nowhere = visit.marker is not None and visit.marker.kind in _NOWHERE
        target = HOME if nowhere or visit.tampered else local_target(visit.asked or visit.target)
        method = visit.method if target is not None and not nowhere else "GET"
        return Ticket(
            urandom(_ID_BYTES),
            _visitor(visit),
            visit.at,
            suspicion,
            method,
            target or HOME,
            _back(visit),
            form if method == "POST" else None,
            lost,
        )

    def issue(self, visit: Visit, ticket: Ticket, kind: ChallengeKind) -> Issued | None:
        """A challenge of this *kind* for the holder of *ticket*; None where no puzzle is ready."""
        secret = urandom(_SECRET_BYTES)
        question, puzzle, answer = "", None, b""
        difficulty = work.difficulty_of(ticket.suspicion, self._easiest, self._hardest)
        if kind == "work":
            question = work.ask(difficulty, secret)
        elif kind in {"image", "audio"}:
            puzzle = self._puzzles(kind)
            if puzzle is None:
                return None
            answer = digest(puzzle.answer, secret)
        seconds = self._seconds(kind)
        challenge = Challenge(
            kind, urandom(_ID_BYTES), ticket.id, _visitor(visit), visit.at + seconds, difficulty, secret, answer
        )
        return Issued(
            kind,
            self.seal_ticket(ticket, visit),
            self._challenges.of(visit.host).seal(msgspec.msgpack.encode(challenge)),
            seconds,
            question,
            puzzle,
        )

    def seal_ticket(self, ticket: Ticket, visit: Visit) -> str:
        """A ticket as its holder carries it."""
        return self._tickets.of(visit.host).seal(msgspec.msgpack.encode(ticket))

    def read_ticket(self, token: str, visit: Visit) -> Ticket | None:
        """
        The ticket in *token*, or None where it is not ours or too old.

        Another visitor's ticket gives the way it names, and nothing of what its owner was sending: a person whose
        address has changed is asked again and still arrives.
        """
        ticket = _read(self._tickets, token, visit, Ticket)
        if ticket is None or not -_AHEAD <= visit.at - ticket.at <= TICKET_SECONDS:
            return None
        if local_target(ticket.target) is None or local_target(ticket.back) is None:
            return None
        if ticket.visitor != _visitor(visit):
            lost = ticket.lost or ticket.form is not None
            return msgspec.structs.replace(ticket, visitor=_visitor(visit), id=urandom(_ID_BYTES), form=None, lost=lost)
        return ticket

    def check(self, ticket_token: str, token: str, answer: str, visit: Visit) -> Solved | Failed | Unconfirmed:
        """
        Whether *answer* solves the challenge in *token*, which was given with *ticket_token* to who made *visit*.

        Whatever comes of it, the challenge is spent then; only one that was not ours, another's or over is not, for it
        could not be used anyway.
        """
        ticket = self.read_ticket(ticket_token, visit)
        challenge = _read(self._challenges, token, visit, Challenge)
        if ticket is None or challenge is None:
            return Failed("tampered", ticket)
        if challenge.visitor != _visitor(visit):
            return Failed("visitor", ticket)
        if challenge.ticket != ticket.id:
            return Failed("spliced", ticket)
        if visit.at >= challenge.expires:
            return Failed("expired", ticket, challenge.kind)
        if not self._spent.spend(challenge.id, challenge.expires, visit.at):
            return Failed("spent", ticket, challenge.kind)
        if challenge.kind == "external":
            return Unconfirmed(ticket)
        if challenge.kind == "work":
            right = work.is_solved(answer, challenge.secret)
        else:
            right = compare_digest(digest(answer, challenge.secret), challenge.answer)
        return Solved(challenge.kind, ticket) if right else Failed("wrong", ticket, challenge.kind)


def _read(boxes: SealedBoxes, token: str, visit: Visit, kind: type[_T]) -> _T | None:
    content = boxes.of(visit.host).open(token) if token else None
    try:
        return msgspec.msgpack.decode(content, type=kind) if content is not None else None
    except msgspec.DecodeError:
        # Sealed by a Hedgerow of another version.
        return None


def _visitor(visit: Visit) -> bytes:
    return blake2b(visit.visitor.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _back(visit: Visit) -> str:
    """The path of the page that led here, where it is one of this site."""
    _, separator, rest = visit.referrer.partition("://")
    host, slash, path = rest.partition("/")
    if not separator or host.lower() != visit.host.lower():
        return HOME
    return local_target(slash + path) or HOME

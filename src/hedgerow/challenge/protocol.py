"""
The challenge protocol for all kinds: an encrypted ticket (where the visitor wanted to go) and an encrypted challenge.

A ticket is valid for an hour, so that a late or wrong answer costs another try and not the form that was filled in. A
challenge is valid for seconds and can be answered once, right or wrong: it is marked as used before the answer is
checked. It contains its ticket, visitor, kind, difficulty and end in one box, so parts cannot be exchanged. Each
challenge has its own secret for its question and answer, so a solution fits no other challenge.
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
from hedgerow.challenge.interfaces import ChallengeFailure, ChallengeKind, UsedChallenges
from hedgerow.challenge.redirect_target import HOME, local_target
from hedgerow.challenge.sealed_box import SealedBoxes
from hedgerow.core.visit import HIDDEN_KINDS, Visit
from hedgerow.errors import DECODE_ERRORS
from hedgerow.markers.token import TokenCodecs

TICKET_SECONDS = 3600.0
_ID_BYTES = 12
_SECRET_BYTES = 16
_CLOCK_SKEW = 60.0
_T = TypeVar("_T")


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """
    Where a visitor wanted to go.

    *form* is the data of a POST. *lost* is true if there was data that could not be carried. *back* is the page with
    the form.
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
    """The encrypted part of a challenge. *answer* is the keyed digest of the right answer."""

    kind: ChallengeKind
    id: bytes
    ticket: bytes
    visitor: bytes
    expires: float
    difficulty: int
    secret: bytes
    answer: bytes = b""


class Issued(msgspec.Struct, frozen=True):
    """A challenge to show. *ticket* and *challenge* come back with the answer."""

    kind: ChallengeKind
    ticket: str
    challenge: str
    seconds: float
    question: str = ""
    puzzle: Captcha | None = None


class Solved(msgspec.Struct, frozen=True):
    kind: ChallengeKind
    ticket: Ticket


class Failed(msgspec.Struct, frozen=True):
    """A failed answer. *ticket*, if it could be read, allows another challenge for the same request."""

    failure: ChallengeFailure
    ticket: Ticket | None = None
    kind: ChallengeKind | None = None


class Unconfirmed(msgspec.Struct, frozen=True):
    """An answer that an external provider has to confirm. The challenge is used up."""

    ticket: Ticket


class Challenges:
    """Issues challenges that live for *seconds*, and checks answers. *puzzles* returns a CAPTCHA if one is ready."""

    def __init__(
        self,
        codecs: TokenCodecs,
        used_challenges: UsedChallenges,
        *,
        seconds: Callable[[ChallengeKind], float],
        puzzles: Callable[[ChallengeKind], Captcha | None],
        easiest: int = 5_000,
        hardest: int = 200_000,
    ) -> None:
        self._tickets = SealedBoxes(codecs, b"hedgerow-ticket")
        self._challenges = SealedBoxes(codecs, b"hedgerow-ask")
        self._used = used_challenges
        self._seconds = seconds
        self._puzzles = puzzles
        self._easiest = easiest
        self._hardest = hardest

    def ticket(self, visit: Visit, suspicion: float, *, form: Form | None = None, lost: bool = False) -> Ticket:
        """Return a ticket for a stopped visit. A link without a target leads to the home page."""
        without_target = visit.marker is not None and visit.marker.kind in HIDDEN_KINDS
        target = HOME if without_target or visit.tampered else local_target(visit.raw_target or visit.target)
        method = visit.method if target is not None and not without_target else "GET"
        return Ticket(
            urandom(_ID_BYTES), _visitor(visit), visit.at, suspicion, method, target or HOME, _back(visit),
            form if method == "POST" else None, lost,
        )  # fmt: skip

    def issue(self, visit: Visit, ticket: Ticket, kind: ChallengeKind, *, seconds: float = 0.0) -> Issued | None:
        """
        Return a challenge of this *kind* for the holder of *ticket*, or None if no CAPTCHA is ready.

        It lives for *seconds* instead of what is usual for its kind.
        """
        secret = urandom(_SECRET_BYTES)
        question, puzzle, answer = "", None, b""
        difficulty = work.difficulty_of(ticket.suspicion, self._easiest, self._hardest)
        if kind == "work":
            question, solution = work.make_question(difficulty)
            answer = digest(solution, secret)
        elif kind in {"image", "audio"}:
            puzzle = self._puzzles(kind)
            if puzzle is None:
                return None
            answer = digest(puzzle.answer, secret)
        seconds = seconds or self._seconds(kind)
        challenge = Challenge(
            kind, urandom(_ID_BYTES), ticket.id, _visitor(visit), visit.at + seconds, difficulty, secret, answer
        )
        token = self._challenges.of(visit.host).seal(msgspec.msgpack.encode(challenge))
        return Issued(kind, self.seal_ticket(ticket, visit), token, seconds, question, puzzle)

    def seal_ticket(self, ticket: Ticket, visit: Visit) -> str:
        return self._tickets.of(visit.host).seal(msgspec.msgpack.encode(ticket))

    def read_ticket(self, token: str, visit: Visit) -> Ticket | None:
        """
        Return the ticket in *token*, or None if it is invalid or too old.

        Another visitor's ticket keeps its target but loses its form data. So a person whose address changed is
        challenged again and still reaches the page.
        """
        ticket = _read(self._tickets, token, visit, Ticket)
        if ticket is None or not -_CLOCK_SKEW <= visit.at - ticket.at <= TICKET_SECONDS:
            return None
        if local_target(ticket.target) is None or local_target(ticket.back) is None:
            return None
        if ticket.visitor != _visitor(visit):
            lost = ticket.lost or ticket.form is not None
            return msgspec.structs.replace(ticket, visitor=_visitor(visit), id=urandom(_ID_BYTES), form=None, lost=lost)
        return ticket

    def check(self, ticket_token: str, token: str, answer: str, visit: Visit) -> Solved | Failed | Unconfirmed:
        """
        Check *answer* to the challenge in *token*, which was issued with *ticket_token*.

        Any answer uses up the challenge. Only an invalid, foreign or expired challenge is not marked as used, because
        it cannot count anyway.
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
        if not self._used.mark_used(challenge.id, challenge.expires, visit.at):
            return Failed("spent", ticket, challenge.kind)
        if challenge.kind == "external":
            return Unconfirmed(ticket)
        correct = compare_digest(digest(answer, challenge.secret), challenge.answer)
        return Solved(challenge.kind, ticket) if correct else Failed("wrong", ticket, challenge.kind)


def _read(boxes: SealedBoxes, token: str, visit: Visit, kind: type[_T]) -> _T | None:
    content = boxes.of(visit.host).open(token) if token else None
    try:
        return msgspec.msgpack.decode(content, type=kind) if content is not None else None
    except DECODE_ERRORS:
        # Encrypted by another version of Hedgerow.
        return None


def _visitor(visit: Visit) -> bytes:
    return blake2b(visit.visitor.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _back(visit: Visit) -> str:
    """Return the path of the referring page if it is on this site, else that of the home page."""
    _, separator, rest = visit.referrer.partition("://")
    host, slash, path = rest.partition("/")
    if not separator or host.lower() != visit.host.lower():
        return HOME
    return local_target(slash + path) or HOME

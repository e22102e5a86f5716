"""Whom the challenges tell what became of them: the gate, which keeps the visitors' identities."""

from __future__ import annotations

from typing import Literal, Protocol

from hedgerow.core.visit import Visit

ChallengeKind = Literal["work", "image", "audio", "external"]
"""
work: a calculation by the browser. image, audio: letters to read, digits to hear. external: a provider elsewhere.
"""

ChallengeFailure = Literal["tampered", "visitor", "spliced", "expired", "spent", "wrong", "outage"]
"""
Why an answer does not count. tampered: not our challenge. visitor: another's. spliced: parts of two. spent: it has
been answered before. outage: the external provider could not be asked.
"""


TOO_MANY = "too-many-challenges"
"""The code of the evidence against who has been challenged too often: its refusal has a page of its own."""


class ChallengeHooks(Protocol):
    """
    Told about each challenge, with the time.

    `issued` is called for each one that is shown. *again* says that it takes the place of one that this visitor has
    just had for the same request, because of another kind, a wrong answer or a late one: no new suspicion led to it.
    *key* is the visitor that the solver is from now on.
    """

    def issued(self, visit: Visit, kind: ChallengeKind, at: float, *, again: bool) -> None: ...

    def solved(self, visit: Visit, key: str, kind: ChallengeKind, at: float) -> None: ...

    def failed(self, visit: Visit, failure: ChallengeFailure, at: float) -> None: ...

"""Which challenges have been answered, right or wrong. The stores are in `stores.spent`."""

from __future__ import annotations

from typing import Protocol


class UsedChallenges(Protocol):
    """
    Challenges that have been answered, kept until they expire, within a fixed number of them.

    `spend` is true the first time that it is asked about *challenge*, and never again, whoever asks at the same moment
    in whatever process. *until* is when the challenge expires, *at* the time now. When there is no room, those that
    expire soonest are forgotten, and from then on everything that expires as soon as they do counts as spent: under a
    flood of answers the slow ones are asked again, and nothing is ever accepted twice.
    """

    def spend(self, challenge: bytes, until: float, at: float) -> bool: ...

    def close(self) -> None: ...

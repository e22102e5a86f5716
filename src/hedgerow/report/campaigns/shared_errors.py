"""
Scripts: short-lived sources that do the same few things each time they come, and are told the same errors.

The parts of a botnet stand all over the world and ask for three pages each: no network, no diet and no series ties them
together. But they play one script: the log-in page four times, refused each time, or a file that was never there. What
people and honest programs ask for by the thousand, the home page, the feed, is no script: there has to be an error in
it. A script of a single request may be a dead link that many have followed; it counts only where many of those who
played it did so more than once.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.campaigns.traffic_similarity import SimilarGroups

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PAUSE = 600.0
_ERRORS_FROM = 400
_FACTOR = 0x9E3779B97F4A7C15
_BITS = (1 << 64) - 1


class SharedErrorLimits(msgspec.Struct, frozen=True):
    """
    *members*: the fewest that play a script. *share*: the part of a source's visits that are the script, at the least;
    *again*: the part of the sources of a script of one request that came more than once.
    """

    members: int = 3
    share: float = 0.5
    again: float = 0.25


def find(
    sources: Ints, times: Floats, pages: Ints, answers: Ints, limits: SharedErrorLimits | None = None
) -> list[SimilarGroups]:
    """
    The campaigns among requests, given by source, time, page and the answer's status; the largest come first.

    The requests come by source, and by time where that is the same.
    """
    wanted = limits or SharedErrorLimits()
    if not len(sources):
        return []
    begins = np.ones(len(sources), dtype=np.bool_)
    begins[1:] = (sources[1:] != sources[:-1]) | (np.diff(times) > _PAUSE)
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(sources)))
    owner = sources[starts]
    visits = np.bincount(owner)
    # Most visits have no error in them: only the others are scripts.
    error = np.maximum.reduceat(answers, starts) >= _ERRORS_FROM
    if not error.any():
        return []
    inside = np.repeat(error, lengths)
    owner, lengths = owner[error], lengths[error]
    script = _scripts(pages[inside], answers[inside], lengths)
    # Two small numbers in one: to sort those takes a tenth of what sorting pairs does.
    different, number = np.unique(script, return_inverse=True)
    keys, first, plays = np.unique(owner * len(different) + number.reshape(-1), return_index=True, return_counts=True)
    pairs = np.column_stack((keys // len(different), different[keys % len(different)]))
    found = []
    playing = np.flatnonzero(plays > wanted.share * visits[pairs[:, 0]])
    playing = playing[np.argsort(pairs[playing, 1], kind="stable")]
    cuts = np.flatnonzero(np.diff(pairs[playing, 1])) + 1
    for who in np.split(playing, cuts):
        length = int(lengths[first[who[0]]]) if len(who) else 0
        if len(who) < wanted.members or (length == 1 and np.mean(plays[who] > 1) < wanted.again):
            continue
        members = tuple(pairs[who, 0].tolist())
        found.append(SimilarGroups("same script", members, 1.0, _text(len(members), length)))
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _text(members: int, length: int) -> str:
    if length == 1:
        return f"{members:,} sources that come for one and the same thing, and are told the same error."
    return f"{members:,} sources that do the same {length} things each time they come, and are told the same errors."


def _scripts(pages: Ints, answers: Ints, lengths: Ints) -> Ints:
    """A number for what is asked and answered in each visit, in its order; *lengths* are those of the visits."""
    starts = np.cumsum(lengths) - lengths
    each = pages.view(np.uint64) * np.uint64(_FACTOR) ^ answers.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    each ^= each >> np.uint64(29)
    nth = np.arange(len(pages)) - np.repeat(starts, lengths)
    powers = np.ones(int(lengths.max()), np.uint64)
    for k in range(1, len(powers)):
        powers[k] = np.uint64(int(powers[k - 1]) * (_FACTOR | 1) & _BITS)
    # Of unsigned numbers what is too large falls off.
    return np.add.reduceat((each | np.uint64(1)) * powers[nth], starts).view(np.int64)

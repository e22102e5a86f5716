"""
Traces: short-lived sources that do the same thing, wherever they stand.

Two marks that chance does not leave twice: the same pages in the same order, as workers do that go through one list;
and the same minutes, again and again, as workers do that are driven by one clock. A mark that many sources leave (the
home page and then the first link) is nobody's.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.campaigns.traffic_similarity import SimilarGroups
from hedgerow.report.shape.series import changes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PAGES = 4
_MINUTE = 60.0


class SharedPathLimits(msgspec.Struct, frozen=True):
    """
    What ties two sources: *marks* marks in common, *share* of the smaller one's and *beyond* times as many as chance
    would give them; none of which more than *most* sources have. *members*: the fewest of a campaign.
    """

    marks: int = 5
    share: float = 0.5
    beyond: float = 10.0
    most: int = 20
    members: int = 3


def find(sources: Ints, times: Floats, numbers: Ints, limits: SharedPathLimits | None = None) -> list[SimilarGroups]:
    """
    The campaigns among requests, given by source, time and the number of the target; the largest come first.

    The requests come by source, and by time where that is the same.
    """
    wanted = limits or SharedPathLimits()
    walks = _tied(*_walks(sources, numbers), wanted)
    taken = np.isin(sources, [member for group in walks for member in group])
    minutes = np.floor(times / _MINUTE).astype(np.int64)
    clocks = _tied(sources[~taken], minutes[~taken], wanted)
    found = [
        SimilarGroups("same walk", group, 1.0, f"{len(group):,} sources that ask for the same pages in the same order.")
        for group in walks
    ] + [
        SimilarGroups(
            "same minutes", group, 1.0, f"{len(group):,} sources that come in the same minutes again and again."
        )
        for group in clocks
    ]
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _walks(sources: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Each source with every run of four pages that follow each other, as a number; a page that is repeated is one."""
    moved = changes(sources, numbers)
    sources, numbers = sources[moved], numbers[moved]
    if len(sources) < _PAGES:
        return sources[:0], numbers[:0]
    whole = sources[_PAGES - 1 :] == sources[: 1 - _PAGES]
    # Two pages, and two of these: numbers of two small numbers are exact.
    twos = _in_one(numbers, 1)
    return sources[_PAGES - 1 :][whole], _in_one(twos, 2)[whole]


def _in_one(values: Ints, apart: int) -> Ints:
    """A number for each value and the one that comes so many places later."""
    small = _numbered(values)
    return small[:-apart] * len(values) + small[apart:]


def _numbered(values: Ints) -> Ints:
    """The same number for the same value, from 0 on."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _tied(sources: Ints, marks: Ints, limits: SharedPathLimits) -> list[tuple[int, ...]]:
    """Groups of sources that are tied to one another, directly or through others."""
    if not len(sources):
        return []
    size = int(sources.max()) + 1
    keys = np.sort(_numbered(marks) * size + sources)
    mark, source = np.divmod(keys[changes(keys)], size)
    has = np.bincount(source)
    all_marks = int(mark[-1]) + 1
    tied, common = _common(mark, source, limits.most)
    chance = has[tied[:, 0]] * has[tied[:, 1]] / all_marks
    least = limits.share * np.minimum(has[tied[:, 0]], has[tied[:, 1]])
    enough = common >= np.maximum(np.maximum(limits.marks, least), limits.beyond * chance)
    leader: dict[int, int] = {}

    def find_leader(one: int) -> int:
        while leader.setdefault(one, one) != one:
            one = leader[one]
        return one

    for one, other in tied[enough].tolist():
        first, second = sorted((find_leader(one), find_leader(other)))
        leader[second] = first
    groups: dict[int, list[int]] = defaultdict(list)
    for one in sorted(leader):
        groups[find_leader(one)].append(one)
    return [tuple(group) for group in groups.values() if len(group) >= limits.members]


def _common(mark: Ints, source: Ints, most: int) -> tuple[Ints, Ints]:
    """
    Of pairs of a *mark* and a *source* that has it, sorted: which two sources have marks in common, and how many.

    Those that more than *most* sources have do not count.
    """
    size = int(source.max()) + 1
    lengths = np.bincount(mark)
    starts = np.cumsum(lengths) - lengths
    found = [np.zeros(0, dtype=np.int64)]
    for length in range(2, most + 1):
        # All marks that so many sources have at once.
        inside = source[starts[lengths == length][:, None] + np.arange(length)]
        one, other = np.triu_indices(length, 1)
        found.append((inside[:, one] * size + inside[:, other]).ravel())
    keys, common = np.unique(np.concatenate(found), return_counts=True)
    return np.column_stack(np.divmod(keys, size)), common

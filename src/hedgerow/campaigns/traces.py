"""
Traces: short-lived sources that do the same thing, wherever they stand.

Two marks that chance does not leave twice: the same pages in the same order, as workers do that go through one list;
and the same minutes, again and again, as workers do that are driven by one clock. A mark that many sources leave (the
home page and then the first link) is nobody's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.campaigns.similarity import Found

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PAGES = 4
_MINUTE = 60.0


class Limits(msgspec.Struct, frozen=True):
    """
    What ties two sources: *marks* marks in common, *share* of the smaller one's and *beyond* times as many as chance
    would give them; none of which more than *most* sources have. *members*: the fewest of a campaign.
    """

    marks: int = 5
    share: float = 0.5
    beyond: float = 10.0
    most: int = 20
    members: int = 3


def find(sources: Ints, times: Floats, numbers: Ints, limits: Limits | None = None) -> list[Found]:
    """The campaigns among requests, given by source, time and the number of the target; the largest come first."""
    wanted = limits or Limits()
    order = np.lexsort((times, sources))
    sources, times, numbers = sources[order], times[order], numbers[order]
    walks = _tied(*_walks(sources, numbers), wanted)
    taken = np.isin(sources, [member for group in walks for member in group])
    minutes = np.floor(times / _MINUTE).astype(np.int64)
    clocks = _tied(sources[~taken], minutes[~taken], wanted)
    found = [
        Found("same walk", group, 1.0, f"{len(group)} sources that ask for the same pages in the same order.")
        for group in walks
    ] + [
        Found("same minutes", group, 1.0, f"{len(group)} sources that come in the same minutes again and again.")
        for group in clocks
    ]
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _walks(sources: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Each source with every run of four pages that follow each other, as a number; a page that is repeated is one."""
    moved = np.ones(len(sources), dtype=np.bool_)
    moved[1:] = (sources[1:] != sources[:-1]) | (numbers[1:] != numbers[:-1])
    sources, numbers = sources[moved], numbers[moved]
    if len(sources) < _PAGES:
        return sources[:0], numbers[:0]
    whole = sources[_PAGES - 1 :] == sources[: 1 - _PAGES]
    marks = _numbered(numbers)
    for _ in range(_PAGES - 1):
        # A run and the next page: numbers of two small numbers are exact.
        before, numbers = marks[:-1], numbers[1:]
        marks = _numbered(before * np.int64(len(numbers) + 1) + _numbered(numbers))
    return sources[_PAGES - 1 :][whole], marks[whole]


def _numbered(values: Ints) -> Ints:
    """The same number for the same value, from 0 on."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _tied(sources: Ints, marks: Ints, limits: Limits) -> list[tuple[int, ...]]:
    """Groups of sources that are tied to one another, directly or through others."""
    if not len(sources):
        return []
    size = int(sources.max()) + 1
    pairs = np.column_stack(np.divmod(np.unique(_numbered(marks) * size + sources), size))
    has = Counter(pairs[:, 1].tolist())
    all_marks = len(np.unique(pairs[:, 0]))
    starts = np.flatnonzero(np.r_[True, pairs[1:, 0] != pairs[:-1, 0]])
    lengths = np.diff(np.r_[starts, len(pairs)])
    common: Counter[tuple[int, int]] = Counter()
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if 1 < length <= limits.most:
            common.update(combinations(pairs[start : start + length, 1].tolist(), 2))
    leader: dict[int, int] = {}

    def find_leader(one: int) -> int:
        while leader.setdefault(one, one) != one:
            one = leader[one]
        return one

    for (one, other), count in sorted(common.items()):
        chance = has[one] * has[other] / all_marks
        if count >= max(limits.marks, limits.share * min(has[one], has[other]), limits.beyond * chance):
            first, second = sorted((find_leader(one), find_leader(other)))
            leader[second] = first
    groups: dict[int, list[int]] = defaultdict(list)
    for one in sorted(leader):
        groups[find_leader(one)].append(one)
    return [tuple(group) for group in groups.values() if len(group) >= limits.members]

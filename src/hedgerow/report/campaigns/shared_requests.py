"""
Shared requests: short-lived sources that do the same thing, wherever they are.

The members of a botnet are spread over the world and ask for three pages each: no network, page mix or series connects
them. Three things do:

- Shared errors. They run one script: the log-in page four times, refused each time, or a file that never existed.
  Requests of people and honest programs, such as the home page or the feed, are no script: a script contains an error.
  A script of one request may be a dead link that many followed; it counts only if many sources ran it more than once.
- Shared paths: the same pages in the same order, from workers with one list.
- The same minutes again and again, from workers with one clock. A mark of many sources, such as the home page and then
  the first link, does not count. Neither do full hours and their quarters, at which everybody's timers start.
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

_PAUSE = 600.0
_ERRORS_FROM = 400
_FACTOR = 0x9E3779B97F4A7C15
_BITS = (1 << 64) - 1
_PAGES = 4
_MINUTE = 60.0
_QUARTER = 15


class SharedErrorLimits(msgspec.Struct, frozen=True):
    """
    *members*: fewest sources with one script. *share*: smallest part of a source's visits that are the script. *again*:
    part of the sources of a one-request script that came more than once.
    """

    members: int = 3
    share: float = 0.5
    again: float = 0.25


def find_shared_errors(
    sources: Ints, times: Floats, pages: Ints, answers: Ints, limits: SharedErrorLimits | None = None
) -> list[SimilarGroups]:
    """
    Return the campaigns among requests (source, time, page, status), largest first. Requests are sorted by source and
    time.
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
    """Return a number for the requests and answers of each visit, in order. *lengths* are the lengths of the visits."""
    starts = np.cumsum(lengths) - lengths
    each = pages.view(np.uint64) * np.uint64(_FACTOR) ^ answers.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    each ^= each >> np.uint64(29)
    nth = np.arange(len(pages)) - np.repeat(starts, lengths)
    powers = np.ones(int(lengths.max()), np.uint64)
    for k in range(1, len(powers)):
        powers[k] = np.uint64(int(powers[k - 1]) * (_FACTOR | 1) & _BITS)
    # Of unsigned numbers what is too large falls off.
    return np.add.reduceat((each | np.uint64(1)) * powers[nth], starts).view(np.int64)


class SharedPathLimits(msgspec.Struct, frozen=True):
    """
    Two sources are tied by at least *marks* common marks, *share* of the smaller one's marks, and *beyond* times as
    many as chance would give. Marks of more than *most* sources do not count. *members*: fewest sources of a campaign.
    """

    marks: int = 5
    share: float = 0.5
    beyond: float = 10.0
    most: int = 20
    members: int = 3


def find_shared_paths(
    sources: Ints, times: Floats, numbers: Ints, limits: SharedPathLimits | None = None
) -> list[SimilarGroups]:
    """
    Return the campaigns among requests (source, time, number of the target), largest first. Requests are sorted by
    source and time.
    """
    wanted = limits or SharedPathLimits()
    walks = _tied(*_walks(sources, numbers), wanted)
    taken = np.isin(sources, [member for group in walks for member in group])
    minutes = np.floor(times / _MINUTE).astype(np.int64)
    free = ~taken & (minutes % _QUARTER != 0)
    clocks = _tied(sources[free], minutes[free], wanted)
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
    """Return each source with every run of four successive pages, as a number. A repeated page counts once."""
    moved = changes(sources, numbers)
    sources, numbers = sources[moved], numbers[moved]
    if len(sources) < _PAGES:
        return sources[:0], numbers[:0]
    whole = sources[_PAGES - 1 :] == sources[: 1 - _PAGES]
    # Two pages, and two of these: numbers of two small numbers are exact.
    twos = _in_one(numbers, 1)
    return sources[_PAGES - 1 :][whole], _in_one(twos, 2)[whole]


def _in_one(values: Ints, apart: int) -> Ints:
    """Return one number for each value and the value *apart* positions later."""
    small = _numbered(values)
    return small[:-apart] * len(values) + small[apart:]


def _numbered(values: Ints) -> Ints:
    """Replace values by numbers from 0 on."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _tied(sources: Ints, marks: Ints, limits: SharedPathLimits) -> list[tuple[int, ...]]:
    """Return groups of sources that are tied directly or through others."""
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
    Count the common marks of each two sources. *mark* and *source* are sorted pairs; marks of more than *most* sources
    do not count.
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

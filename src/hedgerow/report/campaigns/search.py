"""
Search: all campaigns of a log, found in turn.

First come sources whose series rise and fall together, then network groups, then sources with the same short visits,
then sources with the same paths. A source in one campaign is not considered again, except that a whole campaign joins a
later one if most of its members belong there. People are never members; a source that only looks like a person may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.campaigns import network_groups as company
from hedgerow.report.campaigns import traffic_similarity as similarity
from hedgerow.report.campaigns.group_links import Requests
from hedgerow.report.campaigns.shared_requests import find_shared_errors, find_shared_paths
from hedgerow.report.campaigns.traffic_similarity import SimilarGroups
from hedgerow.report.shape.series import Counts, SeriesPlan

_FEWEST = 3
_HOUR = 3600.0
_AROUND = 90.0

MOST_SERIES = 100_000
"""Sources whose series are compared: those with most requests."""


def find(
    names: Sequence[str],
    people: NDArray[np.bool_],
    counts: Counts,
    plan: SeriesPlan,
    requests: Requests,
    agents: Sequence[str] | None = None,
    *,
    limits: similarity.SimilarityLimits | None = None,
    doubtful: NDArray[np.bool_] | None = None,
    declared: NDArray[np.int64] | None = None,
) -> list[SimilarGroups]:
    """
    Return the campaigns of a log, largest first.

    *names* are the sources and *people* marks those that are people. *requests* are some hundred of each other source.
    *agents* are the user agents, None to hide them. *doubtful* marks people who only look like people and count as
    crawlers among crawlers. *declared* is a number for what each source says it is (0: nothing): no campaign has two of
    them.
    """
    timed = _timed(requests, len(names))
    # Series are compared beside the rest: that is arithmetic, which does not need Python's lock.
    with ThreadPoolExecutor(1, thread_name_prefix="hedgerow-series") as beside:
        by_series = beside.submit(synchronous, people | timed, counts, plan, limits or similarity.SimilarityLimits())
        together = company.find(names, people, requests, agents, doubtful=doubtful)
        played = find_shared_errors(requests.sources, requests.times, requests.pages, requests.answers)
    found = by_series.result()
    found += _left(found, together)
    found = _joined(found, played)
    kept = ~np.isin(requests.sources, [member for one in found for member in one.members])
    found += find_shared_paths(requests.sources[kept], requests.times[kept], requests.pages[kept])
    if declared is not None:
        found = [part for one in found for part in _by_declaration(one, declared)]
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _timed(requests: Requests, size: int) -> NDArray[np.bool_]:
    """Return which sources mostly come on the full hour. Strangers with such timers rise and fall together."""
    seconds = requests.times % _HOUR
    near = (seconds < _AROUND) | (seconds > _HOUR - _AROUND)
    total = np.bincount(requests.sources, minlength=size)
    return np.asarray((2 * np.bincount(requests.sources[near], minlength=size) > total) & (total > 0), np.bool_)


def _by_declaration(one: SimilarGroups, declared: NDArray[np.int64]) -> Iterator[SimilarGroups]:
    """Yield *one* divided by what its members say they are. Others stay with the most frequent of these."""
    said = declared[list(one.members)].tolist()
    bots = Counter(filter(None, said))
    if len(bots) < 2:  # noqa: PLR2004 - nothing to divide
        yield one
        return
    for turn, (bot, _) in enumerate(sorted(bots.items(), key=lambda item: (-item[1], item[0]))):
        own = {bot} if turn else {bot, 0}
        members = tuple(member for member, number in zip(one.members, said, strict=True) if number in own)
        if len(members) >= _FEWEST:
            shifts = tuple(shift for shift in one.shifts if shift[0] in members)
            text = f"{len(members):,} {one.text.partition(' ')[2]}"
            yield one._replace(members=members, text=text, shifts=shifts)


def synchronous(
    people: NDArray[np.bool_], counts: Counts, plan: SeriesPlan, limits: similarity.SimilarityLimits
) -> list[SimilarGroups]:
    """
    Run algorithm 1 in each window of the log, over sources that are not *people* and have enough requests in it.

    Of a source that is in several campaigns, in one window each, the largest campaign counts.
    """
    found: list[SimilarGroups] = []
    for start, mine in windows(~people, counts, plan, limits):
        matrix = np.zeros((len(mine), plan.points))
        for part, block in counts.blocks(mine, np.full(len(mine), start), plan.points):
            matrix[part] = block
        found += [
            one._replace(
                members=tuple(mine[list(one.members)].tolist()),
                shifts=tuple((int(mine[member]), later) for member, later in one.shifts),
            )
            for one in similarity.find(matrix, limits, interval=plan.interval)
        ]
    return _each_once(found)


def windows(
    chosen: NDArray[np.bool_], counts: Counts, plan: SeriesPlan, limits: similarity.SimilarityLimits
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the start of each window with the *chosen* sources that have enough requests in it: the busiest."""
    if not plan.points:
        return
    kept = (chosen & (counts.totals >= limits.requests))[counts.rows]
    rows, bins, values = counts.rows[kept], counts.bins[kept], counts.values[kept]
    order = np.argsort(bins, kind="stable")
    rows, bins, values = rows[order], bins[order], values[order]
    for start in plan.starts:
        begin, end = np.searchsorted(bins, (start, start + plan.points)).tolist()
        volume = np.bincount(rows[begin:end], values[begin:end], counts.size)
        active = np.bincount(rows[begin:end], minlength=counts.size)
        mine = np.flatnonzero((volume >= limits.requests) & (active >= limits.active))
        if len(mine) >= limits.members:
            yield start, np.sort(mine[np.lexsort((mine, -volume[mine]))[:MOST_SERIES]])


def _each_once(found: list[SimilarGroups]) -> list[SimilarGroups]:
    """Return the campaigns, largest first, without members of a larger one."""
    kept: list[SimilarGroups] = []
    taken: set[int] = set()
    for one in sorted(found, key=lambda one: (-len(one.members), one.members)):
        members = tuple(member for member in one.members if member not in taken)
        if len(members) >= _FEWEST:
            text = f"{len(members):,} {one.text.partition(' ')[2]}"
            shifts = tuple(shift for shift in one.shifts if shift[0] in members)
            kept.append(one._replace(members=members, text=text, shifts=shifts))
            taken.update(members)
    return kept


def _joined(before: list[SimilarGroups], played: list[SimilarGroups]) -> list[SimilarGroups]:
    """
    Add the campaigns *played*. A campaign in *before* joins one of them if most of its members do; other members stay.
    """
    found: dict[int, SimilarGroups] = dict(enumerate(before))
    belongs = {member: number for number, one in found.items() for member in one.members}
    numbers = count(len(before))
    for one in played:
        shared = Counter(belongs[member] for member in one.members if member in belongs)
        whole = [number for number, here in shared.items() if 2 * here > len(found[number].members)]
        members = {member for member in one.members if member not in belongs}
        members.update(*(found[number].members for number in whole))
        if len(members) >= _FEWEST:
            shifts = [shift for number in whole for shift in found.pop(number).shifts]
            # Some may have stayed where they were.
            text = f"{len(members):,} {one.text.partition(' ')[2]}"
            new = next(numbers)
            found[new] = one._replace(members=tuple(sorted(members)), text=text, shifts=tuple(sorted(shifts)))
            belongs |= dict.fromkeys(members, new)
    return list(found.values())


def _left(before: list[SimilarGroups], later: list[SimilarGroups]) -> list[SimilarGroups]:
    """Return the *later* campaigns. One that shares members with a synchronous campaign absorbs it."""
    found = []
    taken: set[int] = set()
    for one in later:
        overlapping = [other for other in before if set(other.members) & set(one.members)]
        members = set(one.members) - taken
        text = f"{len(members):,} {one.text.partition(' ')[2]}"
        members.update(*(other.members for other in overlapping))
        if len(members) < _FEWEST:
            continue
        shifts = sorted(shift for other in overlapping for shift in other.shifts)
        for other in overlapping:
            before.remove(other)
            taken.update(other.members)
        text = " ".join([text, *(other.text for other in overlapping)])
        found.append(one._replace(members=tuple(sorted(members)), text=text, shifts=tuple(shifts)))
    return found

"""
Finding: all campaigns of a log, each way of looking after the other.

First those whose series rise and fall together, then those that the site refuses alike, then those that are in one
another's company, then those that leave the same traces; who already belongs to one is not looked at again. People are
never members.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.campaigns import company, refused, similarity, traces
from hedgerow.campaigns.similarity import Found
from hedgerow.shape.series import Counts, Plan

MOST_SERIES = 100_000
"""Sources whose series are compared: those with most requests."""


def find(
    names: Sequence[str],
    people: NDArray[np.bool_],
    counts: Counts,
    plan: Plan,
    requests: company.Requests,
    robots: refused.Robots,
    agents: Sequence[str] | None = None,
    *,
    limits: similarity.Limits | None = None,
) -> list[Found]:
    """
    The campaigns of a log whose sources are called *names*, the largest first.

    *people*: which of them are people. *requests*: of those that are not, all or a few hundred of each. *robots*: how
    each source fared with robots.txt. *agents*: each source's user agent, or None to hide them.
    """
    found = _synchronous(people, counts, plan, limits or similarity.Limits())
    alike: list[Found] = []
    if agents is None:
        # A name tells more.
        alike = refused.find([company.network_of(name)[0] for name in names], people, robots)
    apart = {member for one in alike for member in one.members}
    found += _left(
        found, company.find(["" if n in apart else name for n, name in enumerate(names)], people, requests, agents)
    )
    found += _left(found, alike)
    kept = ~np.isin(requests.sources, [member for one in found for member in one.members])
    found += traces.find(requests.sources[kept], requests.times[kept], requests.pages[kept])
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _synchronous(people: NDArray[np.bool_], counts: Counts, plan: Plan, limits: similarity.Limits) -> list[Found]:
    """Over each source's busiest window: those that are busy in the same one are compared."""
    if not plan.points:
        return []
    active = np.bincount(counts.rows, minlength=counts.size)
    sources = np.nonzero(~people & (active >= limits.active))[0]
    totals = counts.totals[sources]
    sources = np.sort(sources[np.lexsort((sources, -totals))[:MOST_SERIES]])
    starts = counts.busiest(plan)[sources]
    found = []
    for start in np.unique(starts).tolist():
        mine = sources[starts == start]
        matrix = np.zeros((len(mine), plan.points))
        for part, block in counts.blocks(mine, np.full(len(mine), start), plan.points):
            matrix[part] = block
        found += [
            one._replace(members=tuple(mine[list(one.members)].tolist()))
            for one in similarity.find(matrix, limits, interval=plan.interval)
        ]
    return found


def _left(before: list[Found], later: list[Found]) -> list[Found]:
    """The *later* campaigns; one that shares members with a synchronous one takes it in."""
    found = []
    for one in later:
        overlapping = [other for other in before if set(other.members) & set(one.members)]
        members = set(one.members).union(*(other.members for other in overlapping))
        text = " ".join([one.text, *(other.text for other in overlapping)])
        for other in overlapping:
            before.remove(other)
        found.append(one._replace(members=tuple(sorted(members)), text=text))
    return found

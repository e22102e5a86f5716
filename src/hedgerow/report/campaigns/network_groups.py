"""
Company: short-lived sources that belong together by what they share.

A source with a dozen requests has no series to compare. But the workers of one crawler stand in the same networks, ask
for the same kinds of pages in the same proportions (their *diet*, see `page_mix`), and divide the work: what one has
fetched another does not. So sources that are no people's are first put together by network (IPv4 /24 and its neighbours
in a /20, IPv6 /48), or by a user agent that no person has, where it is not hidden. Then these groups, which have
requests enough, are compared: the same diet and the same hours, or the same diet but not the same pages, make one
campaign of several networks. So does it where two groups come within seconds of one another again and again: one asks
for robots.txt, the other for the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.campaigns.dense_networks import full, network_of
from hedgerow.report.campaigns.page_mix import page_mix, same
from hedgerow.report.campaigns.traffic_similarity import SimilarGroups
from hedgerow.report.shape.series import changes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_HOURS = 6 * 3600.0
_LONGEST_SECTION = 16
_LEAST_SPANS = 8
_MOST_TIMED = 150
_MOST_COMINGS = 2000
_SECONDS = 20.0
_PAUSE = 300.0
ROBOTS = "/robots.txt"
_SHIFTS = [sign * 60.0 * minutes for minutes in (10, 20, 30, 45, 60, 90, 120) for sign in (-1, 1)]


class NetworkGroupLimits(msgspec.Struct, frozen=True):
    """
    What makes company.

    *members*: the fewest sources of a group. *people*: the largest share of people in a network that counts. *around*:
    the fewest others in a network of whose crawler a source is that only looks like a person. *requests* and *pages*:
    the fewest requests and different pages of a group that is compared with others, and *kinds* the fewest kinds of
    pages (as if all were equally frequent). *odds*: how much likelier one diet is than two, if the groups are also
    *in_step* (correlation of six-hour counts), or have at most *in_common* of the smaller one's pages in common.

    *meetings*: how often two groups come within seconds of one another at the least, *meeting* the part of the smaller
    one's comings that this is, and *beyond* how many times as often as by chance.
    """

    members: int = 3
    people: float = 0.2
    around: int = 10
    requests: int = 50
    pages: int = 25
    kinds: float = 3.0
    odds: float = 1e6
    in_step: float = 0.7
    in_common: float = 0.75
    meetings: int = 5
    meeting: float = 0.1
    beyond: float = 5.0


class Requests(NamedTuple):
    """
    Requests of the sources that are no people's: the number of the source, the time, the page, the kind of page, the
    answer's status. They come by source, and by time where that is the same.

    Pages are any numbers that are equal where they are, kinds are numbers from 0 on; *robots* is the page robots.txt,
    if anybody asked for it. Where a log is too large, a few hundred requests of each source are enough.
    """

    sources: Ints
    times: Floats
    pages: Ints
    kinds: Ints
    answers: Ints
    robots: int | None = None

    @staticmethod
    def of_targets(
        sources: Ints, times: Floats, numbers: Ints, targets: Sequence[str], answers: Ints | None = None
    ) -> Requests:
        """Of the numbers of *targets*, paths with queries, whose kinds are found by `kind_of_page`; in any order."""
        kinds: dict[tuple[int, bool, str], int] = {}
        kind = [kinds.setdefault(kind_of_page(target), len(kinds)) for target in targets]
        told = np.zeros(len(sources), dtype=np.int64) if answers is None else answers
        robots = targets.index(ROBOTS) if ROBOTS in targets else None
        order = np.lexsort((times, sources))
        numbers = numbers[order]
        kinds_of = np.array(kind, dtype=np.int64)[numbers]
        return Requests(sources[order], times[order], numbers, kinds_of, told[order], robots)


class _Group(NamedTuple):
    """Sources that belong together; *networks* is empty where they are not told by those."""

    networks: tuple[str, ...]
    members: tuple[int, ...]
    text: str


class _Link(NamedTuple):
    """Why two groups belong together, and how alike their diets are."""

    affinity: float
    reason: str


class _Habits(NamedTuple):
    """What a group asks for and when: six-hour counts and different pages, ascending."""

    spans: Floats
    pages: Ints


def find(
    names: Sequence[str],
    people: NDArray[np.bool_],
    requests: Requests,
    agents: Sequence[str] | None = None,
    limits: NetworkGroupLimits | None = None,
    *,
    doubtful: NDArray[np.bool_] | None = None,
) -> list[SimilarGroups]:
    """
    The campaigns among sources called *names* (addresses), of which *people* are people; the largest come first.

    *agents* is each source's user agent; None hides them. *doubtful*: which of the people only look like it.
    """
    wanted = limits or NetworkGroupLimits()
    groups = _by_network(names, people, doubtful if doubtful is not None else np.zeros_like(people), wanted)
    if agents is not None:
        groups = _by_agent(groups, people, agents, wanted)
    leader = list(range(len(groups)))

    def find_leader(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    links: list[tuple[int, _Link]] = []
    group_of = _group_of(groups, requests.sources)
    for one, other, link in [*_eating_alike(group_of, requests, wanted), *_meetings(group_of, requests, wanted)]:
        links.append((one, link))
        first, second = sorted((find_leader(one), find_leader(other)))
        leader[second] = first
    joined: dict[int, list[_Group]] = defaultdict(list)
    for number, group in enumerate(groups):
        joined[find_leader(number)].append(group)
    why: dict[int, list[_Link]] = defaultdict(list)
    for one, link in links:
        why[find_leader(one)].append(link)
    found = [_told(parts, why[number], names) for number, parts in joined.items()]
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _told(parts: list[_Group], links: list[_Link], names: Sequence[str]) -> SimilarGroups:
    members = tuple(sorted({member for group in parts for member in group.members}))
    if not links:
        return SimilarGroups(
            "company", members, 1.0, f"{len(members):,} sources that are no people's: {parts[0].text}."
        )
    networks = sorted({network for group in parts for network in _networks(group, names)})
    shown = ", ".join(networks[:3]) + (f" and {len(networks) - 3} more" if len(networks) > 3 else "")  # noqa: PLR2004
    reasons = " and ".join(sorted({link.reason for link in links}))
    alike = float(np.mean([link.affinity for link in links]))
    text = f"{len(members):,} sources in {len(networks)} networks ({shown}) that {reasons}."
    return SimilarGroups("company", members, round(alike, 4), text)


def _networks(group: _Group, names: Sequence[str]) -> Iterable[str]:
    return group.networks or {network_of(names[number])[0] for number in group.members} - {""}


def _by_network(
    names: Sequence[str], people: NDArray[np.bool_], doubtful: NDArray[np.bool_], limits: NetworkGroupLimits
) -> list[_Group]:
    found = []
    there = full(names, people, doubtful, members=limits.members, share=limits.people, around=limits.around)
    for networks, wide, members in there:
        text = f"all from {networks[0] if len(networks) == 1 else wide}, where hardly anybody else is"
        found.append(_Group(networks, members, text))
    return found


def _by_agent(
    groups: list[_Group], people: NDArray[np.bool_], agents: Sequence[str], limits: NetworkGroupLimits
) -> list[_Group]:
    """The groups, and those that share a user agent no person has; a group of one such agent is part of it."""
    persons = {agents[number] for number in np.nonzero(people)[0].tolist()}
    using: dict[str, list[int]] = defaultdict(list)
    for number in np.nonzero(~people)[0].tolist():
        agent = agents[number]
        if agent and agent not in persons:
            using[agent].append(number)
    found = []
    taken: set[int] = set()
    for agent in sorted(using):
        members = using[agent]
        if len(members) < limits.members:
            continue
        text = f"they share a user agent that no person has, {agent[:60]!r}"
        found.append(_Group((), tuple(members), text))
        taken.update(members)
    for group in groups:
        left = tuple(number for number in group.members if number not in taken)
        if len(left) >= limits.members:
            found.append(group._replace(members=left))
    return found


def kind_of_page(target: str) -> tuple[int, bool, str]:
    """What kind of page a target is: how deep, with a query or not, and in which section of the site."""
    path, _, query = target.partition("?")
    return path.count("/"), bool(query), path.removeprefix("/").partition("/")[0][:_LONGEST_SECTION]


def _group_of(groups: list[_Group], sources: Ints) -> Ints:
    """The number of the group that each of *sources* is in; -1 where it is in none."""
    number_of = np.full(int(sources.max(initial=-1)) + 1, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        members = np.array(group.members, dtype=np.int64)
        number_of[members[members < len(number_of)]] = number
    return number_of[sources] if len(sources) else np.zeros(0, dtype=np.int64)


def _requests_of(numbers: Ints, group_of: Ints) -> list[Ints]:
    """The places of the requests of each of the groups *numbers*, which rise."""
    order = np.argsort(group_of, kind="stable")
    starts, ends = (np.searchsorted(group_of[order], numbers, side=side) for side in ("left", "right"))
    return [order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _eating_alike(group_of: Ints, requests: Requests, limits: NetworkGroupLimits) -> Iterator[tuple[int, int, _Link]]:
    """Pairs of groups that have one diet, and ask for it at the same hours or divide it."""
    if requests.robots is not None:
        group_of = np.where(requests.pages == requests.robots, -1, group_of)
    found = page_mix(group_of, requests.kinds, requests.answers)
    numbers = found.groups.tolist()
    habits = _habits(found.groups, group_of, requests)
    telling = [row for row, one in enumerate(habits) if _telling(one, found.counts[row], limits)]
    for one, other, affinity in same(found, telling, limits.odds):
        reason = _reason(habits[one], habits[other], limits)
        if reason:
            yield numbers[one], numbers[other], _Link(affinity, reason)


def _habits(numbers: Ints, group_of: Ints, requests: Requests) -> list[_Habits]:
    """The habits of each of the groups *numbers*, of the group that each request is of."""
    if not len(numbers):
        return []
    at = np.floor((requests.times - requests.times.min()) / _HOURS).astype(np.int64)
    spans = int(at.max()) + 1
    found = []
    for inside in _requests_of(numbers, group_of):
        counts = np.log1p(np.bincount(at[inside], minlength=spans).astype(np.float64))
        pages = np.sort(requests.pages[inside])
        found.append(_Habits(counts, pages[changes(pages)]))
    return found


def _meetings(group_of: Ints, requests: Requests, limits: NetworkGroupLimits) -> Iterator[tuple[int, int, _Link]]:
    """
    Pairs of groups, of the busiest, that come within seconds of one another more often than by chance.

    What counts is each coming after a pause, so that one long visit beside another is one meeting. Chance is how often
    they would meet at the most if one of them had come some ten minutes to two hours sooner or later: at the same time
    of day, and where all come at the full hour also then.
    """
    sizes = np.bincount(group_of[group_of >= 0])
    busiest = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_TIMED])
    comings: dict[int, Floats] = {}
    for number, inside in zip(busiest.tolist(), _requests_of(busiest, group_of), strict=True):
        times = np.sort(requests.times[inside])
        after = times[np.diff(times, prepend=-np.inf) > _PAUSE][:_MOST_COMINGS]
        if len(after) >= limits.meetings:
            comings[number] = after
    numbers, coming = list(comings), list(comings.values())
    met = _met(coming)
    often = np.array([len(times) for times in coming], dtype=np.int64)
    least = np.maximum(limits.meetings, limits.meeting * np.minimum.outer(often, often))
    for one, other in np.argwhere(np.triu(met >= least, 1)).tolist():
        few, many = sorted((coming[one], coming[other]), key=len)
        if all(met[one, other] >= limits.beyond * _met([few + shift, many])[0, 1] for shift in _SHIFTS):
            share = float(met[one, other] / len(few))
            yield numbers[one], numbers[other], _Link(share, "come within seconds of one another again and again")


def _met(comings: Sequence[Floats]) -> Ints:
    """
    How often each meets each other, which is to come within seconds of it.

    The comings of one are a pause apart, so no more than one of them is within seconds of another's.
    """
    count = len(comings)
    found = np.zeros(count * count, dtype=np.int64)
    times = np.concatenate([np.zeros(0), *comings])
    order = np.argsort(times, kind="stable")
    times, who = times[order], np.repeat(np.arange(count), [len(one) for one in comings])[order]
    # Each with the next, then with the one after that, until nobody comes within seconds of so many.
    for apart in range(1, len(times)):
        first = np.flatnonzero(times[apart:] - times[:-apart] <= _SECONDS)
        if not len(first):
            break
        found += np.bincount(who[first] * count + who[first + apart], minlength=count * count)
    both = found.reshape(count, count)
    return both + both.T


def _telling(habits: _Habits, diet: Floats, limits: NetworkGroupLimits) -> bool:
    """Whether a group has asked for enough different things to be known by them."""
    if len(habits.pages) < limits.pages or diet.sum() < limits.requests:
        return False
    shares = diet[diet > 0] / diet.sum()
    return float(np.exp(-(shares * np.log(shares)).sum())) >= limits.kinds


def _reason(one: _Habits, other: _Habits, limits: NetworkGroupLimits) -> str:
    """Why two groups with the same diet belong together; empty if they do not."""
    if np.count_nonzero(one.spans + other.spans) >= _LEAST_SPANS and one.spans.std() and other.spans.std():
        step = float(np.corrcoef(one.spans, other.spans)[0, 1])
        if step >= limits.in_step:
            return "ask for the same kinds of pages at the same hours"
    common = len(np.intersect1d(one.pages, other.pages, assume_unique=True)) / min(len(one.pages), len(other.pages))
    if common <= limits.in_common:
        return "ask for the same kinds of pages in the same proportions, but not for the same ones"
    return ""

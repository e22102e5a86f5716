"""
Company: short-lived sources that belong together by what they share.

A source with a dozen requests has no series to compare. But the workers of one crawler stand in the same networks, ask
for the same kinds of pages in the same proportions (their *diet*), and divide the work: what one has fetched another
does not. So sources that are no people's are first put together by network (IPv4 /24 and its neighbours in a /20, IPv6
/48), or by a user agent that no person has, where it is not hidden. Then these groups, which have requests enough, are
compared: the same diet and the same hours, or the same diet and hardly a page in common, make one campaign of several
networks. So does it where two groups come within seconds of one another again and again: one asks for robots.txt, the
other for the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.campaigns.networks import full, network_of
from hedgerow.campaigns.similarity import Found

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_HOURS = 6 * 3600.0
_LONGEST_SECTION = 16
_LEAST_SPANS = 8
_MOST_KINDS = 2000
_MOST_COMPARED = 2000
_MOST_TIMED = 150
_MOST_COMINGS = 2000
_SECONDS = 20.0
_PAUSE = 300.0
_SHIFTS = [sign * 60.0 * minutes for minutes in (10, 20, 30, 45, 60, 90, 120) for sign in (-1, 1)]


class Limits(msgspec.Struct, frozen=True):
    """
    What makes company.

    *members*: the fewest sources of a group. *people*: the largest share of people in a network that counts. *requests*
    and *pages*: the fewest requests and different pages of a group that is compared with others, and *kinds* the fewest
    kinds of pages (as if all were equally frequent). *diet*: how alike two diets are (their affinity, 0 to 1) at least,
    if the groups are also *in_step* (correlation of six-hour counts), or have at most *in_common* of the smaller one's
    pages in common.

    *meetings*: how often two groups come within seconds of one another at the least, *meeting* the part of the smaller
    one's comings that this is, and *beyond* how many times as often as by chance.
    """

    members: int = 3
    people: float = 0.2
    requests: int = 200
    pages: int = 100
    kinds: float = 3.0
    diet: float = 0.90
    in_step: float = 0.7
    in_common: float = 0.5
    meetings: int = 5
    meeting: float = 0.1
    beyond: float = 5.0


class Requests(NamedTuple):
    """
    Requests of the sources that are no people's: the number of the source, the time, the page, the kind of page, the
    answer's status.

    Pages and kinds are any numbers that are equal where they are. Where a log is too large, a few hundred requests of
    each source are enough.
    """

    sources: Ints
    times: Floats
    pages: Ints
    kinds: Ints
    answers: Ints

    @staticmethod
    def of_targets(
        sources: Ints, times: Floats, numbers: Ints, targets: Sequence[str], answers: Ints | None = None
    ) -> Requests:
        """Of the numbers of *targets*, paths with queries, whose kinds are found by `kind_of_page`."""
        kinds: dict[tuple[int, bool, str], int] = {}
        kind = [kinds.setdefault(kind_of_page(target), len(kinds)) for target in targets]
        told = np.zeros(len(sources), dtype=np.int64) if answers is None else answers
        return Requests(sources, times, numbers, np.array(kind, dtype=np.int64)[numbers], told)


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
    """What a group asks for and when: shares by kind of page, six-hour counts, different targets."""

    diet: Floats
    spans: Floats
    targets: frozenset[int]
    requests: int


def find(
    names: Sequence[str],
    people: NDArray[np.bool_],
    requests: Requests,
    agents: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> list[Found]:
    """
    The campaigns among sources called *names* (addresses), of which *people* are people; the largest come first.

    *agents* is each source's user agent; None hides them.
    """
    wanted = limits or Limits()
    groups = _by_network(names, people, wanted)
    if agents is not None:
        groups = _by_agent(groups, people, agents, wanted)
    habits = _habits(groups, requests, wanted)
    leader = list(range(len(groups)))

    def find_leader(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    links: list[tuple[int, _Link]] = []
    pairs = [
        (one, other, _link(habits[one], habits[other], affinity, wanted))
        for one, other, affinity in _same_diets(habits, wanted.diet)
    ]
    for one, other, link in [*pairs, *_meetings(groups, requests, wanted)]:
        if link is not None:
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


def _told(parts: list[_Group], links: list[_Link], names: Sequence[str]) -> Found:
    members = tuple(sorted({member for group in parts for member in group.members}))
    if not links:
        return Found("company", members, 1.0, f"{len(members)} sources that are no people's: {parts[0].text}.")
    networks = sorted({network for group in parts for network in _networks(group, names)})
    shown = ", ".join(networks[:3]) + (f" and {len(networks) - 3} more" if len(networks) > 3 else "")  # noqa: PLR2004
    reasons = " and ".join(sorted({link.reason for link in links}))
    alike = float(np.mean([link.affinity for link in links]))
    text = f"{len(members)} sources in {len(networks)} networks ({shown}) that {reasons}."
    return Found("company", members, round(alike, 4), text)


def _networks(group: _Group, names: Sequence[str]) -> Iterable[str]:
    return group.networks or {network_of(names[number])[0] for number in group.members} - {""}


def _by_network(names: Sequence[str], people: NDArray[np.bool_], limits: Limits) -> list[_Group]:
    found = []
    for networks, wide, members in full(names, people, members=limits.members, share=limits.people):
        text = f"all from {networks[0] if len(networks) == 1 else wide}, where hardly anybody else is"
        found.append(_Group(networks, members, text))
    return found


def _by_agent(groups: list[_Group], people: NDArray[np.bool_], agents: Sequence[str], limits: Limits) -> list[_Group]:
    """The groups, and those that share a user agent no person has; a group of one such agent is part of it."""
    persons = {agents[number] for number in np.nonzero(people)[0].tolist()}
    using: dict[str, list[int]] = defaultdict(list)
    for number, agent in enumerate(agents):
        if agent and not people[number] and agent not in persons:
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


def _habits(groups: list[_Group], requests: Requests, limits: Limits) -> dict[int, _Habits]:
    """The habits of the groups that can be known by them, the busiest at the most."""
    names, kind, frequent = np.unique(requests.kinds, return_inverse=True, return_counts=True)
    # The rarest kinds count as one.
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.argsort(-frequent, kind="stable")] = np.arange(len(names))
    kind = np.minimum(rank, _MOST_KINDS)[kind]
    group_of = np.full(int(requests.sources.max(initial=-1)) + 1, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        members = np.array(group.members, dtype=np.int64)
        group_of[members[members < len(group_of)]] = number
    mine = group_of[requests.sources] if len(requests.sources) else np.zeros(0, dtype=np.int64)
    order = np.argsort(mine, kind="stable")
    bounds = np.searchsorted(mine[order], np.arange(len(groups) + 1))
    origin = float(requests.times.min()) if len(requests.times) else 0.0
    spans = int((float(requests.times.max()) - origin) // _HOURS) + 1 if len(requests.times) else 1
    found: dict[int, _Habits] = {}
    busiest = np.argsort(bounds[:-1] - bounds[1:], kind="stable")[:_MOST_COMPARED]
    for number in sorted(busiest.tolist()):
        inside = order[bounds[number] : bounds[number + 1]]
        if len(inside) < limits.requests:
            continue
        diet = np.bincount(kind[inside], minlength=min(len(names), _MOST_KINDS + 1)).astype(np.float64)
        at = ((requests.times[inside] - origin) // _HOURS).astype(np.int64)
        counts = np.log1p(np.bincount(at, minlength=spans).astype(np.float64))
        habits = _Habits(diet, counts, frozenset(requests.pages[inside].tolist()), len(inside))
        if _telling(habits, limits):
            found[number] = habits
    return found


def _same_diets(habits: dict[int, _Habits], least: float) -> Iterator[tuple[int, int, float]]:
    """Pairs of groups whose diets are alike, and how much: the affinity of their shares (Bhattacharyya's)."""
    numbers = list(habits)
    if not numbers:
        return
    roots = np.sqrt([habits[number].diet / habits[number].requests for number in numbers])
    affinity = roots @ roots.T
    for one, other in np.argwhere(np.triu(affinity >= least, 1)).tolist():
        yield numbers[one], numbers[other], float(affinity[one, other])


def _meetings(groups: list[_Group], requests: Requests, limits: Limits) -> Iterator[tuple[int, int, _Link]]:
    """
    Pairs of groups, of the busiest, that come within seconds of one another more often than by chance.

    What counts is each coming after a pause, so that one long visit beside another is one meeting. Chance is how often
    they would meet if one of them had come some ten minutes to two hours sooner or later: at the same time of day.
    """
    group_of = np.full(int(requests.sources.max(initial=-1)) + 1, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        members = np.array(group.members, dtype=np.int64)
        group_of[members[members < len(group_of)]] = number
    mine = group_of[requests.sources] if len(requests.sources) else np.zeros(0, dtype=np.int64)
    order = np.lexsort((requests.times, mine))
    bounds = np.searchsorted(mine[order], np.arange(len(groups) + 1))
    busiest = np.argsort(bounds[:-1] - bounds[1:], kind="stable")[:_MOST_TIMED]
    comings: dict[int, Floats] = {}
    for number in sorted(busiest.tolist()):
        times = requests.times[order[bounds[number] : bounds[number + 1]]]
        after = times[np.diff(times, prepend=-np.inf) > _PAUSE][:_MOST_COMINGS]
        if len(after) >= limits.meetings:
            comings[number] = after
    numbers = list(comings)
    for k, one in enumerate(numbers):
        for other in numbers[k + 1 :]:
            few, many = sorted((comings[one], comings[other]), key=len)
            met = _met(few, many)
            if met < max(limits.meetings, limits.meeting * len(few)):
                continue
            chance = sum(_met(few + shift, many) for shift in _SHIFTS) / len(_SHIFTS)
            if met >= limits.beyond * chance:
                yield one, other, _Link(met / len(few), "come within seconds of one another again and again")


def _met(few: Floats, many: Floats) -> int:
    """How many of *few* have one of *many* within seconds."""
    near = np.searchsorted(many, few + _SECONDS, side="right") > np.searchsorted(many, few - _SECONDS)
    return int(np.count_nonzero(near))


def _telling(habits: _Habits, limits: Limits) -> bool:
    """Whether a group has asked for enough different things to be known by them."""
    if len(habits.targets) < limits.pages:
        return False
    shares = habits.diet[habits.diet > 0] / habits.requests
    return float(np.exp(-(shares * np.log(shares)).sum())) >= limits.kinds


def _link(one: _Habits, other: _Habits, affinity: float, limits: Limits) -> _Link | None:
    """Why two groups with the same diet belong together; None if they do not."""
    if np.count_nonzero(one.spans + other.spans) >= _LEAST_SPANS and one.spans.std() and other.spans.std():
        step = float(np.corrcoef(one.spans, other.spans)[0, 1])
        if step >= limits.in_step:
            return _Link(affinity, "ask for the same kinds of pages at the same hours")
    common = len(one.targets & other.targets) / min(len(one.targets), len(other.targets))
    if common <= limits.in_common:
        return _Link(affinity, "ask for the same kinds of pages in the same proportions, but divide them")
    return None

"""
Group links: whether two groups of sources belong together, by what they ask for and when.

Two groups with the same page mix belong together if they come at the same hours, or divide the pages between them. Two
groups also belong together if they arrive within seconds of each other again and again: one worker asks for a page, the
other for the next one. The same holds if one asks for robots.txt, and within seconds the other one for the page.

A page mix is the proportion in which a group asks for kinds of pages, and the status of the answers. Two groups with
the same mix mean little if everybody has it, and much if nobody else does. A small difference means nothing after a
hundred pages, and much after ten thousand. So two explanations are compared: both groups draw from one mix, or each
draws from its own, where mixes vary as widely as those of the groups in this log (a fitted Dirichlet distribution). The
first has to be much likelier, even though any two of the groups could have matched.

That two groups ask for robots.txt, or do not, says nothing about who belongs together: every crawler asks for it. Only
when one group does so, and that another one goes on, may say something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.shape.series import changes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROBOTS = "/robots.txt"

_HOURS = 6 * 3600.0
_LONGEST_SECTION = 16
_LEAST_SPANS = 8
_MOST_TIMED = 150
_MOST_COMINGS = 2000
_SECONDS = 20.0
_PAUSE = 300.0
_SHIFTS = [sign * 60.0 * minutes for minutes in (10, 20, 30, 45, 60, 90, 120) for sign in (-1, 1)]
_MOST_KINDS = 2000
_MOST_COMPARED = 2000
_LEAST_REQUESTS = 20
_ANSWERS = 8
_ALIKE = 0.7
_MOST_PAIRS = 20_000
_BLOCK = 1000
_OCTAVES = range(-1, 13)
_STEPS = 8
_SHIFT = 8
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class NetworkGroupLimits(msgspec.Struct, frozen=True):
    """
    Limits of network groups.

    *members*: fewest sources of a group. *people*: largest share of people in a network that counts. *around*: fewest
    other sources in the network of a source that only looks like a person. *requests*, *pages*: fewest requests and
    distinct pages of a group that is compared. *kinds*: fewest kinds of pages, as if all were equally frequent. *odds*:
    how much likelier one page mix must be than two, if the groups are also *in_step* (correlation of six-hour counts)
    or share at most *in_common* of the smaller group's pages.

    *meetings*: how often two groups come within seconds of each other at least; *meeting*: which part of the smaller
    group's arrivals that is; *beyond*: how many times as often as by chance.
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


class RobotsRequests(NamedTuple):
    """Requests for robots.txt: source and time, in any order."""

    sources: Ints
    times: Floats


NO_ROBOTS = RobotsRequests(np.zeros(0, dtype=np.int64), np.zeros(0))


class Requests(NamedTuple):
    """
    Requests of sources that are not people: source, time, page, kind of page and status, sorted by source and time.

    Equal pages have equal numbers; kinds are numbered from 0. robots.txt is not among them: *robots* has who asked for
    it, and when. A few hundred requests of each source are enough.
    """

    sources: Ints
    times: Floats
    pages: Ints
    kinds: Ints
    answers: Ints
    robots: RobotsRequests = NO_ROBOTS

    @staticmethod
    def of_targets(
        sources: Ints, times: Floats, numbers: Ints, targets: Sequence[str], answers: Ints | None = None
    ) -> Requests:
        """
        Build requests from numbers of *targets* (paths with queries), in any order. `kind_of_page` gives the kinds.
        """
        kinds: dict[tuple[int, bool, str], int] = {}
        kind = [kinds.setdefault(kind_of_page(target), len(kinds)) for target in targets]
        statuses = np.zeros(len(sources), dtype=np.int64) if answers is None else answers
        order = np.lexsort((times, sources))
        robots = NO_ROBOTS
        if ROBOTS in targets:
            asking = numbers[order] == targets.index(ROBOTS)
            robots = RobotsRequests(sources[order[asking]], times[order[asking]])
            order = order[~asking]
        numbers = numbers[order]
        kinds_of = np.array(kind, dtype=np.int64)[numbers]
        return Requests(sources[order], times[order], numbers, kinds_of, statuses[order], robots)


def kind_of_page(target: str) -> tuple[int, bool, str]:
    """What kind of page a target is: how deep, with a query or not, and in which section of the site."""
    path, _, query = target.partition("?")
    return path.count("/"), bool(query), path.removeprefix("/").partition("/")[0][:_LONGEST_SECTION]


class GroupLink(NamedTuple):
    """Why two groups belong together, and how alike their page mixes are."""

    affinity: float
    reason: str


class _Habits(NamedTuple):
    """What a group asks for and when: six-hour counts, and distinct pages (ascending)."""

    spans: Floats
    pages: Ints


def links(
    group_of: Ints, asking: Ints, requests: Requests, limits: NetworkGroupLimits
) -> Iterator[tuple[int, int, GroupLink]]:
    """
    Yield pairs of groups that belong together. *group_of* is the group of each request, *asking* that of each request
    for robots.txt, -1 for none.
    """
    yield from _same_page_mix(group_of, requests, limits)
    yield from _meetings(group_of, requests, limits)
    yield from _handovers(group_of, asking, requests, limits)


def _same_page_mix(
    group_of: Ints, requests: Requests, limits: NetworkGroupLimits
) -> Iterator[tuple[int, int, GroupLink]]:
    """Yield pairs of groups with one page mix that come at the same hours or divide the pages."""
    found = page_mix(group_of, requests.kinds, requests.answers)
    numbers = found.groups.tolist()
    habits = _habits(found.groups, group_of, requests)
    telling = [row for row, one in enumerate(habits) if _telling(one, found.counts[row], limits)]
    for one, other, affinity in same(found, telling, limits.odds):
        reason = _reason(habits[one], habits[other], limits)
        if reason:
            yield numbers[one], numbers[other], GroupLink(affinity, reason)


def _habits(numbers: Ints, group_of: Ints, requests: Requests) -> list[_Habits]:
    """Return the habits of the groups *numbers*."""
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


def _telling(habits: _Habits, diet: Floats, limits: NetworkGroupLimits) -> bool:
    """Return whether a group asked for enough different things to be recognised by them."""
    if len(habits.pages) < limits.pages or diet.sum() < limits.requests:
        return False
    shares = diet[diet > 0] / diet.sum()
    return float(np.exp(-(shares * np.log(shares)).sum())) >= limits.kinds


def _reason(one: _Habits, other: _Habits, limits: NetworkGroupLimits) -> str:
    """Return why two groups with one page mix belong together, "" if they do not."""
    if np.count_nonzero(one.spans + other.spans) >= _LEAST_SPANS and one.spans.std() and other.spans.std():
        step = float(np.corrcoef(one.spans, other.spans)[0, 1])
        if step >= limits.in_step:
            return "ask for the same kinds of pages at the same hours"
    common = len(np.intersect1d(one.pages, other.pages, assume_unique=True)) / min(len(one.pages), len(other.pages))
    if common <= limits.in_common:
        return "ask for the same kinds of pages in the same proportions, but not for the same ones"
    return ""


def _meetings(group_of: Ints, requests: Requests, limits: NetworkGroupLimits) -> Iterator[tuple[int, int, GroupLink]]:
    """
    Yield pairs of the busiest groups that arrive within seconds of each other more often than by chance.

    An arrival is a request after a pause, so one long visit beside another counts once. Chance is the largest number of
    meetings if one group had come ten minutes to two hours earlier or later. That keeps the time of day, and visits on
    the full hour.
    """
    comings = _comings(group_of, requests.times, limits)
    numbers, coming = list(comings), list(comings.values())
    met = _met(coming)
    often = np.array([len(times) for times in coming], dtype=np.int64)
    least = np.maximum(limits.meetings, limits.meeting * np.minimum.outer(often, often))
    for one, other in np.argwhere(np.triu(met >= least, 1)).tolist():
        few, many = sorted((coming[one], coming[other]), key=len)
        if all(met[one, other] >= limits.beyond * _met([few + shift, many])[0, 1] for shift in _SHIFTS):
            share = float(met[one, other] / len(few))
            yield numbers[one], numbers[other], GroupLink(share, "come within seconds of one another again and again")


def _handovers(
    group_of: Ints, asking: Ints, requests: Requests, limits: NetworkGroupLimits
) -> Iterator[tuple[int, int, GroupLink]]:
    """
    Yield pairs of groups of which one asks for robots.txt and the other one goes on, more often than by chance.

    It has to do so within seconds, and the first group must not go on itself: strangers who come because of the same
    news each look at robots.txt for themselves. Chance is as in `_meetings`.
    """
    pages, robots = (
        _comings(groups, times, limits)
        for groups, times in ((group_of, requests.times), (asking, requests.robots.times))
    )
    own = _requests_of(np.array(list(robots), dtype=np.int64), group_of)
    for (one, asked), inside in zip(robots.items(), own, strict=True):
        left = asked[~_within(asked - _SECONDS, np.sort(requests.times[inside]), 2 * _SECONDS)]
        if len(left) < limits.meetings:
            continue
        for other, opened in pages.items():
            often = np.count_nonzero(_within(left, opened, _SECONDS))
            least = max(limits.meetings, limits.meeting * min(len(left), len(opened)))
            if other == one or often < least:
                continue
            chance = (np.count_nonzero(_within(left + shift, opened, _SECONDS)) for shift in _SHIFTS)
            if all(often >= limits.beyond * count for count in chance):
                reason = (
                    "divide the work again and again: one asks for robots.txt, and the other for a page seconds later"
                )
                yield one, other, GroupLink(often / len(left), reason)


def _within(moments: Floats, times: Floats, seconds: float) -> NDArray[np.bool_]:
    """Return after which of *moments* there is one of *times* (ascending) within so many seconds."""
    return np.searchsorted(times, moments + seconds, side="right") > np.searchsorted(times, moments)


def _comings(group_of: Ints, times: Floats, limits: NetworkGroupLimits) -> dict[int, Floats]:
    """Return when each of the busiest groups came after a pause, ascending, if it did so often enough."""
    sizes = np.bincount(group_of[group_of >= 0])
    busiest = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_TIMED])
    found: dict[int, Floats] = {}
    for number, inside in zip(busiest.tolist(), _requests_of(busiest, group_of), strict=True):
        mine = np.sort(times[inside])
        after = mine[np.diff(mine, prepend=-np.inf) > _PAUSE][:_MOST_COMINGS]
        if len(after) >= limits.meetings:
            found[number] = after
    return found


def _met(comings: Sequence[Floats]) -> Ints:
    """
    Count how often each group arrives within seconds of each other group.

    The arrivals of one group are a pause apart, so at most one of them is near an arrival of another.
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


def _requests_of(numbers: Ints, group_of: Ints) -> list[Ints]:
    """Return the positions of the requests of each group in *numbers* (ascending)."""
    order = np.argsort(group_of, kind="stable")
    starts, ends = (np.searchsorted(group_of[order], numbers, side=side) for side in ("left", "right"))
    return [order[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


class PageMix(NamedTuple):
    """
    The page mixes of *groups* (numbers): how often each asked for each kind; *prior* is the expected count of a group
    without requests.
    """

    groups: Ints
    counts: Floats
    prior: Floats


def page_mix(group_of: Ints, kinds: Ints, answers: Ints) -> PageMix:
    """Return the page mixes of the busiest groups, from the group (-1: none), kind and status of each request."""
    # Groups and kinds are numbers from 0 on, so they are counted where others would have to be sorted.
    sizes = np.bincount(group_of + 1)[1:]
    chosen = np.flatnonzero(sizes >= _LEAST_REQUESTS)
    chosen = np.sort(chosen[np.argsort(-sizes[chosen], kind="stable")[:_MOST_COMPARED]])
    row = np.full(len(sizes) + 1, -1, dtype=np.int64)
    row[chosen] = np.arange(len(chosen))
    rows = row[group_of]
    here = np.flatnonzero(rows >= 0)
    rows, kinds = rows[here], kinds[here] * _ANSWERS + np.clip(answers[here] // 100, 0, _ANSWERS - 1)
    frequent = np.bincount(kinds)
    names = np.flatnonzero(frequent)
    # The rarest kinds count as one.
    column = np.zeros(len(frequent), dtype=np.int64)
    column[names[np.argsort(-frequent[names], kind="stable")]] = np.minimum(np.arange(len(names)), _MOST_KINDS)
    width = min(len(names), _MOST_KINDS + 1)
    places = rows * width + column[kinds]
    counts = np.bincount(places, minlength=len(chosen) * width).astype(np.float64).reshape(len(chosen), width)
    return PageMix(chosen, counts, _prior(counts))


def _prior(counts: Floats) -> Floats:
    """Return the usual mix times the concentration under which the mixes of the groups are likeliest."""
    if not len(counts):
        return np.zeros(counts.shape[1])
    totals = counts.sum(axis=1)
    usual = (counts / totals[:, None]).mean(axis=0)
    one, kind = np.nonzero(counts)
    seen = counts[one, kind]

    def likelihood(concentration: float) -> float:
        prior = concentration * usual
        whole = _log_gamma(np.array([concentration])) - _log_gamma(concentration + totals)
        return float(whole.sum() + _log_gamma(prior[kind] + seen).sum() - _log_gamma(prior)[kind].sum())

    near = max((2.0**octave for octave in _OCTAVES), key=likelihood)
    best = max((near * 2.0 ** (step / _STEPS) for step in range(-_STEPS, _STEPS + 1)), key=likelihood)
    found: Floats = usual * best
    return found


def same(found: PageMix, among: Sequence[int], odds: float) -> Iterator[tuple[int, int, float]]:
    """
    Yield pairs of groups *among* the rows of *found* with one mix, and their similarity (Bhattacharyya).

    One mix has to be *odds* times as likely as two, times the number of pairs.
    """
    if not among:
        return
    rows = np.array(among, dtype=np.int64)
    counts, prior = found.counts[rows], found.prior
    totals = counts.sum(axis=1)
    roots = np.sqrt(counts / totals[:, None])
    affinity = roots @ roots.T
    one, other = np.nonzero(np.triu(affinity >= _ALIKE, 1))
    alike = affinity[one, other]
    kept = np.sort(np.argsort(-alike, kind="stable")[:_MOST_PAIRS])
    one, other, alike = one[kept], other[kept], alike[kept]
    whole = prior.sum()
    mine = _log_gamma(whole + totals)
    likelier = mine[one] + mine[other] - _log_gamma(whole + totals[one] + totals[other]) - _log_gamma(np.array([whole]))
    for start in range(0, len(one), _BLOCK):
        here = slice(start, start + _BLOCK)
        # A kind that only one of them asks for says the same either way.
        pair, kind = np.nonzero((counts[one[here]] > 0) & (counts[other[here]] > 0))
        first, second, base = counts[one[here][pair], kind], counts[other[here][pair], kind], prior[kind]
        together = _log_gamma(base + first + second) + _log_gamma(base)
        apart = _log_gamma(base + first) + _log_gamma(base + second)
        likelier[here] += np.bincount(pair, together - apart, minlength=len(one[here]))
    least = np.log(odds) + np.log(max(1, len(rows) * (len(rows) - 1) // 2))
    for place in np.flatnonzero(likelier >= least).tolist():
        yield among[one[place]], among[other[place]], float(alike[place])


def _log_gamma(values: Floats) -> Floats:
    """The logarithm of the gamma function of numbers above 0 (Stirling's series, to 1e-11)."""
    large = values + _SHIFT
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / large**2) / large**2) / large**2) / large
    product = np.ones_like(values)
    for k in range(_SHIFT):
        product = product * (values + k)
    found: Floats = (large - 0.5) * np.log(large) - large + _HALF_LOG_TWO_PI + series - np.log(product)
    return found

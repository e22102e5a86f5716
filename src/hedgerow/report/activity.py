"""
Activity: what a source mostly does, where that is not reading pages, and whether its pace is beyond a person's.

Some sources hardly ask for a page, so no opinion about pages can judge them: they try passwords, probe for holes, post
forms, call an interface, fetch files or feeds, or ask for headers only. Each of these is a kind of its own. The first
three are abuse. The others are programs if there is much of it. All limits are round numbers, chosen with real logs
in sight (docs/evaluation/labels.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.source_labels import LEAST_PAGES, SUREST, Findings
from hedgerow.report.tables.figures import Figures

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

KINDS = (
    "", "log-in attempts", "scan", "form posts", "API calls", "file downloads", "feed reader", "monitoring",
    "parts of pages", "the site itself", "contradiction", "sweep",
)  # fmt: skip
"""Names of the kinds, "" for none."""

NO_KIND, LOGINS, SCAN, POSTS, CALLS, FILES, FEEDS, HEADS, PARTS, OWN, CONTRADICTION, SWEEP = range(len(KINDS))
ABUSE = (LOGINS, SCAN, POSTS)
PROGRAMS = (CALLS, FILES, FEEDS, HEADS, SWEEP)

_LEAST = {LOGINS: 5, SCAN: 2, POSTS: 5, CALLS: 10, FILES: 20, FEEDS: 3, HEADS: 5, PARTS: 1}
"""The fewest requests of a kind."""

_SHARE = {LOGINS: 1 / 3, POSTS: 2 / 3}
"""
The smallest share of a source's requests that a kind has, if it is not one half. Before each password there may be the
page that asks for it, and behind it another. Who works on a site sends something with every other page.
"""

LEAST_FORMS, SHARE_OF_FORMS = 20, 0.45
"""Posts of one and the same form, and their share, if its page is fetched before each."""

_BUSY = {CALLS: 50, FILES: 20, FEEDS: 3, HEADS: 5, SWEEP: 1}
"""The requests from which on a kind that people may have, too, is a program's."""

_LOOPBACK = np.uint64(127)
_FEW_PAGES = 0.1
_PROGRAM = 0.95
_PERSON = 0.05

MANY_PAGES = 500
PACE, WILD_PACE = 5, 60
"""
Page visits in each minute with any request: more than a person reads; more than many people behind an address do, if
most pages are different ones.
"""

MANY_REQUESTS = 1000
"""Requests on one day, hardly any of them for the parts of a page or by its scripts."""

BURST = 60
"""Page visits within a minute."""

ROBOTS_AGAIN, ROBOTS_DAYS, ALONE = 3, 3, 0.5
"""
Requests for robots.txt and days with requests, and the share of page visits that are alone in an hour. An office behind
one address may have a program that asks for robots.txt, but its people read more than one page at a time.
"""

LEAST_ORDERED = 40
"""Pages that follow another page of their group: in the order of the alphabet, that is a list."""

_SENTENCES = {
    LOGINS: "{count:,} of its {total:,} requests try to log in.",
    SCAN: "{count:,} of its {total:,} requests probe for known holes and are answered by errors.",
    POSTS: "{count:,} of its {total:,} requests send something, and none comes from a page.",
    CALLS: "{count:,} of its {total:,} requests are calls, and none comes from a page.",
    FILES: "{count:,} of its {total:,} requests fetch files, and hardly any a page.",
    FEEDS: "{count:,} of its {total:,} requests are for feeds.",
    HEADS: "{count:,} of its {total:,} requests want headers only.",
    PARTS: "{count:,} of its {total:,} requests are for icons, or for files that a page shows.",
    OWN: "It is the site itself: its address is the site's own, or its user agent names the site.",
    CONTRADICTION: "It browses like a person, but not at this pace, in this order or with robots.txt again and again.",
    SWEEP: "It asked for one page and nothing else, as did nearly all visitors, who share its user agent.",
}
_HABITS = (
    "It asked for robots.txt, and within ten seconds for a page.",
    "{hearsay:,} of its {pages:,} page visits name a page of the site as their origin that it had not asked for.",
    "It opened {rapid:,} new pages, each within a second of the last page.",
    "It came {lone:,} times for a single page, to {different:,} different ones in all, and went on from none.",
)
LEAST_HEARSAY, HEARSAY_SHARE = 4, 0.6
LEAST_RAPID, RAPID_SHARE = 8, 0.5
LEAST_LONE, LONE_SHARE, LEAST_DIFFERENT = 8, 0.8, 4
"""
From how many, and from which share of all page visits on these are habits. Who comes back to a few pages has bookmarks.
"""

_PACE_SENTENCE = "It asked for {pages:,} pages within {minutes:,} minutes, and for up to {busiest:,} things in a day."


class Activity:
    """
    The *kind* of each source (a place in `KINDS`), and how many of its requests are of that kind (*count*).

    *few_images* marks sources of no kind that only fetched some images, *fast* those with a pace beyond a person's,
    *wild* those with one beyond that of many people, *ordered* those that take many pages in the order of the alphabet,
    *careful* those that ask for robots.txt again and again and come for single pages.
    *habits* has a column for each habit that programs have and people hardly ever: a page soon after robots.txt,
    made-up referrers, page after page within a second, and single pages again and again. Images do not matter to them.
    """

    def __init__(self, figures: Figures) -> None:
        requests = figures["requests"]
        asked = np.maximum(requests - figures["icons"], 1)
        alone = ~(2 * figures["led"] > requests)
        bare = (figures["assets"] - figures["icons"] <= 0) & alone
        rest = figures["calls"] - figures["sent"] - figures["logins"] - figures["feeds"] - figures["downloads"]
        # With a page come its images, and a page may have a hundred of them.
        files = np.where(
            figures["pages"] == 0, np.maximum(figures["assets"], figures["downloads"]), figures["downloads"]
        )
        files = np.where(figures["pages"] <= _FEW_PAGES * requests, files, 0)
        counts = {
            LOGINS: figures["logins"],
            SCAN: figures["probes"],
            POSTS: np.where(bare, figures["sent"] + figures["logins"], 0),
            CALLS: np.where(bare, rest - figures["robots"], 0),
            FILES: np.where(alone, files, 0),
            FEEDS: figures["feeds"],
            HEADS: figures["heads"],
            PARTS: np.where(figures["pages"] == 0, np.maximum(figures["led"], figures["icons"]), 0),
        }
        self.kind: NDArray[np.int8] = np.zeros(len(requests), np.int8)
        self.count: Ints = np.zeros(len(requests), np.int64)
        for kind, found in reversed(counts.items()):
            enough = (found >= _LEAST[kind]) & (found >= _SHARE.get(kind, 0.5) * (requests if kind == PARTS else asked))
            if kind == SCAN:
                enough |= (found > 0) & (found >= asked)
            if kind == POSTS:
                # Before each post there may be its form: always the same one.
                one_form = LEAST_FORMS * figures["different"] <= figures["close_pages"]
                enough |= one_form & (found >= LEAST_FORMS) & (found >= SHARE_OF_FORMS * asked)
            self.kind[enough] = kind
            self.count[enough] = found[enough]
        images = (figures["assets"] == requests) & (figures["downloads"] == 0) & (requests < _LEAST[FILES])
        self.few_images: Flags = images & (self.kind == NO_KIND)
        self.count[self.few_images] = requests[self.few_images]
        self.total: Ints = requests
        pages, minutes = figures["close_pages"], np.maximum(figures["minutes"], 1)
        many = pages >= MANY_PAGES
        bulk = (figures["busiest"] >= MANY_REQUESTS) & (figures["asked"] >= (1 - _FEW_PAGES) * requests)
        self.fast: Flags = (many & (pages >= PACE * minutes)) | bulk | (figures["peak_2"] >= BURST)
        # Many people behind an address read the same pages.
        self.wild: Flags = many & (pages >= WILD_PACE * minutes) & (2 * figures["different"] >= pages)
        steps, most = figures["rising"] + figures["falling"], np.maximum(figures["rising"], figures["falling"])
        self.ordered: Flags = (steps >= LEAST_ORDERED) & (10 * most >= 9 * steps)
        again = (figures["robots"] >= ROBOTS_AGAIN) & (figures["days"] >= ROBOTS_DAYS)
        self.careful: Flags = again & (pages >= LEAST_PAGES) & (figures["lone"] >= ALONE * pages)
        self._pages, self._minutes, self._busiest = pages, minutes, figures["busiest"]
        self._counts = {name: figures[name] for name in ("hearsay", "rapid", "lone", "different")}
        hearsay, rapid, lone, different = self._counts.values()
        self.habits: Flags = np.column_stack(
            [
                figures["announced"] > 0,
                (hearsay >= LEAST_HEARSAY) & (hearsay >= HEARSAY_SHARE * pages),
                (rapid >= LEAST_RAPID) & (rapid >= RAPID_SHARE * pages),
                (lone >= LEAST_LONE) & (lone >= LONE_SHARE * pages) & (different >= LEAST_DIFFERENT),
            ]
        )

    def add_sweep(self, part: Flags) -> None:
        """Mark the sources that are *part* of a sweep, unless they have another kind."""
        part = part & (self.kind == NO_KIND)
        self.kind[part] = SWEEP
        self.count[part] = self.total[part]

    @property
    def abuse(self) -> Flags:
        return np.isin(self.kind, ABUSE)

    @property
    def programs(self) -> Flags:
        """Which sources are programs by what they do, apart from abuse."""
        busy = np.zeros(len(KINDS), np.int64)
        busy[list(_BUSY)] = list(_BUSY.values())
        return np.isin(self.kind, PROGRAMS) & (self.count >= busy[self.kind])

    def sentence(self, place: int) -> str:
        return _SENTENCES[int(self.kind[place])].format(count=int(self.count[place]), total=int(self.total[place]))

    def pace(self, place: int) -> str:
        pages, minutes, busiest = (int(one[place]) for one in (self._pages, self._minutes, self._busiest))
        return _PACE_SENTENCE.format(pages=pages, minutes=minutes, busiest=busiest)

    def habit(self, place: int, habit: int) -> str:
        counts = {name: int(values[place]) for name, values in self._counts.items()}
        return _HABITS[habit].format(pages=int(self._pages[place]), **counts)


class ActivityOpinion:
    """The opinion on sources that do something else than reading pages, or do it at a pace that nobody reads at."""

    detector = "activity"
    codes = (
        *(f"activity-{name.lower().replace(' ', '-')}" for name in KINDS[1:]), "activity-pace", "activity-robots",
        "activity-origin", "activity-rapid", "activity-lone",
    )  # fmt: skip

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self.probability: NDArray[np.float64] = np.full(len(activity.kind), np.nan)
        self.probability[activity.kind == PARTS] = _PERSON
        self.probability[activity.programs] = _PROGRAM
        self.probability[activity.abuse] = SUREST

    @property
    def speaks(self) -> Flags:
        activity = self._activity
        return np.asarray((activity.kind != NO_KIND) | activity.fast | activity.habits.any(1), np.bool_)

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        activity = self._activity
        kinds = activity.kind[some].astype(np.int64)
        with_kind, fast = np.flatnonzero(kinds), np.flatnonzero(activity.fast[some])
        whom, habit = np.nonzero(activity.habits[some])
        # Those of a kind of their own decide; the others are shown.
        p = self.probability[some[with_kind]]
        weight = np.concatenate([np.where(np.isnan(p), 0.0, p), np.full(len(fast) + len(whom), 0.5)])
        texts = [activity.sentence(place) for place in some[with_kind].tolist()]
        texts += [activity.pace(place) for place in some[fast].tolist()]
        texts += [activity.habit(place, one) for place, one in zip(some[whom].tolist(), habit.tolist(), strict=True)]
        pace = np.full(len(fast), len(KINDS) - 1, np.int64)
        kind = np.concatenate([kinds[with_kind] - 1, pace, len(KINDS) + habit])
        return Findings(np.concatenate([with_kind, fast, whom]), kind, weight, texts)


def own_addresses(sources: NDArray[np.uint64], other: Sequence[str], hosts: Sequence[str]) -> Flags:
    """
    Return which sources have an address of the site or of this machine.

    *sources* are numbers: IPv4 addresses, then others, which have the addresses *other*. *hosts* are the site's own.
    """
    own = {host.partition(":")[0] for host in hosts}
    plain = len(sources) - len(other)
    found = np.zeros(len(sources), np.bool_)
    numbers = [int(address) for host in own if (address := _ipv4(host)) is not None]
    found[:plain] = (sources[:plain] >> np.uint64(24) == _LOOPBACK) | np.isin(sources[:plain], [0, *numbers])
    found[plain:] = [address in own or _is_local(address) for address in other]
    return found


def named_hosts(hosts: Sequence[str]) -> list[str]:
    """Return the names of the site's own *hosts* as a user agent may have them."""
    names = {host.removeprefix("www.").partition(":")[0] for host in hosts}
    return sorted(name for name in names if "." in name and _ipv4(name) is None)


def _ipv4(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except ValueError:
        return None


def _is_local(address: str) -> bool:
    """Return whether *address* is of this machine."""
    try:
        parsed = ip_address(address.partition("/")[0].partition("%")[0])
    except ValueError:
        return address == "localhost"
    return parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local

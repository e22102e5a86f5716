"""
Limits proposed from the site's own log.

How fast people are differs from site to site: a forum's reader opens ten topics at once, a manual's opens
one. So the log says what its ordinary visitors ever reach, and the limits are put above that.

A log holds crawlers too, and it is the fast ones that must not set the limit. Therefore visitors that declare
themselves automatic are left out; so are those that never asked for an image, style or script, where the log
shows that its visitors do; and among the others it is a percentile that counts and not the maximum, so that a
few crawlers dressed as browsers change nothing.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from hedgerow.core.rate_limit import RateLimit, add_hit, count_hits
from hedgerow.core.visit import Visit

_AUTOMATIC = (
    "bot", "crawl", "spider", "slurp", "scrapy", "curl", "wget", "python", "perl", "ruby", "java/", "php/", "go-http",
    "okhttp", "httpclient", "headless", "monitor", "archiver", "feed", "fetch", "scan", "check", "preview", "http://",
    "https://",
)  # fmt: skip
_TELEPHONE = "cubot"
"""Its maker is no bot."""
_SWEPT_AT_ONCE = 2


def declares_itself(user_agent: str) -> bool:
    """
    Whether a user agent says that a program is asking: by a word such as "bot", or by naming a page about
    itself.

    An empty one is no person's either.

    >>> declares_itself("Examplebot/2.1"), declares_itself("Mozilla/5.0 Firefox/140.0")
    (True, False)
    """
    # One pattern for all of them would take ten times as long.
    said = user_agent.lower().replace(_TELEPHONE, " ")
    return not said or any(word in said for word in _AUTOMATIC)


class Proposal(msgspec.Struct, frozen=True):
    """
    A window for the settings, and what it rests on.

    *ordinary* visitors were looked at, and nearly all of them stay at *reached* or below. The window would
    have touched *touched* visitors of this log, *touched_ordinary* of them among the ordinary ones.
    """

    window: RateLimit
    ordinary: int
    reached: int
    touched: int
    touched_ordinary: int


class _Trace:
    """What is kept of one visitor: page visits, the peak for each span, and what it shows of itself."""

    __slots__ = ("automatic", "brought_assets", "pages", "peaks")

    def __init__(self, spans: int) -> None:
        self.pages = 0
        self.peaks = array("L", (0,) * spans)
        self.automatic = False
        self.brought_assets = False


class Peaks:
    """
    The largest number of page visits that each visitor made within any of *spans* seconds.

    Memory is bounded: *most_visitors* are kept (those that come later are counted in `left_out`; the first
    ones are sample enough), *most_hits* times of one visitor (a peak stops growing there) and *most_times* in
    all; the times of a visitor that has been silent for the longest span are dropped, its peaks stay.
    """

    def __init__(
        self,
        spans: Sequence[float] = (1.2, 3.0, 60.0, 600.0),
        *,
        most_visitors: int = 300_000,
        most_hits: int = 10_000,
        most_times: int = 5_000_000,
    ) -> None:
        self.spans = tuple(spans)
        self.left_out = 0
        """Visits of visitors for which there was no room."""
        self._longest = max(self.spans)
        self._most_visitors = most_visitors
        self._most_hits = most_hits
        self._most_times = most_times
        self._times = 0
        self._traces: dict[str, _Trace] = {}
        self._hits: OrderedDict[str, array[float]] = OrderedDict()

    def add(self, visit: Visit) -> None:
        """Count *visit*. Late ones (a log out of order) count where they belong."""
        if visit.bot or visit.kind == "call":
            return
        visitor = visit.visitor
        trace = self._traces.get(visitor)
        if trace is None:
            if len(self._traces) >= self._most_visitors:
                self.left_out += 1
                return
            trace = self._traces[visitor] = _Trace(len(self.spans))
        if visit.kind == "asset":
            trace.brought_assets = True
            return
        trace.pages += 1
        trace.automatic = trace.automatic or declares_itself(visit.user_agent)
        self._count(trace.peaks, self._hit(visitor, visit.at), visit.at)

    def _hit(self, visitor: str, at: float) -> array[float]:
        """The visitor's times, *at* among them."""
        hits = self._hits.pop(visitor, None)
        if hits is None:
            self._sweep(at)
            hits = array("d")
        before = len(hits)
        add_hit(hits, at, max_age=self._longest, max_hits=self._most_hits)
        self._times += len(hits) - before
        self._hits[visitor] = hits
        while self._times > self._most_times:
            self._drop(next(iter(self._hits)))
        return hits

    def _sweep(self, at: float) -> None:
        for _ in range(_SWEPT_AT_ONCE):
            oldest = next(iter(self._hits), None)
            if oldest is None or self._hits[oldest][-1] > at - self._longest:
                return
            self._drop(oldest)

    def _drop(self, visitor: str) -> None:
        self._times -= len(self._hits.pop(visitor))

    def _count(self, peaks: array[int], hits: array[float], at: float) -> None:
        """Raise the peaks of the windows that end at *at* or, where it came late, at a hit after it."""
        ends = (at,) if hits[-1] <= at else (at, *hits[bisect_right(hits, at) :])
        for n, span in enumerate(self.spans):
            for end in ends:
                if end - span >= at:
                    break
                peaks[n] = max(peaks[n], count_hits(hits, end, span))

    def propose(
        self,
        *,
        above: float = 0.001,
        margin: float = 1.5,
        least: int = 10,
        fewest: int = 20,
    ) -> list[Proposal]:
        """
        A window for each span, from the ordinary visitors: see `_ordinary`.

        The share *above* of them (0.001: the 99.9th percentile) is set aside, and never fewer than three, or
        one in a hundred where they are few: a small log has crawlers too. What the next one reached, times
        *margin*, is the limit, and at least *least*. Where fewer than *fewest* ordinary visitors were seen
        nothing can be said, and nothing is proposed.
        """
        ordinary = self._ordinary()
        count = len(ordinary)
        if count < fewest:
            return []
        aside = max(math.ceil(count * above), min(3, math.ceil(count / 100)))
        proposals = []
        for n, span in enumerate(self.spans):
            peaks = sorted(trace.peaks[n] for trace in ordinary)
            reached = peaks[-1 - aside]
            limit = max(least, math.ceil(reached * margin))
            touched = sum(trace.peaks[n] > limit for trace in self._traces.values())
            touched_ordinary = count - bisect_right(peaks, limit)
            proposals.append(Proposal(RateLimit(limit, span), count, reached, touched, touched_ordinary))
        return proposals

    def _ordinary(self) -> list[_Trace]:
        """
        Visitors that made at least two page visits, do not declare themselves automatic and brought assets
        along.

        Where fewer than a tenth bring assets along (they are on another host, or not logged) that is not
        asked for.
        """
        seen = [t for t in self._traces.values() if t.pages > 1 and not t.automatic]
        browsers = [t for t in seen if t.brought_assets]
        return browsers if len(browsers) * 10 >= len(seen) else seen

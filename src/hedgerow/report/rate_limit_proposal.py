"""
Rate limits proposed from the site's own log.

The speed of people differs from site to site: the reader of a forum opens ten topics at once, the reader of a manual
one. So the log shows what its ordinary visitors reach, and the limits are put above that.

A log contains fast crawlers too, and they must not set the limit. So visitors that declare themselves automatic are
left out, and visitors that never asked for an image, style or script, if others in the log do. Of the rest a percentile
counts and not the maximum, so a few crawlers disguised as browsers change nothing.
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
from hedgerow.request.bots import declares_itself

_SWEPT_AT_ONCE = 2


class Proposal(msgspec.Struct, frozen=True):
    """
    A rate limit for the settings, and its basis.

    Nearly all of *ordinary* visitors stay at *reached* or below. The limit would have affected *touched* visitors of
    this log, *touched_ordinary* of them ordinary.
    """

    window: RateLimit
    ordinary: int
    reached: int
    touched: int
    touched_ordinary: int


class _Trace:
    """One visitor: page visits, the peak for each span, and what it shows of itself."""

    __slots__ = ("automatic", "brought_assets", "pages", "peaks")

    def __init__(self, spans: int) -> None:
        self.pages = 0
        self.peaks = array("L", (0,) * spans)
        self.automatic = False
        self.brought_assets = False


class Peaks:
    """
    The largest number of page visits of each visitor within any of *spans* seconds.

    Memory is bounded: *most_visitors* are kept (visits of later ones are counted in `left_out`), *most_hits* times of
    one visitor and *most_times* in all. The times of a visitor that is silent for the longest span are dropped; its
    peaks stay.
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
        """Count *visit*. Late visits of an unsorted log count at their own time."""
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
        """Return the visitor's times, including *at*."""
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
        """Raise the peaks of windows that end at *at* or, for a late visit, at a later hit."""
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
        Propose a limit for each span, from the ordinary visitors (`_ordinary`).

        The share *above* of them (0.001: the 99.9th percentile) is set aside, but at least three, or one in a hundred
        of few: a small log has crawlers too. The limit is *margin* times what the next one reached, and at least
        *least*. With fewer than *fewest* ordinary visitors nothing is proposed.
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
        Return visitors with two page visits or more that do not declare themselves automatic and loaded assets.

        If fewer than a tenth load assets (they are on another host, or not logged), assets do not matter.
        """
        seen = [t for t in self._traces.values() if t.pages > 1 and not t.automatic]
        browsers = [t for t in seen if t.brought_assets]
        return browsers if len(browsers) * 10 >= len(seen) else seen

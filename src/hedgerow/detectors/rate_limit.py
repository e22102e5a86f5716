"""
Too many visits in too short a time (mod_antiCrawl, chapter 3.1.1).

A browser that loads too many pages is challenged. If it goes on after the challenges that the policy allows in a day,
it is blocked. Programs and scripts of a page cannot solve a challenge: their excess requests are declined with 429, and
nobody is blocked. The same holds for what another site makes a browser request, which is counted apart.

A slow site is busy long before anybody reaches these limits. So a visitor may use only some seconds of the site's time
in a minute: its pages, times the mean time that the site has taken for its last pages. People who open many pages at
once do not notice it: 90 pages in a minute are always allowed, and 300 for an address without a clearance. The time is
measured where responses pass through Hedgerow, so not with forward-auth.

Prefetches have a group of their own. A browser makes them, not a person, so too many of them are declined one by one
and nobody is blocked. A crawler that calls every request a prefetch gets no further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import gt
from typing import Annotated

from msgspec import Meta

from hedgerow.core.address import network_of
from hedgerow.core.decision import BlockResponse, Evidence, PolicyRule, VisitorScore
from hedgerow.core.page_times import PageTimes
from hedgerow.core.rate_limit import COUNTED_SERIES, PEAK_SECONDS, SERIES, RateLimit, limit_faults
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.core.state import StateReply, prefix_key
from hedgerow.core.visit import ANSWERED, BY_PROGRAM, BY_SCRIPT, Visit, may_be_caused_elsewhere
from hedgerow.detectors.spec import (
    DetectorContext,
    DetectorSpec,
    EvidenceCode,
    EvidenceGroup,
    ReportColumn,
    ReportRule,
    SettingsTables,
    StateNeed,
)
from hedgerow.request.path_rules import PathRule, PathRules

_TEXT = "More than {count} {what} in {seconds:g} seconds"
_LIMITS = {
    "visitor": EvidenceCode("density", "density-visitor", 1.0, f"{_TEXT}.", "Visits of one visitor."),
    "prefix": EvidenceCode(
        "density", "density-prefix", 1.0, f"{_TEXT} from this address.",
        "Visits of everybody at its address. When a block follows, it is for everybody there.",
    ),
    "network": EvidenceCode(
        "density", "density-network", 1.0, f"{_TEXT} from this network.",
        "Visits of its network. When a block follows, it is for the network.",
    ),
}  # fmt: skip
_SLOW_TEXT = "More than {count} pages in a minute, and this site needs {seconds:.2g} seconds for a page."
_SLOW = EvidenceCode(
    "density", "density-slow", 1.0, _SLOW_TEXT,
    "Pages of one visitor that took more of the site's time than `site_seconds` in a minute.",
)  # fmt: skip
_DECLINING = "The same, of a program, of a script, or caused by another site. Declined with 429."
_SLOW_DECLINED = EvidenceCode(
    "rate-slow",
    "rate-slow",
    1.0,
    _SLOW_TEXT,
    _DECLINING,
)
_DECLINED = {
    by: EvidenceCode(
        "rate",
        f"rate-{by}",
        1.0,
        code.text,
        _DECLINING,
    )
    for by, code in _LIMITS.items()
}
_PREFETCH = EvidenceCode(
    "prefetch", "prefetch", 1.0, "More than {count} pages prefetched in {seconds:g} seconds.",
    "More prefetched pages (`Sec-Purpose`) than the window for prefetches allows. Declined one by one, with 503; "
    "nobody is blocked.",
)  # fmt: skip

DEFAULT_WINDOWS = (
    RateLimit(count=40, seconds=1.2, of="pages"),
    RateLimit(count=100, seconds=3.0, of="pages"),
    RateLimit(count=300, seconds=3.0, by="prefix", of="pages"),
    # A page's script may make more than a hundred calls at once, and thirty pupils of a school have one address.
    RateLimit(count=400, seconds=3.0, of="requests"),
    RateLimit(count=900, seconds=3.0, by="prefix", of="requests"),
    RateLimit(count=30, seconds=60.0, of="prefetches"),
)

_SLOW_WINDOW = RateLimit(count=900, seconds=60.0, of="pages")
"""What is counted to limit the site's time; *count* is the highest limit. A faster site has none."""
_LEAST_PAGES = 90
"""Pages in a minute that one visitor may always have: 60 bookmarks opened at once, and some more."""
_LEAST_PAGES_OF_ADDRESS = 300
"""The same for an address without a clearance, which may be that of a school."""
_SLOW_WAIT = 20.0


class DensitySettings(Table, frozen=True):
    """
    Rate limits.

    The defaults for pages are the thesis's 100 in 3 s, a shorter window, and one for all accounts of an address. More
    calls are allowed than pages.
    """

    enabled: Annotated[bool, Meta(description="Count visits and act on these limits.")] = True
    windows: Annotated[
        tuple[RateLimit, ...],
        Meta(
            description="Limits: more than `count` visits within any `seconds`. `by`: `visitor`, `prefix` (all "
            "visitors at an address: IPv4 /32, IPv6 /64) or `network` (IPv4 /24, IPv6 /48). `of`: `pages`, `requests` "
            "(pages and calls), `everything` (assets too) or `prefetches` (nobody is blocked for these: excess "
            "prefetches are declined with 503). `hedgerow replay LOG --propose` suggests limits from your own log."
        ),
    ] = DEFAULT_WINDOWS
    site_seconds: Annotated[
        float,
        Meta(
            description="Seconds of the site's time that one visitor may use in a minute: its pages, times the mean "
            "time for a page. 90 pages in a minute are always allowed (300 for an address without a clearance). 0: no "
            "such limit. Not with forward-auth."
        ),
    ] = 20.0
    block_for: Annotated[
        float,
        Meta(description="How long a browser over a limit is blocked, once it has had its challenges of the day."),
    ] = 3600.0
    renew: Annotated[bool, Meta(description="A visit during a block (of any kind) restarts the block.")] = True
    response: Annotated[
        BlockResponse, Meta(description='Or `"detain"`: serve the maze, and challenge nobody first.')
    ] = "refuse"

    def faults(self) -> Faults:
        yield from positive_faults(self, "block_for")
        if not (self.site_seconds >= 0 and math.isfinite(self.site_seconds)):
            yield "site_seconds", f"must be 0 or more, is {self.site_seconds}"
        yield from limit_faults("windows", self.windows)


def counted_windows(density: DensitySettings, paths: Sequence[PathRule] = ()) -> tuple[RateLimit, ...]:
    """Return the windows for which the state must count, in the order of `StateReply.counts`: those of paths last."""
    of_paths = tuple(limit for rule in paths for limit in rule.limits or ())
    if not density.enabled:
        return of_paths
    return (*density.windows, *([_SLOW_WINDOW] if density.site_seconds else ()), *of_paths)


class RateLimitDetector:
    """
    Gives one piece of evidence, for the first window that is over its limit and counts this visit.

    A visitor with too many pages may still load images, and answer a challenge. With *site_seconds* the count after
    those of *windows* is that of the pages in a minute, and *page_times* says how long the site takes for one. At
    *paths* with limits of their own these apply instead; their counts come last.
    """

    def __init__(
        self,
        windows: Sequence[RateLimit],
        *,
        site_seconds: float = 0.0,
        page_times: PageTimes | None = None,
        paths: PathRules | None = None,
    ) -> None:
        self._windows = tuple(windows)
        self._limits = tuple(w.count for w in self._windows)
        self._paths = paths
        self._site_seconds = site_seconds
        self._page_times = page_times or PageTimes()
        if site_seconds:
            self._limits += (_LEAST_PAGES,)

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if self._paths is not None and (found := self._paths.find(visit.target)) is not None:
            limits, start = found.rule.limits, len(self._limits) + found.limits_from
            if limits is not None:
                return _first_exceeded(limits, reply.counts[start:], visit)
        if not any(map(gt, reply.counts, self._limits)):
            return ()
        if exceeded := _first_exceeded(self._windows, reply.counts, visit):
            return exceeded
        # Around a reload, the state may still count for other windows.
        if self._site_seconds and visit.kind == "page" and len(reply.counts) >= len(self._limits):
            pages = reply.counts[len(self._windows)]
            return self._slow(visit, pages, reply.score) if pages > _LEAST_PAGES else ()
        return ()

    def _slow(self, visit: Visit, pages: int, score: VisitorScore | None) -> Sequence[Evidence]:
        seconds = self._page_times.seconds
        if pages * seconds <= self._site_seconds or self._site_seconds >= seconds * _SLOW_WINDOW.count:
            return ()
        least = _LEAST_PAGES_OF_ADDRESS if visit.visitor == visit.prefix else _LEAST_PAGES
        limit = max(least, int(self._site_seconds / seconds))
        if score is not None and score.challenges and not score.reasons and visit.at - score.at < _SLOW_WINDOW.seconds:
            # It has just solved a challenge, and the pages before that are still in the window.
            limit *= 2
        if pages <= limit:
            return ()
        code = _SLOW if _may_be_blocked(visit) else _SLOW_DECLINED
        return (code.evidence(count=limit, seconds=seconds),)


def _first_exceeded(windows: Sequence[RateLimit], counts: Sequence[int], visit: Visit) -> Sequence[Evidence]:
    """Return evidence for the first window that is over its limit and counts this visit."""
    series = SERIES[visit.kind]
    for window, counted in zip(windows, counts, strict=False):
        if counted > window.count and series in COUNTED_SERIES[window.of]:
            return (_evidence(window, visit),)
    return ()


def _evidence(window: RateLimit, visit: Visit) -> Evidence:
    if window.of == "prefetches":
        return _PREFETCH.evidence(count=window.count, seconds=window.seconds)
    key = ""
    if window.by == "prefix":
        key = prefix_key(visit.prefix)
    elif window.by == "network":
        key = network_of(visit.address)
    what = "requests" if window.of == "everything" else window.of
    codes = _LIMITS if _may_be_blocked(visit) else _DECLINED
    return codes[window.by].evidence(key=key, count=window.count, what=what, seconds=window.seconds)


def _may_be_blocked(visit: Visit) -> bool:
    """
    Return whether the visitor of an excess visit is challenged and in the end blocked: a browser that loads pages.

    A visit that another server has answered cannot be declined any more. What another site makes a browser request
    has no further consequence, and neither has what it may have.
    """
    if may_be_caused_elsewhere(visit):
        return False
    if ANSWERED in visit.anomalies:
        return True
    is_by_script = BY_SCRIPT in visit.anomalies and visit.method == "GET"
    return visit.kind == "page" and BY_PROGRAM not in visit.anomalies and not is_by_script


def _build(context: DetectorContext) -> RateLimitDetector | None:
    density, paths = context.settings.table(DensitySettings), context.paths
    has_limits = paths is not None and any(one.rule.limits is not None for one in paths.rules)
    paths = paths if has_limits else None
    if not density.enabled:
        return RateLimitDetector((), paths=paths) if paths is not None else None
    return RateLimitDetector(
        density.windows, site_seconds=density.site_seconds, page_times=context.page_times, paths=paths
    )


def _needs(settings: SettingsTables) -> frozenset[StateNeed]:
    windows = counted_windows(settings.table(DensitySettings), settings.path)
    by_network = any(window.by == "network" for window in windows)
    return frozenset({"network"}) if by_network else frozenset()


def _rule(settings: SettingsTables) -> PolicyRule:
    density = settings.table(DensitySettings)
    return PolicyRule(density.response, density.block_for, challenges_first=density.response == "refuse")


def _declining_rule(settings: SettingsTables) -> PolicyRule:
    windows = settings.table(DensitySettings).windows
    wait = max((window.seconds for window in windows if window.of != "prefetches"), default=0.0)
    return PolicyRule("refuse", 0.0, retry_after=wait)


def report_rule(settings: SettingsTables) -> ReportRule:
    """
    Judge a source by its busiest seconds.

    This covers windows about one visitor that are as long as one of `PEAK_SECONDS`. In a window about all requests only
    the pages are counted, so its limit is exceeded later than at the gate.
    """
    windows = [
        window
        for window in settings.table(DensitySettings).windows
        if window.by == "visitor" and window.of != "prefetches" and window.seconds in PEAK_SECONDS
    ]
    columns: tuple[ReportColumn, ...] = ("peak_0", "peak_1", "peak_2", "peak_3")

    def judge(*peaks: int) -> Sequence[Evidence]:
        for window, peak in zip(windows, peaks, strict=True):
            if peak > window.count:
                return (_LIMITS["visitor"].evidence(count=window.count, what="pages", seconds=window.seconds),)
        return ()

    return ReportRule(tuple(columns[PEAK_SECONDS.index(window.seconds)] for window in windows), judge)


DETECTOR = DetectorSpec(
    name="density",
    doc=__doc__,
    order=30,
    # Upon 503 a browser does without the prefetched page.
    groups=(
        EvidenceGroup("density", _rule, 429),
        EvidenceGroup("rate", _declining_rule, 429),
        EvidenceGroup("rate-slow", PolicyRule("refuse", 0.0, retry_after=_SLOW_WAIT), 429),
        EvidenceGroup("prefetch", PolicyRule("refuse", 0.0), 503),
    ),
    codes=(*_LIMITS.values(), _SLOW, *_DECLINED.values(), _SLOW_DECLINED, _PREFETCH),
    build=_build,
    enabled="`density.enabled`",
    table="density",
    schema=DensitySettings,
    needs=_needs,
    report=report_rule,
)

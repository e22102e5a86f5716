"""
Charts of the report as SVG inside its page: no script, no style of their own; colours are classes of the page's style.

Each chart says in its title what it shows, for those who cannot see it. Numbers are rounded to a tenth of a pixel, so
that a chart of 240 points is some kilobytes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from hedgerow.report.chart_data import Overlay, Portrait, Traffic
from hedgerow.report.html.tables import escaped, number, percent
from hedgerow.report.source_labels import LABELS

MINUTE, HOUR, DAY = 60, 3600, 86_400

_TICKS = (
    1, 5, 10, 30, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY,
    2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 365 * DAY,
)  # fmt: skip
_LONG = 400 * DAY
_STACK = ("person", "good-bot", "unknown", "crawler")
"""From the ground up: who comes to read is the ground, and what crawls lies on it."""


class ChartPanel(NamedTuple):
    """A rectangle in a drawing; (0, 0) is its lower left corner and (1, 1) its upper right."""

    left: float
    top: float
    width: float
    height: float

    def x(self, share: float) -> float:
        return self.left + share * self.width

    def y(self, share: float) -> float:
        return self.top + (1 - share) * self.height

    def across(self, share: float, kind: str) -> str:
        return f'<path class="{kind}" d="M{self.left:g},{self.y(share):.1f}h{self.width:g}"/>'


def drawing(width: int, height: int, title: str, parts: Iterator[str], kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return (
        f'<svg{named} viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(title)}">{"".join(parts)}</svg>\n'
    )


def traffic_chart(traffic: Traffic, title: str) -> str:
    """Bars by label, one on top of the other."""
    panel = ChartPanel(52, 12, 892, 230)
    bars = max(map(len, traffic.counts.values()), default=1)
    whole = np.zeros(bars)

    def parts() -> Iterator[str]:
        height = max(float(np.sum(list(traffic.counts.values()), axis=0).max()) if traffic.counts else 0.0, 1.0)
        top = yield from _heights(panel, height)
        for label in (name for name in _STACK if name in traffic.counts):
            counts = np.array(traffic.counts[label], np.float64)
            yield f'<path class="bar {label}" d="{_bars(panel, whole / top, counts / top)}"/>'
            np.add(whole, counts, out=whole)
        yield panel.across(0, "axis")
        yield from _times(panel, traffic.origin, traffic.step * bars)
        yield f'<path class="cursor" d="M0,{panel.top:g}v{panel.height:g}" visibility="hidden"/>'

    return drawing(960, 280, title, parts(), "wide")


def series_chart(portrait: Portrait) -> str:
    """Requests in each interval, with the trend."""
    panel = ChartPanel(44, 10, 390, 150)
    counts, trend = portrait.counts, portrait.trend

    def parts() -> Iterator[str]:
        top = yield from _heights(panel, max(*counts, 1.0))
        heights = np.array(counts) / top
        yield f'<path class="bar crawler" d="{_bars(panel, np.zeros(len(heights)), heights)}"/>'
        yield _line(panel, np.clip(np.array(trend) / top, 0, 1), "trend")
        yield panel.across(0, "axis")
        yield from _times(panel, portrait.origin, portrait.interval * len(counts), most=5)

    busiest = int(np.argmax(counts))
    return drawing(
        440, 185,
        f"Requests in each {lasting(portrait.interval)}, at most {number(counts[busiest])}, "
        f"{sum(map(bool, counts)):,} of {len(counts):,} with any; the line is the trend.",
        parts(),
    )  # fmt: skip


def correlation_chart(portrait: Portrait) -> str:
    """Auto-correlation by lag, the band within which it may be chance, and local spikes."""
    panel = ChartPanel(44, 10, 390, 150)
    found, band = np.array(portrait.coefficients), 2 * np.array(portrait.errors)
    step = panel.width / len(found)

    def parts() -> Iterator[str]:
        for value in (-1.0, -0.5, 0.5, 1.0):
            yield panel.across((value + 1) / 2, "grid")
            yield _text(panel.left - 6, panel.y((value + 1) / 2) + 4, f"{value:g}", "end")
        edges = [(panel.left + (k + 0.5) * step, min(float(b), 1.0)) for k, b in enumerate(band)]
        upper = " ".join(f"{x:.1f},{panel.y((1 + b) / 2):.1f}" for x, b in edges)
        lower = " ".join(f"{x:.1f},{panel.y((1 - b) / 2):.1f}" for x, b in reversed(edges))
        yield f'<polygon class="band" points="{upper} {lower}"/>'
        for kind, wanted in (("chance", np.abs(found) < band), ("sure", np.abs(found) >= band)):
            stems = "".join(
                f"M{panel.left + (k + 0.5) * step:.1f},{panel.y(0.5):.1f}v{-found[k] * panel.height / 2:.1f}"
                for k in np.flatnonzero(wanted)
            )
            if stems:
                yield f'<path class="{kind}" d="{stems}"/>'
        yield panel.across(0.5, "axis")
        for lag in portrait.spikes:
            height = panel.y((1 + found[lag - 1]) / 2)
            yield f'<circle class="spike" cx="{panel.left + (lag - 0.5) * step:.1f}" cy="{height:.1f}" r="3.5"/>'
        yield from _lags(panel, len(found), portrait.interval)

    sure = int((np.abs(found) >= band).sum())
    where = ", ".join(lasting(lag * portrait.interval) for lag in portrait.spikes[:5])
    spikes = f" Local spikes at {where}{' and more' if len(portrait.spikes) > 5 else ''}." if where else ""  # noqa: PLR2004
    return drawing(
        440, 185,
        f"Correlation at {len(found)} lags: {found[0]:.2f} at the first, {sure} outside the band of chance.{spikes}",
        parts(),
    )  # fmt: skip


def parts_chart(portrait: Portrait) -> str:
    """Trend, season and rest, each on a scale of its own."""
    size = 46
    span = portrait.interval * len(portrait.counts)

    def parts() -> Iterator[str]:
        panel = ChartPanel(50, 10, 384, size)
        for row, (name, values) in enumerate(
            (("trend", portrait.trend), ("season", portrait.season), ("rest", portrait.rest))
        ):
            panel = ChartPanel(50, 10 + row * (size + 6), 384, size)
            low, high = min(0.0, *values), max(0.0, *values)
            if high - low < 1e-9:  # noqa: PLR2004 - nothing but noise of the arithmetic
                low, high = -1.0, 1.0
            yield panel.across(-low / (high - low), "axis")
            yield _line(panel, (np.array(values) - low) / (high - low), f"part {name}")
            yield _text(panel.left - 6, panel.top + 10, _short(high), "end")
            yield _text(panel.left - 6, panel.top + panel.height, _short(low), "end")
            yield _text(panel.left - 6, panel.top + panel.height / 2 + 5, name, "end", "name")
        yield from _times(panel, portrait.origin, span, most=5)

    amplitude = max(portrait.season) - min(portrait.season)
    return drawing(
        440, 185,
        f"Trend up to {_short(max(portrait.trend))} requests, season over {_short(amplitude)}, "
        f"rest up to {_short(max(portrait.rest))}, in each {lasting(portrait.interval)}.",
        parts(),
    )  # fmt: skip


def overlay_chart(overlay: Overlay) -> str:
    """The members of a campaign on top of each other, and their mean."""
    panel = ChartPanel(44, 10, 390, 150)
    rows = np.array(overlay.series)
    top = max(float(rows.max(initial=0.0)), 1e-9)

    def parts() -> Iterator[str]:
        for share in (0.5, 1.0):
            yield panel.across(share, "grid")
            yield _text(panel.left - 6, panel.y(share) + 4, percent(share * top), "end")
        for row in rows:
            yield _line(panel, row / top, "member")
        yield _line(panel, rows.mean(axis=0) / top, "mean")
        yield panel.across(0, "axis")
        yield from _times(panel, overlay.origin, overlay.step * rows.shape[1], most=5)

    return drawing(
        440, 185,
        f"Requests of {len(rows)} members in each {lasting(overlay.step)}, as shares of each one's own, and the mean"
        f"{', each shifted to where all are in step' if overlay.campaign.shifts else ''}.",
        parts(),
    )  # fmt: skip


def share_chart(volumes: Sequence[int], shares: Sequence[float], marks: dict[str, int], title: str) -> str:
    """A share from 0 to 1 over a volume on a logarithmic scale, with *marks* such as k1."""
    panel = ChartPanel(44, 14, 390, 146)
    decades = max(math.ceil(math.log10(max(volumes[-1], 10, *marks.values()))), 1)

    def x(volume: float) -> float:
        return panel.x(math.log10(max(volume, 1)) / decades)

    def parts() -> Iterator[str]:
        for share in (0.25, 0.5, 0.75, 1.0):
            yield panel.across(share, "grid")
            yield _text(panel.left - 6, panel.y(share) + 4, percent(share), "end")
        for power in range(decades + 1):
            yield _text(min(x(10**power), panel.left + panel.width - 8), panel.y(0) + 16, _short(10**power), "middle")
        points = [(x(volume), panel.y(share)) for volume, share in zip(volumes, shares, strict=True)]
        yield f'<polyline class="curve" points="{" ".join(f"{left:.1f},{top:.1f}" for left, top in points)}"/>'
        for left, top in points:
            yield f'<circle class="point" cx="{left:.1f}" cy="{top:.1f}" r="2.5"/>'
        yield panel.across(0, "axis")
        for row, (name, volume) in enumerate(marks.items()):
            yield f'<path class="mark" d="M{x(volume):.1f},{panel.top:g}v{panel.height:g}"/>'
            yield _text(x(volume) + 4, panel.top + 24 + 14 * row, f"{name} = {volume:,}", "start", "name")

    return drawing(440, 185, title, parts())


def bar_of_shares(shares: dict[str, float]) -> str:
    """One bar, a piece for each label."""

    def parts() -> Iterator[str]:
        left = 0.0
        for label in (name for name in _STACK[::-1] if shares.get(name)):
            width = shares[label] * 1000
            yield f'<rect class="bar {label}" x="{left:.1f}" y="0" width="{width:.1f}" height="18"/>'
            left += width

    summary = ", ".join(f"{label} {percent(shares[label])}" for label in LABELS if label in shares)
    stretched = drawing(1000, 18, f"Requests: {summary}.", parts(), "shares")
    return stretched.replace("<svg", '<svg preserveAspectRatio="none"', 1)


def lasting(seconds: float) -> str:
    """
    How long something lasts, behind the word "each".

    >>> lasting(1800), lasting(3600), lasting(7200), lasting(86400), lasting(20)
    ('30 minutes', 'hour', '2 hours', 'day', '20 seconds')
    """
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds >= size:
            count = seconds / size
            return name if count == 1 else f"{round(count, 1):g} {name}s"
    return "second" if seconds == 1 else f"{seconds:g} seconds"


def moment(at: float, step: float) -> str:
    """A time on an axis whose ticks are *step* seconds apart; without what all of them share."""
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    if step >= _LONG:
        return f"{when.year}"
    if step >= 28 * DAY:
        return f"{when:%b} {when.year}"
    if step >= DAY or (at % DAY == 0 and step >= HOUR):
        return f"{when.day} {when:%b}"
    return f"{when:%H:%M}" if step >= MINUTE else f"{when:%H:%M:%S}"


def _times(panel: ChartPanel, origin: float, span: float, most: int = 9) -> Iterator[str]:
    step = next((step for step in _TICKS if span / step <= most), math.ceil(span / most / (365 * DAY)) * 365 * DAY)
    at = math.ceil(origin / step) * step
    while at <= origin + span:
        x = panel.x((at - origin) / span)
        yield f'<path class="axis" d="M{x:.1f},{panel.y(0):.1f}v4"/>'
        # A text at the edge would be cut.
        inside = min(max(x, 18), panel.left + panel.width - 14)
        yield _text(inside, panel.y(0) + 17, moment(at, step), "middle")
        at += step


def _lags(panel: ChartPanel, lags: int, interval: float) -> Iterator[str]:
    span = lags * interval
    step = next((step for step in _TICKS if span / step <= 5), math.ceil(span / 5))  # noqa: PLR2004
    unit, name = next(((u, n) for u, n in ((HOUR, "h"), (MINUTE, "min")) if step >= u), (1, "s"))
    at = step
    while at <= span:
        x = panel.x((at / interval - 0.5) / lags)
        yield f'<path class="axis" d="M{x:.1f},{panel.y(0):.1f}v4"/>'
        yield _text(min(x, panel.left + panel.width - 14), panel.y(0) + 17, f"{at / unit:g} {name}", "middle")
        at += step


def _heights(panel: ChartPanel, highest: float) -> Generator[str, None, float]:
    """Lines across at round numbers; returns what the panel's full height stands for."""
    step = round_step(highest)
    top = math.ceil(highest / step) * step
    at = step
    while at <= top * 1.0001:
        yield panel.across(at / top, "grid")
        yield _text(panel.left - 6, panel.y(at / top) + 4, _short(at), "end")
        at += step
    return top


def round_step(highest: float) -> float:
    """
    1, 2 or 5 times a power of ten, that fits three to five times into *highest*.

    >>> round_step(10), round_step(37), round_step(1)
    (2.0, 10.0, 0.2)
    """
    power = 10.0 ** math.floor(math.log10(highest / 2.5)) if highest > 0 else 1.0
    return next(step * power for step in (1, 2, 5, 10) if highest / (step * power) <= 5)  # noqa: PLR2004


def _bars(panel: ChartPanel, below: np.ndarray, heights: np.ndarray) -> str:
    width = panel.width / len(heights)
    side = max(width * 0.9, 0.6)
    return "".join(
        f"M{panel.left + k * width:.1f},{panel.y(below[k]):.1f}v{-heights[k] * panel.height:.1f}h{side:.1f}"
        f"v{heights[k] * panel.height:.1f}z"
        for k in np.flatnonzero(heights > 0)
    )


def _line(panel: ChartPanel, heights: np.ndarray, kind: str) -> str:
    step = panel.width / len(heights)
    points = " ".join(f"{panel.left + (k + 0.5) * step:.1f},{panel.y(float(h)):.1f}" for k, h in enumerate(heights))
    return f'<polyline class="{kind}" points="{points}"/>'


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{words}</text>'


def _short(value: float) -> str:
    """
    A number with few digits.

    >>> _short(1500), _short(2_000_000), _short(0.25), _short(-3.14159)
    ('1.5k', '2M', '0.25', '-3.1')
    """
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{round(value / size, 1):g}{name}"
    return f"{round(value, 1 if abs(value) >= 1 else 2):g}"

"""
The plot of the suppression experiment: both figures in one SVG file without scripts, fonts or external styles.

Its colours follow the reader's light or dark theme, also inside an `<img>`. The axis of the right panel is logarithmic:
on a linear one, half of the site at 2.4 times the requests would hardly differ from the base line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from hedgerow.lab import svg
from hedgerow.lab.simulate.suppression import PAPER_EXTRA, PAPER_WASTE, Estimate, Suppression

_WIDTH, _HEIGHT = 1000, 490
_MANY_TICKS = 10_000
_STYLE = """
svg { --paper: #fbfcf8; --ink: #1c2a1e; --quiet: #55645a; --line: #d5dcd2; --good: #2c6e3f; --bad: #a33c2a }
@media (prefers-color-scheme: dark) {
 svg { --paper: #141a15; --ink: #e8eee6; --quiet: #a3b0a5; --line: #354038; --good: #6cbd82; --bad: #e58a74 }
}
text { fill: var(--quiet); font: 13px system-ui, sans-serif }
.title { fill: var(--ink); font-size: 17px; font-weight: 600 }
.value { fill: var(--ink); font-weight: 600 }
.halo { stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; paint-order: stroke }
.grid { stroke: var(--line) }
.axis { stroke: var(--quiet) }
.whisker { stroke: var(--ink); stroke-width: 1.5 }
.bar { fill: var(--good) }
.half { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 6 5 }
.extra { fill: var(--bad); opacity: .18 }
.curve { fill: none; stroke: var(--bad); stroke-width: 2.5 }
.dot { fill: var(--bad) }
.paper { fill: var(--paper); stroke: var(--ink); stroke-width: 1.8 }
.base { stroke: var(--good); stroke-width: 2.5 }
.good { fill: var(--good) }
"""


class _Panel(NamedTuple):
    """A rectangle of the plot; (0, 0) is its lower left corner and (1, 1) its upper right."""

    left: float
    top: float
    width: float
    height: float

    def x(self, share: float) -> float:
        return self.left + share * self.width

    def y(self, share: float) -> float:
        return self.top + (1 - share) * self.height

    def across(self, share: float, kind: str) -> str:
        return svg.line(self.x(0), self.y(share), self.x(1), self.y(share), kind)


def draw(result: Suppression) -> str:
    parameters = result.parameters
    legend = ["dashed: half of what a single worker finds"]
    if parameters.repeats > 1:
        legend.append("vertical lines: 95 % intervals")
    if parameters.like_the_paper:
        legend.append("circles: values in the paper (PathMarker, 2019)")
    parts = [
        f'<desc id="d">{_description(result)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="var(--paper)"/>',
        *_efficiency(result, _Panel(70, 96, 390, 270)),
        *_extra(result, _Panel(580, 96, 385, 270)),
        svg.text(30, _HEIGHT - 38, parameters.summary, anchor="start"),
        svg.text(30, _HEIGHT - 17, "; ".join(legend), anchor="start"),
    ]
    title = "What marked links cost a crawler"
    return svg.document(_WIDTH, _HEIGHT, parts, title=title, attributes=' aria-describedby="d"')


def _description(result: Suppression) -> str:
    crews = ", ".join(f"{crew:,}: {_percent(estimate.mean)}" for crew, estimate in result.efficiency.items())
    extra = ", ".join(f"{_percent(f, digits=2)}: {_more(estimate)}" for f, estimate in result.extra.items())
    return (
        f"Left, new pages per request by number of workers: {crews}. "
        f"Right, requests beyond one per page by share of the site: {extra}."
    )


def _efficiency(result: Suppression, panel: _Panel) -> Iterator[str]:
    """Yield figure 6: a bar for each crew."""
    yield svg.text(panel.x(0) - 40, panel.top - 56, "Each worker finds less", "title", "start")
    within = f"while one worker finds {result.parameters.first_pages:,} new pages"
    yield svg.text(panel.x(0) - 40, panel.top - 34, f"new pages per request, {within}", anchor="start")
    for share in (0.25, 0.5, 0.75, 1.0):
        yield panel.across(share, "grid")
        yield svg.text(panel.x(0) - 8, panel.y(share) + 4, _percent(share), anchor="end")
    step = panel.width / len(result.efficiency)
    side = min(step * 0.62, 60)
    bars = [(panel.left + (n + 0.5) * step, *bar) for n, bar in enumerate(result.efficiency.items())]
    for middle, _, estimate in bars:
        top = panel.y(estimate.mean)
        yield svg.rect(middle - side / 2, top, side, panel.y(0) - top, "bar")
    yield panel.across((1 - result.waste.mean) / 2, "half")
    yield panel.across(0, "axis")
    for middle, crew, estimate in bars:
        low, high = (panel.y(estimate.mean + sign * (estimate.margin or 0.0)) for sign in (-1, 1))
        yield svg.line(middle, low, middle, high, "whisker")
        yield svg.text(middle, panel.y(estimate.mean) - 13, _percent(estimate.mean), "value halo")
        yield svg.text(middle, panel.y(0) + 19, f"{crew:,}")
        if crew == 1 and result.parameters.like_the_paper:
            yield svg.circle(middle, panel.y(1 - PAPER_WASTE), "paper")
    yield svg.text(panel.x(0.5), panel.y(0) + 42, "workers")


def _extra(result: Suppression, panel: _Panel) -> Iterator[str]:
    """Yield figure 7: useful requests, and wasted requests above them."""
    workers = result.parameters.workers
    crew = "one worker" if workers == 1 else f"{workers:,} workers"
    yield svg.text(panel.x(0) - 40, panel.top - 56, "The last pages cost the most", "title", "start")
    yield svg.text(panel.x(0) - 40, panel.top - 34, f"requests per page that {crew} got (logarithmic)", anchor="start")
    highest = max([2.0, *(1 + estimate.mean + (estimate.margin or 0) for _, estimate in result.curve)]) * 1.15

    def y(times: float) -> float:
        return panel.y(math.log(times, highest))

    for times in _ticks(highest):
        yield panel.across(math.log(times, highest), "grid")
        yield svg.text(panel.x(0) - 8, y(times) + 4, f"{times:,} \N{MULTIPLICATION SIGN}", anchor="end")
    for percent in range(0, 101, 20):
        yield svg.text(panel.x(percent / 100), panel.y(0) + 19, f"{percent} %")
    if result.curve:
        curve = [(panel.x(f), y(1 + estimate.mean)) for f, estimate in result.curve]
        area = svg.coordinates([(curve[0][0], y(1)), *curve, (curve[-1][0], y(1))])
        yield f'<polygon class="extra" points="{area}"/>'
        yield f'<polyline class="curve" points="{svg.coordinates(curve)}"/>'
    yield panel.across(0, "base")
    yield svg.text(panel.x(0.93), panel.y(0) - 8, "a crawler that recognises pages", "good", "end")
    for fraction, estimate in result.extra.items():
        if estimate is None:
            continue
        x, height = panel.x(fraction), y(1 + estimate.mean)
        yield svg.circle(x, height, "dot")
        if result.parameters.like_the_paper and fraction in PAPER_EXTRA:
            yield svg.circle(x, y(1 + PAPER_EXTRA[fraction]), "paper")
        yield svg.text(x - 12, height - 10, f"{_percent(fraction, digits=2)}: {_more(estimate)}", "value halo", "end")
    yield svg.text(panel.x(0.5), panel.y(0) + 42, "share of the site")


def _ticks(highest: float) -> Iterator[int]:
    """
    Yield 1, 2, 5, 10, 20, 50, ... below *highest*; only powers of ten if there would be too many.

    >>> list(_ticks(35.0))
    [1, 2, 5, 10, 20]
    """
    steps = (1, 2, 5) if highest < _MANY_TICKS else (1,)
    for power in range(math.ceil(math.log10(highest))):
        yield from (step * 10**power for step in steps if step * 10**power < highest)


def _percent(share: float, digits: int = 0) -> str:
    """
    Format a share in percent, with at most *digits* decimals.

    >>> _percent(1.0), _percent(0.372), _percent(0.995, digits=2)
    ('100 %', '37 %', '99.5 %')
    """
    return f"{round(share * 100, digits):g} %"


def _more(estimate: Estimate | None) -> str:
    return "never" if estimate is None else f"{estimate.mean * 100:,.0f} % more"

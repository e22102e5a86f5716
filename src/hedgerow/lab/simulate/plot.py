"""
The two figures as one SVG file that needs nothing else: no script, no font, no style from elsewhere.

Its colours follow the reader's light or dark theme, also inside an `<img>`. The right panel's axis is logarithmic, or
half of the site, at 2.4 times the requests, would be a hair above the ground beside 95 % of it at 30 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

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
.told { fill: var(--paper); stroke: var(--ink); stroke-width: 1.8 }
.base { stroke: var(--good); stroke-width: 2.5 }
.good { fill: var(--good) }
"""


class _Panel(NamedTuple):
    """A rectangle on the page; (0, 0) is its lower left corner and (1, 1) its upper right."""

    left: float
    top: float
    width: float
    height: float

    def x(self, share: float) -> float:
        return self.left + share * self.width

    def y(self, share: float) -> float:
        return self.top + (1 - share) * self.height

    def across(self, share: float, kind: str) -> str:
        return _line(self.x(0), self.y(share), self.x(1), self.y(share), kind)


def draw(result: Suppression) -> str:
    """The figures of *result*, as SVG."""
    parameters = result.parameters
    legend = ["dashed: half of what one worker finds alone"]
    if parameters.repeats > 1:
        legend.append("small strokes: 95 % intervals")
    if parameters.like_the_paper:
        legend.append("circles: what the paper gives (PathMarker, 2019)")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="t d">',
        '<title id="t">What marked links cost a crawler</title>',
        f'<desc id="d">{_description(result)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="var(--paper)"/>',
        *_efficiency(result, _Panel(70, 96, 390, 270)),
        *_extra(result, _Panel(580, 96, 385, 270)),
        _text(30, _HEIGHT - 38, parameters.summary, anchor="start"),
        _text(30, _HEIGHT - 17, "; ".join(legend), anchor="start"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _description(result: Suppression) -> str:
    crews = ", ".join(f"{crew:,}: {_percent(found.mean)}" for crew, found in result.efficiency.items())
    extra = ", ".join(f"{_percent(f, digits=2)}: {_more(found)}" for f, found in result.extra.items())
    return (
        f"Left, new pages per request by number of workers: {crews}. "
        f"Right, requests beyond one per page by share of the site: {extra}."
    )


def _efficiency(result: Suppression, panel: _Panel) -> Iterator[str]:
    """Figure 6: a bar for each crew."""
    yield _text(panel.x(0) - 40, panel.top - 56, "Each worker finds less", "title", "start")
    within = f"while one worker finds {result.parameters.first_pages:,} new pages"
    yield _text(panel.x(0) - 40, panel.top - 34, f"new pages per request, {within}", anchor="start")
    for share in (0.25, 0.5, 0.75, 1.0):
        yield panel.across(share, "grid")
        yield _text(panel.x(0) - 8, panel.y(share) + 4, _percent(share), anchor="end")
    step = panel.width / len(result.efficiency)
    side = min(step * 0.62, 60)
    bars = [(panel.left + (n + 0.5) * step, *bar) for n, bar in enumerate(result.efficiency.items())]
    for middle, _, found in bars:
        top = panel.y(found.mean)
        yield _rect(middle - side / 2, top, side, panel.y(0) - top, "bar")
    yield panel.across((1 - result.waste.mean) / 2, "half")
    yield panel.across(0, "axis")
    for middle, crew, found in bars:
        yield _whisker(panel, middle, found)
        yield _text(middle, panel.y(found.mean) - 13, _percent(found.mean), "value halo")
        yield _text(middle, panel.y(0) + 19, f"{crew:,}")
        if crew == 1 and result.parameters.like_the_paper:
            yield _circle(middle, panel.y(1 - PAPER_WASTE), "told")
    yield _text(panel.x(0.5), panel.y(0) + 42, "workers")


def _extra(result: Suppression, panel: _Panel) -> Iterator[str]:
    """Figure 7: the work that brings something new, and above it the work that does not."""
    workers = result.parameters.workers
    crew = "one worker" if workers == 1 else f"{workers:,} workers"
    yield _text(panel.x(0) - 40, panel.top - 56, "The last pages cost the most", "title", "start")
    yield _text(panel.x(0) - 40, panel.top - 34, f"requests per page that {crew} got (logarithmic)", anchor="start")
    highest = max([2.0, *(1 + found.mean + (found.margin or 0) for _, found in result.curve)]) * 1.15

    def y(times: float) -> float:
        return panel.y(math.log(times, highest))

    for times in _ticks(highest):
        yield panel.across(math.log(times, highest), "grid")
        yield _text(panel.x(0) - 8, y(times) + 4, f"{times:,} &#215;", anchor="end")
    for percent in range(0, 101, 20):
        yield _text(panel.x(percent / 100), panel.y(0) + 19, f"{percent} %")
    if result.curve:
        path = " ".join(f"{panel.x(f):.1f},{y(1 + found.mean):.1f}" for f, found in result.curve)
        first, last = panel.x(result.curve[0][0]), panel.x(result.curve[-1][0])
        yield f'<polygon class="extra" points="{first:.1f},{y(1):.1f} {path} {last:.1f},{y(1):.1f}"/>'
        yield f'<polyline class="curve" points="{path}"/>'
    yield panel.across(0, "base")
    yield _text(panel.x(0.93), panel.y(0) - 8, "a crawler that can tell links apart", "good", "end")
    for fraction, found in result.extra.items():
        if found is None:
            continue
        x, height = panel.x(fraction), y(1 + found.mean)
        yield _circle(x, height, "dot")
        if result.parameters.like_the_paper and fraction in PAPER_EXTRA:
            yield _circle(x, y(1 + PAPER_EXTRA[fraction]), "told")
        yield _text(x - 12, height - 10, f"{_percent(fraction, digits=2)}: {_more(found)}", "value halo", "end")
    yield _text(panel.x(0.5), panel.y(0) + 42, "share of the site")


def _ticks(highest: float) -> Iterator[int]:
    """
    1, 2, 5, 10, 20, 50, ... below *highest*; the powers of ten only, where those would be too many.

    >>> list(_ticks(35.0))
    [1, 2, 5, 10, 20]
    """
    steps = (1, 2, 5) if highest < _MANY_TICKS else (1,)
    for power in range(math.ceil(math.log10(highest))):
        yield from (step * 10**power for step in steps if step * 10**power < highest)


def _percent(share: float, digits: int = 0) -> str:
    """
    With at most *digits* digits behind the point.

    >>> _percent(1.0), _percent(0.372), _percent(0.995, digits=2)
    ('100 %', '37 %', '99.5 %')
    """
    return f"{round(share * 100, digits):g} %"


def _more(found: Estimate | None) -> str:
    return "never" if found is None else f"{found.mean * 100:,.0f} % more"


def _whisker(panel: _Panel, x: float, found: Estimate) -> str:
    margin = found.margin or 0.0
    return _line(x, panel.y(found.mean - margin), x, panel.y(found.mean + margin), "whisker")


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{words}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" class="{kind}"/>'


def _circle(x: float, y: float, kind: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>'

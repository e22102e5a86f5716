"""Calibration: a plot of what probabilities are worth, as an SVG picture that needs no program to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.lab.train.measures import calibration, wilson

_SIDE, _MARGIN = 240, 44
_PARTS = 10


def points(probabilities: Sequence[float], crawlers: Sequence[bool]) -> list[dict[str, float]]:
    """For each tenth of the scale: the mean probability, what share were crawlers, its 95 % interval, of how many."""
    found = []
    for _, mean, happened, count in calibration(probabilities, crawlers, _PARTS):
        low, high = wilson(round(happened * count), count)
        part = {"said": mean, "happened": happened, "low": low, "high": high}
        found.append({**{name: round(value, 5) for name, value in part.items()}, "of": count})
    return found


def draw(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """The plots of all stages of a bundle, side by side; *stages* are the bundle's metrics."""
    width = _SIDE + 2 * _MARGIN
    size_of_all = f"{width * min(len(stages), 3)} {width * -(-len(stages) // 3)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {size_of_all}" font-size="11">',
        "<title>How often a session was a crawler's, by how probable the model held it to be</title>",
    ]
    for number, (size, measured) in enumerate(stages.items()):
        left, top = width * (number % 3) + _MARGIN, width * (number // 3) + _MARGIN
        parts.append(f'<g transform="translate({left} {top})">{_plot(size, measured.get("calibration", ()))}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _plot(size: str, found: Sequence[Mapping[str, float]]) -> str:
    """One square: said on the x axis, happened on the y axis; on the diagonal a probability is what it says."""
    parts = [
        f'<rect width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>',
        f'<path d="M0 {_SIDE}L{_SIDE} 0" stroke="#999" stroke-dasharray="4 4"/>',
        f'<text x="{_SIDE / 2}" y="-10" text-anchor="middle">at {size} visits</text>',
        f'<text x="{_SIDE / 2}" y="{_SIDE + 30}" text-anchor="middle">probability said</text>',
        f'<text transform="translate(-30 {_SIDE / 2}) rotate(-90)" text-anchor="middle">share of crawlers</text>',
    ]
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{tick * _SIDE}" y="{_SIDE + 14}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="-6" y="{_SIDE * (1 - tick) + 4}" text-anchor="end">{tick:g}</text>')
    for point in found:
        x, y = point["said"] * _SIDE, (1 - point["happened"]) * _SIDE
        low, high = ((1 - point[end]) * _SIDE for end in ("low", "high"))
        parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="#2b6"/>')
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#174"><title>{point["of"]:,} sessions, said '
            f"{point['said']:.0%}, were {point['happened']:.0%}</title></circle>"
        )
    return "\n".join(parts)

"""Calibration of a model: predicted probabilities compared with what happened, as points and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hedgerow.lab.svg import document, line, text
from hedgerow.lab.train.measures import calibration, wilson

_SIDE, _MARGIN, _COLUMNS = 240, 44, 3
_PARTS = 10


def calibration_points(probabilities: Sequence[float], crawlers: Sequence[bool]) -> list[dict[str, float]]:
    """Return, for each tenth of the scale, mean probability, share of crawlers, its 95 % interval, and the count."""
    points = []
    for _, mean, happened, count in calibration(probabilities, crawlers, _PARTS):
        low, high = wilson(round(happened * count), count)
        values = {"said": mean, "happened": happened, "low": low, "high": high}
        points.append({**{name: round(value, 5) for name, value in values.items()}, "of": count})
    return points


def calibration_plot(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the plots of all stages of a bundle, side by side, from its *metrics*."""
    cell = _SIDE + 2 * _MARGIN
    parts = []
    for number, (size, measured) in enumerate(metrics.items()):
        left, top = cell * (number % _COLUMNS) + _MARGIN, cell * (number // _COLUMNS) + _MARGIN
        plot = "\n".join(_stage_plot(size, measured.get("calibration", ())))
        parts.append(f'<g transform="translate({left} {top})">{plot}</g>')
    return document(
        cell * min(len(metrics), _COLUMNS),
        cell * -(-len(metrics) // _COLUMNS),
        parts,
        title="Share of crawlers by predicted probability",
        attributes=' font-size="11"',
    )


def _stage_plot(size: str, points: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Yield one square plot. A well calibrated model has its points on the diagonal."""
    yield f'<rect width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>'
    yield line(0, _SIDE, _SIDE, 0, attributes=' stroke="#999" stroke-dasharray="4 4"')
    yield text(_SIDE / 2, -10, f"at {size} visits")
    yield text(_SIDE / 2, _SIDE + 30, "predicted probability")
    yield text(0, 0, "share of crawlers", attributes=f' transform="translate(-30 {_SIDE / 2}) rotate(-90)"')
    for tick in (0.0, 0.5, 1.0):
        yield text(tick * _SIDE, _SIDE + 14, f"{tick:g}")
        yield text(-6, _SIDE * (1 - tick) + 4, f"{tick:g}", anchor="end")
    for point in points:
        x, y, low, high = point["said"] * _SIDE, *((1 - point[name]) * _SIDE for name in ("happened", "low", "high"))
        yield line(x, low, x, high, attributes=' stroke="#2b6"')
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#174"><title>{point["of"]:,} sessions, predicted '
            f"{point['said']:.0%}, crawlers {point['happened']:.0%}</title></circle>"
        )

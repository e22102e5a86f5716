"""Line charts of the evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.lab.svg import Points, coordinates, document, line, text

COLOURS = ("#2c6e3f", "#a33c2a", "#2a5ca3", "#8a6d00", "#7a3aa3", "#00807a", "#555555", "#c0508a", "#4d8a00", "#b05a00")


def line_chart(title: str, curves: Mapping[str, Points], *, max_x: float) -> str:
    """Return a chart of *curves*, with x from 0 to *max_x* and y from 0 to 1 in percent."""
    height = max(420, 100 + 22 * len(curves))
    parts = [f'<rect width="820" height="{height}" fill="#fbfcf8"/>']
    parts.append(text(50, 28, title, anchor="start", attributes=' font-size="16"'))
    for tick in range(6):
        y = 360 - tick * 60
        parts.append(line(50, y, 500, y, attributes=' stroke="#d5dcd2"'))
        parts.append(text(44, y + 4, f"{tick * 20} %", anchor="end"))
        parts.append(text(50 + tick * 90, 380, f"{max_x * tick / 5:g}"))
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = coordinates([(50 + 450 * x / max_x, 360 - 300 * y) for x, y in points])
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(520, 70 + 22 * number, name, anchor="start", attributes=f' fill="{colour}"'))
    return document(820, height, parts, title=title, attributes=' font-family="sans-serif" font-size="13"')

"""Plots: simple line plots as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = ("#2c6e3f", "#a33c2a", "#2a5ca3", "#8a6d00", "#7a3aa3", "#00807a", "#555555", "#c0508a", "#4d8a00", "#b05a00")
Points = Sequence[tuple[float, float]]


def lines(title: str, curves: Mapping[str, Points], *, most_x: float) -> str:
    """The *curves*, x from 0 to *most_x* and y from 0 to 1."""
    height = max(420, 100 + 22 * len(curves))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 {height}" role="img" font-family="sans-serif" '
            f'font-size="13"><title>{escape(title)}</title><rect width="820" height="{height}" fill="#fbfcf8"/>'
        ),
        f'<text x="50" y="28" font-size="16">{escape(title)}</text>',
    ]
    for tick in range(6):
        y, x = 360 - tick * 60, 50 + tick * 90
        parts.append(f'<path d="M50 {y}H500" stroke="#d5dcd2"/><text x="44" y="{y + 4}" text-anchor="end">')
        parts.append(f'{tick * 20} %</text><text x="{x}" y="380" text-anchor="middle">{most_x * tick / 5:g}</text>')
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{50 + 450 * x / most_x:.1f},{360 - 300 * y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="520" y="{70 + 22 * number}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

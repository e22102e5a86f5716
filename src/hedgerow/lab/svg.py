"""SVG elements and line charts, for the plots of the lab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

COLOURS = ("#2c6e3f", "#a33c2a", "#2a5ca3", "#8a6d00", "#7a3aa3", "#00807a", "#555555", "#c0508a", "#4d8a00", "#b05a00")


def document(width: float, height: float, parts: Iterable[str], *, title: str, attributes: str = "") -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"{attributes}>'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"]) + "\n"


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "middle", *, attributes: str = "") -> str:
    class_ = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{class_}{attributes}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "", *, attributes: str = "") -> str:
    class_ = f' class="{kind}"' if kind else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{class_}{attributes}/>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" class="{kind}"/>'


def circle(x: float, y: float, kind: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>'


def coordinates(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


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

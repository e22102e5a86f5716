"""SVG elements, for the plots of the lab."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]


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

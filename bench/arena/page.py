"""The plots of the arena's page, and the page around them; in the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import median

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1c241d; --paper: #fbfcf8; --line: #c9d2c6; --dot: #2c6e3f; --median: #a33c2a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4ebe2; --paper: #161b17; --line: #435046; --dot: #7cc492; --median: #f0937f; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72em;
  margin: 1em auto; padding: 0 1em; }
a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9em; }
th, td { border-bottom: 1px solid var(--line); padding: 0.25em 0.7em; text-align: right;
  font-variant-numeric: tabular-nums; }
th[scope=row], th:first-child { text-align: left; font-weight: 500; }
svg { max-width: 100%; height: auto; font: 13px system-ui, sans-serif; fill: var(--ink); }
"""
_LEFT, _WIDTH, _ROW = 290, 560, 34


def _svg(title: str, rows: int, parts: Sequence[str]) -> str:
    width, height = _LEFT + _WIDTH + 60, 30 + rows * _ROW
    return (
        f'<div class="wide" tabindex="0"><svg viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg></div>'
    )


def dots(title: str, rows: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    """A dot for each crawler by its share, and a stroke at the median of each row."""
    parts, bottom = [], len(rows) * _ROW
    for tick in range(0, 101, 20):
        x = _LEFT + _WIDTH * tick / 100
        parts.append(f'<line x1="{x:g}" y1="0" x2="{x:g}" y2="{bottom}" stroke="var(--line)"/>')
        parts.append(f'<text x="{x:g}" y="{bottom + 20}" text-anchor="middle">{tick} %</text>')
    for number, (name, points) in enumerate(rows.items()):
        y = number * _ROW + _ROW / 2
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 4:g}" text-anchor="end">{escape(name)}</text>')
        for turn, (crawler, share) in enumerate(sorted(points, key=lambda one: one[1])):
            # Dots of one place stand above and below each other.
            at = y + (turn % 5 - 2) * 4
            parts.append(
                f'<circle cx="{_LEFT + _WIDTH * share:.1f}" cy="{at:g}" r="4" fill="var(--dot)" fill-opacity="0.55">'
                f"<title>{escape(crawler)}: {100 * share:.1f} %</title></circle>"
            )
        if points:
            x = _LEFT + _WIDTH * median(share for _, share in points)
            parts.append(
                f'<line x1="{x:.1f}" y1="{y - 13:g}" x2="{x:.1f}" y2="{y + 13:g}" stroke="var(--median)" '
                'stroke-width="3"/>'
            )
    return _svg(f"{title}; the stroke is the median", len(rows), parts)


def bars(title: str, values: Mapping[str, float]) -> str:
    """A bar for each value, with its number."""
    longest, parts = max([*values.values(), 1e-9]), []
    for number, (name, value) in enumerate(values.items()):
        y = number * _ROW
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 21}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{_LEFT}" y="{y + 6}" width="{_WIDTH * value / longest:.1f}" height="20" fill="var(--dot)"/>'
            f'<text x="{_LEFT + _WIDTH * value / longest + 8:.1f}" y="{y + 21}">{value:.2f}</text>'
        )
    return _svg(title, len(values), parts)


def document(title: str, body: str, data: str) -> str:
    """The whole page; *data* is JSON that others can read from it."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>\n{body}\n</main>"
        f'<script type="application/json" id="cells">{data.replace("<", chr(92) + "u003c")}</script></body></html>\n'
    )

"""The quality report of a bundle, as one HTML page without external resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from hedgerow.lab.svg import document, line, text
from hedgerow.watch.models.bundle import Bundle

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%}"
)

_SIDE, _MARGIN, _COLUMNS = 240, 44, 3
_ABOUT = (
    "All figures are for visitors that the model had not seen: five-fold cross-validation by visitor. The brackets"
    " contain the 95 % interval (Wilson) and the number of sessions. Sessions of one visitor are similar: with few"
    " visitors, such as a handful of crawls, the true interval is wider."
)


def page(bundle: Bundle) -> str:
    rows = []
    for size, measured in bundle.metrics.items():
        shares = (interval(measured[name]) for name in ("people_right", "crawlers_found"))
        rows.append((size, *shares, f"{measured['auc']:.4f}", f"{measured['calibration_error']:.4f}"))
    parts = [
        f"<h1>{escape(bundle.name)}: quality</h1>",
        f"<p>{_ABOUT}</p>",
        _table(("visits", "people right", "crawlers found", "area under ROC", "calibration error"), rows),
    ]
    own = []
    for size, measured in bundle.metrics.items():
        if site := measured.get("own"):
            people, crawlers = interval(site["people_right"]), interval(site["crawlers_found"])
            own.append((size, site["people"], people, site["crawlers"], crawlers))
    if own:
        parts += [
            "<h2>This site's own visitors only</h2>",
            "<p>The table above includes simulated visitors.</p>",
            _table(("visits", "people", "people right", "crawlers", "crawlers found"), own),
        ]
    parts.append("<h2>Confusion tables</h2>")
    for size, measured in bundle.metrics.items():
        parts.append(f"<h3>At {escape(size)} visits</h3>{_confusion(measured['confusion'])}")
    parts += [
        "<h2>Calibration</h2>",
        "<p>A point on the diagonal means that as many sessions were a crawler's as the model predicted.</p>",
        calibration_plot(bundle.metrics),
        "<h2>Training data</h2>",
        _table(("", ""), [(name, str(value)) for name, value in bundle.provenance.items()]),
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(bundle.name)}</title>'
    return f"{head}<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n"


def interval(measured: Mapping[str, float]) -> str:
    """
    Format a share with its interval.

    >>> interval({"value": 0.99, "low": 0.946, "high": 0.998, "of": 100})
    '99.00 % (94.60 to 99.80, of 100)'
    """
    if not measured["of"]:
        return "unknown"
    value, low, high = (measured[name] * 100 for name in ("value", "low", "high"))
    return f"{value:.2f} % ({low:.2f} to {high:.2f}, of {measured['of']:,})"


def _confusion(table: Mapping[str, Mapping[str, int]]) -> str:
    judged = sorted({name for row in table.values() for name in row})
    rows = [(truth, *(f"{table[truth].get(name, 0):,}" for name in judged)) for truth in sorted(table)]
    return _table(("truth", *(f"classified as {name}" for name in judged)), rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


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

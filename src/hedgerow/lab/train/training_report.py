"""The quality report of a bundle, as one HTML page without external resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from hedgerow.lab.train.calibration import calibration_plot
from hedgerow.watch.models.bundle import Bundle

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%}"
)

_ABOUT = (
    "All figures are for visitors that the model had not seen: five-fold cross-validation by visitor. The brackets"
    " contain the 95 % interval (Wilson) and the number of sessions. Sessions of one visitor are similar: with few"
    " visitors, such as a handful of crawls, the true interval is wider."
)


def page(bundle: Bundle) -> str:
    rows = [
        (
            size,
            interval(measured["people_right"]),
            interval(measured["crawlers_found"]),
            f"{measured['auc']:.4f}",
            f"{measured['calibration_error']:.4f}",
        )
        for size, measured in bundle.metrics.items()
    ]
    parts = [
        f"<h1>{escape(bundle.name)}: quality</h1>",
        f"<p>{_ABOUT}</p>",
        _table(("visits", "people right", "crawlers found", "area under ROC", "calibration error"), rows),
    ]
    own = [
        (
            size,
            measured["own"]["people"],
            interval(measured["own"]["people_right"]),
            measured["own"]["crawlers"],
            interval(measured["own"]["crawlers_found"]),
        )
        for size, measured in bundle.metrics.items()
        if "own" in measured
    ]
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

"""`hedgerow train heuristics LOG...`: thresholds and weights of `hedgerow report`, learned from labelled logs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from hedgerow.errors import HedgerowError, ModelError
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.formats import readable

STANDARD_OUTPUT = "-"
_MEMORY = 1_200_000_000


def run(logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None) -> None:
    """
    Learn from *logs*, each a site of its own, whose lines *dialect* tells how to read.

    *labels* is a CSV of `source,label`, where "person" is one.
    """
    try:
        from hedgerow.lab.train.report_weights import learn, lesson
        from hedgerow.report.report_model import encoded
        from hedgerow.report.tables.source_tables import Tables
    except ImportError as error:
        raise HedgerowError(f"this needs {error.name}; install hedgerow[report]") from None
    from hedgerow.lab.train.log_samples import read_labels
    from hedgerow.ledger.reader import short_name
    from hedgerow.request.bots import Bots, known_bots
    from hedgerow.watch.models.bundle import load, load_window

    if not logs:
        raise ModelError("name the logs to learn from: hedgerow train heuristics LOG...")
    told = read_labels(labels) if labels is not None else None
    bots, bundles = Bots(known=known_bots()), (load(), load_window())
    lessons = []
    for log in logs:
        with Tables([log], memory=_MEMORY, dialect=dialect, hide_agents=True) as tables:
            lessons.append(lesson(short_name(log), tables, bots, *bundles, told))
            typer.echo(f"{readable(short_name(log))}: {len(lessons[-1].crawlers):,} labelled sources", err=True)
    model = learn(lessons)
    if out is not None:
        try:
            out.write_bytes(encoded(model))
        except OSError as error:
            raise ModelError(f"{str(out)!r} cannot be written: {error.strerror}") from None
    text = json.dumps(model.provenance, indent=1)
    if json_path not in {None, STANDARD_OUTPUT}:
        Path(str(json_path)).write_text(text + "\n", encoding="utf-8")
    else:
        sys.stdout.write(text + "\n")

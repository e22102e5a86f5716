"""`hedgerow train shape LOG...`: the models that judge the shape of traffic, from a site's own logs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from hedgerow.errors import ModelError
from hedgerow.logs.dialect import Dialect

STANDARD_OUTPUT = "-"


def run(
    logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None, seed: int
) -> None:
    """
    Train on *logs*, each a site of its own, read as *dialect* tells, and say how good it is on sources it had not seen.

    *labels* is a CSV of `visitor,label`; without it crawlers are those that say so, and people those that look like it.
    """
    if not logs:
        raise ModelError("name the logs to learn from: hedgerow train shape LOG...")
    try:
        from hedgerow.lab.train.shape_model import gather, train_shape
    except ImportError as error:
        raise ModelError(f"training needs {error.name}; install hedgerow[train]") from None
    from hedgerow.lab.train.log_samples import read_labels
    from hedgerow.ledger.reader import short_name
    from hedgerow.logs.reader import LogReader
    from hedgerow.report.shape.model_file import save

    told = read_labels(labels) if labels is not None else None
    gathered = {}
    for number, log in enumerate(logs):
        sources = gather(LogReader([log], dialect=dialect), told)
        labelled = sum(bool(source.label) for source in sources)
        typer.echo(f"log {number + 1} of {len(logs)}: {len(sources):,} sources, {labelled:,} with a label", err=True)
        gathered[f"{number} {short_name(log)}"] = sources
    provenance: dict[str, Any] = {
        "logs": len(logs),
        "labels": "given" if told is not None else "declared and human-like",
    }
    bundle = train_shape(gathered, seed=seed, provenance=provenance, after=lambda done: typer.echo(done, err=True))
    if out is not None:
        save(bundle, out)
        typer.echo(f"The bundle is in {out}.", err=True)
    text = json.dumps({"provenance": bundle.provenance, "metrics": bundle.metrics}, indent=1) + "\n"
    if json_path in {None, STANDARD_OUTPUT}:
        sys.stdout.write(text)
        return
    try:
        Path(str(json_path)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{json_path!r} cannot be written: {error.strerror}") from None

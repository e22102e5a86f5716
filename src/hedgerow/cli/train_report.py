"""`hedgerow train heuristics LOG...` and `hedgerow train shape LOG...`: the models of `hedgerow report`."""

from __future__ import annotations

from pathlib import Path

import typer

from hedgerow.cli.output import STANDARD_OUTPUT, write_json
from hedgerow.errors import HedgerowError, ModelError
from hedgerow.ledger.reader import short_name
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import LogReader

_MEMORY = 1_200_000_000


def train_heuristics(
    logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None
) -> None:
    """
    Learn thresholds and weights from *logs*, each of another site, in *dialect*.

    *labels* is a CSV file of `source,label`, in which the label of people is "person".
    """
    try:
        from hedgerow.lab.train.report_weights import train_report_model, training_log
        from hedgerow.report.report_model import encoded
        from hedgerow.report.tables.source_tables import Tables
    except ImportError as error:
        raise HedgerowError(f"this needs {error.name}; install hedgerow[report]") from None
    from hedgerow.lab.train.log_samples import read_labels
    from hedgerow.request.bots import Bots, known_bots
    from hedgerow.watch.models.bundle import load, load_window

    if not logs:
        raise ModelError("name the logs to learn from: hedgerow train heuristics LOG...")
    known = read_labels(labels) if labels is not None else None
    bots, bundles = Bots(known=known_bots()), (load(), load_window())
    lessons = []
    for log in logs:
        with Tables([log], memory=_MEMORY, dialect=dialect, hide_agents=True) as tables:
            lessons.append(training_log(short_name(log), tables, bots, *bundles, known))
            typer.echo(f"{readable(short_name(log))}: {len(lessons[-1].crawlers):,} labelled sources", err=True)
    model = train_report_model(lessons)
    if out is not None:
        try:
            out.write_bytes(encoded(model))
        except OSError as error:
            raise ModelError(f"{str(out)!r} cannot be written: {error.strerror}") from None
    write_json(json_path or STANDARD_OUTPUT, model.provenance)


def train_shape(
    logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None, seed: int
) -> None:
    """
    Train the traffic-shape models on *logs*, each of another site, and print their quality on unseen sources.

    *labels* is a CSV file of `visitor,label`. Without it, crawlers are sources that declare themselves, and people are
    sources that look like people.
    """
    if not logs:
        raise ModelError("name the logs to learn from: hedgerow train shape LOG...")
    try:
        from hedgerow.lab.train.shape_model import gather
        from hedgerow.lab.train.shape_model import train_shape as train
    except ImportError as error:
        raise ModelError(f"training needs {error.name}; install hedgerow[train]") from None
    from hedgerow.lab.train.log_samples import read_labels
    from hedgerow.report.shape.model_file import save

    known = read_labels(labels) if labels is not None else None
    gathered = {}
    for number, log in enumerate(logs):
        sources = gather(LogReader([log], dialect=dialect), known)
        labelled = sum(bool(source.label) for source in sources)
        typer.echo(f"log {number + 1} of {len(logs)}: {len(sources):,} sources, {labelled:,} with a label", err=True)
        gathered[f"{number} {short_name(log)}"] = sources
    provenance = {"logs": len(logs), "labels": "given" if known is not None else "declared and human-like"}
    bundle = train(gathered, seed=seed, provenance=provenance, after=lambda done: typer.echo(done, err=True))
    if out is not None:
        save(bundle, out)
        typer.echo(f"The bundle is in {out}.", err=True)
    write_json(json_path or STANDARD_OUTPUT, {"provenance": bundle.provenance, "metrics": bundle.metrics})

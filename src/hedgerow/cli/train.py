"""
`hedgerow train`: train a model bundle from a site's ledger or logs, or from simulated visitors, and show its quality.

A bundle for a site becomes the shadow of the one in use, until `hedgerow models promote`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from hedgerow.cli.ledger_access import has_ledger, labels_of, ledger_of
from hedgerow.cli.options import Config
from hedgerow.cli.output import STANDARD_OUTPUT, console, visits_with_progress, write_file, write_json
from hedgerow.errors import ModelError
from hedgerow.logs.dialect import Dialect
from hedgerow.settings import load_settings
from hedgerow.web.watch import model_files

if TYPE_CHECKING:
    from hedgerow.watch.models.bundle import Bundle

_WIDTH = 120


class Recipe(StrEnum):
    BOOSTED = "boosted"
    PATHMARKER = "pathmarker"
    WINDOW = "window"


def run(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOG...]", help="Ledgers or access logs; default: the ledger of the settings."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the bundle to this file; default: make it the shadow of the one in use."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV of visitor,label; other visitors are people, if the filter agrees."),
    ] = None,
    recipe: Annotated[Recipe, typer.Option(help="Our own models, those of PathMarker, or the sliding window.")] = (
        Recipe.BOOSTED
    ),
    host: Annotated[str, typer.Option(metavar="NAME", help="Host of the site, if the log does not contain it.")] = "",
    budget: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of people that all stages together may misclassify.")
    ] = 0.005,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed and logs give the same bundle.")] = 1,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Use simulated people and crawlers instead of logs.")
    ] = False,
    people: Annotated[int, typer.Option(min=20, help="Number of simulated people, with --simulated.")] = 4000,
    crawlers: Annotated[int, typer.Option(min=20, help="Number of simulated crawlers, with --simulated.")] = 3000,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the quality as JSON; - for standard output.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the quality as HTML, with calibration plots; default: next to the bundle."
        ),
    ] = None,
    config: Config = None,
) -> None:
    """
    Train the models that recognise crawlers, from logs or simulated visitors.

    The labels next to the ledger identify the visits of `hedgerow crawl`. Other visitors count as people if neither the
    heuristics nor the shipped models suspect them. If a site has fewer than 20 people or crawlers, simulated ones are
    added. All figures are cross-validated on visitors that the model has not seen, with 95 % intervals. Needs
    scikit-learn, the extra `train`.

    `train heuristics LOG...` and `train shape LOG...` train the models of `hedgerow report` instead.
    """
    settings = load_settings(config)
    if logs and logs[0] in {"heuristics", "shape"}:
        from hedgerow.cli.train_report import train_heuristics, train_shape

        dialect = Dialect(settings.logs.format, settings.logs.fields, cookies=True)
        if logs[0] == "heuristics":
            train_heuristics(logs[1:], dialect, out=out, labels=labels, json_path=json)
        else:
            train_shape(logs[1:], dialect, out=out, labels=labels, json_path=json, seed=seed)
        return
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ModelError("training needs scikit-learn; install it: pip install 'hedgerow[train]'") from None
    from hedgerow.lab.train.simulated_data import Size, train_simulated
    from hedgerow.watch.models.bundle import save

    if simulated and logs:
        raise typer.BadParameter("takes no logs", param_hint="--simulated")
    if simulated:
        size = Size(people=people, crawlers=crawlers)
        with _busy(f"Training on {people:,} simulated people and {crawlers:,} crawlers"):
            bundle = train_simulated(recipe.value, seed=seed, budget=budget, size=size, after=_print_status)
    else:
        if not logs and not has_ledger(settings):
            raise ModelError(
                f"there is no ledger {ledger_of(settings)}; name a log, or the settings of the site with --config, or"
                " use --simulated"
            )
        logs = logs or [ledger_of(settings)]
        crawls = [labels_of(settings, log) for log in logs]
        bundle = _from_logs(logs, crawls, labels, recipe=recipe, host=host, budget=budget, seed=seed)
    if out is None and not simulated and json != STANDARD_OUTPUT:
        out = model_files(settings).put_shadow(bundle)
        _print_status(
            f"The bundle is the shadow, {out}: its classifications are recorded and have no effect. Send SIGHUP to a "
            "running Hedgerow; see hedgerow models show, then hedgerow models promote."
        )
    elif out is not None:
        save(bundle, out)
        _print_status(f"The bundle is in {out}.")
    _write_quality(bundle, json, report or (out.with_suffix(".html") if out is not None else None))


def _write_quality(bundle: Bundle, json: str | None, report: Path | None) -> None:
    from hedgerow.lab.train.training_report import page

    if report is not None:
        write_file(report, [page(bundle)])
        _print_status(f"Quality report with calibration plots: {report}")
    if json is not None:
        names = ("name", "budget", "provenance", "metrics")
        write_json(json, {name: getattr(bundle, name) for name in names})
    if json != STANDARD_OUTPUT:
        _print_quality(bundle)


def _print_status(text: str) -> None:
    typer.echo(text, err=True)


def _busy(text: str) -> AbstractContextManager[object]:
    """Show a spinner if standard error is a terminal."""
    return Console(stderr=True).status(f"{text}; it may take some minutes ...")


def _from_logs(
    logs: list[str],
    crawled: list[Path],
    labels: Path | None,
    *,
    recipe: Recipe,
    host: str,
    budget: float,
    seed: int,
) -> Bundle:
    from random import Random

    from hedgerow.lab.train import log_samples as sitelogs
    from hedgerow.lab.train.ledger_samples import label_crawls, visits_to_windows
    from hedgerow.lab.train.samples import visits_to_samples, windows_of
    from hedgerow.lab.train.simulated_data import path_rows
    from hedgerow.ledger.labels import read_labels
    from hedgerow.logs.reader import LogReader
    from hedgerow.watch.models.bundle import load, shipped

    reader = LogReader(logs)
    window = recipe is Recipe.WINDOW
    if window and not reader.is_ledger:
        raise ModelError(
            "the window model needs cookies, which access logs do not contain: name a ledger, or use --simulated"
        )
    crawls = [label for path in dict.fromkeys(crawled) for label in read_labels(path)] if reader.is_ledger else []
    known = sitelogs.read_labels(labels) if labels else {}
    gathered = sitelogs.gather(
        label_crawls(visits_with_progress(reader), crawls, known), known, shipped("window") if window else load(),
        host=host, to_samples=visits_to_windows if window else visits_to_samples,
    )  # fmt: skip
    _print_status(
        f"{reader.counts.parsed:,} visits; {len(crawls)} crawls of hedgerow crawl; with {27 if window else 10} pages or"
        f" more: {gathered.people:,} people and {gathered.crawlers:,} crawlers; {gathered.kept_out:,} visitors were"
        " left out, because they may not be people"
    )
    with _busy("Training"):
        return sitelogs.train_from_logs(
            gathered, recipe=recipe.value, seed=seed, budget=budget, after=_print_status,
            to_rows=(lambda walks: windows_of(walks, Random(f"windows {seed}"))) if window else path_rows,  # noqa: S311
        )  # fmt: skip


def _print_quality(bundle: Bundle) -> None:
    from hedgerow.lab.train.training_report import interval

    output = console(_WIDTH)
    table = Table(title=f"{bundle.name}: visitors not seen in training", box=None, title_justify="left")
    for column in ("visits", "people right", "crawlers found", "area under ROC", "calibration error"):
        table.add_column(column, justify="right")
    for size, measured in bundle.metrics.items():
        people, crawlers = interval(measured["people_right"]), interval(measured["crawlers_found"])
        table.add_row(size, people, crawlers, f"{measured['auc']:.4f}", f"{measured['calibration_error']:.4f}")
    output.print(table)
    size, last = list(bundle.metrics.items())[-1]
    if own := last.get("own"):
        people = f"{own['people']} people, {interval(own['people_right'])} of their sessions right"
        crawlers = f"{own['crawlers']} crawlers, {interval(own['crawlers_found'])} of their sessions found"
        output.print(
            f"\nFrom this site, at {size} visits: {people if own['people'] else 'no people'}; "
            f"{crawlers if own['crawlers'] else 'no crawlers'}. The others are simulated."
        )
    judged = sorted({name for row in last["confusion"].values() for name in row})
    grid = Table(title=f"\nAt {size} visits: truth (rows) and classification (columns)", box=None, title_justify="left")
    grid.add_column("")
    for name in judged:
        grid.add_column(name, justify="right")
    for truth, row in sorted(last["confusion"].items()):
        grid.add_row(truth, *(f"{row.get(name, 0):,}" for name in judged))
    output.print(grid)

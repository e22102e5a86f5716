"""
`hedgerow train`: a bundle of models, from a site's ledger or logs or from simulated walks, and how good it is.

A bundle for a site goes into the shadow of the one in use, until `hedgerow models promote`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.ledger_access import has_ledger, labels_of, ledger_of
from hedgerow.cli.options import Config, default_config
from hedgerow.errors import ModelError
from hedgerow.logs.dialect import Dialect
from hedgerow.settings import load_settings
from hedgerow.web.watch import model_files

if TYPE_CHECKING:
    from hedgerow.core.visit import Visit
    from hedgerow.logs.reader import LogReader
    from hedgerow.watch.models.bundle import Bundle

STANDARD_OUTPUT = "-"
_WIDTH_OF_A_FILE = 120
_BETWEEN = 2000


class Recipe(StrEnum):
    """What is trained."""

    BOOSTED = "boosted"
    PATHMARKER = "pathmarker"
    WINDOW = "window"


def run(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOG...]", help="Ledgers or access logs; none: the ledger of the settings."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the bundle here; without, into the shadow of the one in use."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV of visitor,label; who is not in it is a person, if the filter agrees."),
    ] = None,
    recipe: Annotated[Recipe, typer.Option(help="Our own models, PathMarker's, or the sliding window's.")] = (
        Recipe.BOOSTED
    ),
    host: Annotated[str, typer.Option(metavar="NAME", help="The site's host, where the log does not name it.")] = "",
    budget: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="The share of people that may be got wrong, all stages together.")
    ] = 0.005,
    seed: Annotated[int, typer.Option(help="Same seed and same logs, same bundle.")] = 1,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="No logs: simulated people and crawlers only.")
    ] = False,
    people: Annotated[int, typer.Option(min=20, help="Simulated people, with --simulated.")] = 4000,
    crawlers: Annotated[int, typer.Option(min=20, help="Simulated crawlers, with --simulated.")] = 3000,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write how good it is as JSON; - for standard output.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write how good it is as HTML, with calibration plots; beside the bundle."),
    ] = None,
    config: Config = None,
) -> None:
    """
    Train the models that tell crawlers by their paths; or, by `train heuristics LOG...`, those of `hedgerow report`.

    The visits of `hedgerow crawl` are known by the labels beside the ledger. Everybody else is taken for a person whom
    neither the heuristics nor the shipped models suspect. Where a site has fewer than 20 of either, simulated ones are
    added. Cross-validated by visitor: every figure is of visitors that the model had not seen, with its 95 % interval.
    Needs scikit-learn, the extra `train`. `train shape LOG...` trains the models of the shape of traffic instead.
    """
    if logs and logs[0] in {"heuristics", "shape"}:
        written = load_settings(default_config(config)).logs
        dialect = Dialect(written.format, written.fields, cookies=True)
        _of_reports(logs[0], logs[1:], dialect, out=out, labels=labels, json_path=json, seed=seed)
        return
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ModelError("training needs scikit-learn; install it: pip install 'hedgerow[train]'") from None
    from hedgerow.lab.train.simulated_data import Size, train_simulated
    from hedgerow.lab.train.training_report import page
    from hedgerow.watch.models.bundle import save

    settings = load_settings(default_config(config))
    if simulated and logs:
        raise typer.BadParameter("takes no logs", param_hint="--simulated")
    if simulated:
        size = Size(people=people, crawlers=crawlers)
        with _busy(f"Training on {people:,} simulated people and {crawlers:,} crawlers"):
            bundle = train_simulated(recipe.value, seed=seed, budget=budget, size=size, after=_tell)
    else:
        if not logs and not has_ledger(settings):
            raise ModelError(
                f"there is no ledger {ledger_of(settings)}; name a log, or the site's settings with --config, or take"
                " --simulated"
            )
        logs = logs or [ledger_of(settings)]
        crawls = [labels_of(settings, log) for log in logs]
        bundle = _from_logs(logs, crawls, labels, recipe=recipe, host=host, budget=budget, seed=seed)
    where = out
    if out is not None:
        save(bundle, out)
        _tell(f"The bundle is in {out}.")
    elif not simulated and json != STANDARD_OUTPUT:
        where = model_files(settings).put_shadow(bundle)
        _tell(
            f"The bundle is in the shadow, {where}: it judges and is not heeded. Have a running Hedgerow take it with "
            "SIGHUP; see hedgerow models show, then hedgerow models promote."
        )
    if report is None and where is not None:
        report = where.with_suffix(".html")
    if report is not None:
        _write(report, page(bundle))
        _tell(f"How good it is, with calibration plots: {report}")
    told = {
        "name": bundle.name,
        "budget": bundle.budget,
        "provenance": bundle.provenance,
        "metrics": bundle.metrics,
    }
    if json == STANDARD_OUTPUT:
        sys.stdout.write(_encoded(told))
        return
    if json is not None:
        _write(Path(json), _encoded(told))
    _print(bundle)


def _of_reports(
    what: str,
    logs: list[str],
    dialect: Dialect,
    *,
    out: Path | None,
    labels: Path | None,
    json_path: str | None,
    seed: int,
) -> None:
    """Train what `hedgerow report` rests on."""
    if what == "heuristics":
        from hedgerow.cli.train_heuristics import run as run_heuristics

        run_heuristics(logs, dialect, out=out, labels=labels, json_path=json_path)
    else:
        from hedgerow.cli.train_shape import run as run_shape

        run_shape(logs, dialect, out=out, labels=labels, json_path=json_path, seed=seed)


def _tell(done: str) -> None:
    typer.echo(done, err=True)


def _busy(what: str) -> Any:
    """Shows that something goes on, where somebody is looking."""
    from rich.console import Console

    return Console(stderr=True).status(f"{what}; it may take some minutes ...")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None


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
    from hedgerow.lab.train.ledger_samples import tell_crawls, visits_to_windows
    from hedgerow.lab.train.samples import visits_to_samples, windows_of
    from hedgerow.lab.train.simulated_data import path_rows
    from hedgerow.ledger.labels import read_labels
    from hedgerow.logs.reader import LogReader
    from hedgerow.watch.models.bundle import load, shipped

    reader = LogReader(logs)
    window = recipe is Recipe.WINDOW
    if window and not reader.is_ledger:
        raise ModelError(
            "the window's model needs cookies, which access logs do not tell: name a ledger, or --simulated"
        )
    crawls = [label for path in dict.fromkeys(crawled) for label in read_labels(path)] if reader.is_ledger else []
    known = sitelogs.read_labels(labels) if labels else {}
    gathered = sitelogs.gather(
        tell_crawls(_shown(reader), crawls, known), known, shipped("window") if window else load(),
        host=host, to_samples=visits_to_windows if window else visits_to_samples,
    )  # fmt: skip
    _tell(
        f"{reader.counts.parsed:,} visits; {len(crawls)} crawls of hedgerow crawl; with {27 if window else 10} pages or"
        f" more: {gathered.people:,} people and {gathered.crawlers:,} crawlers; {gathered.kept_out:,} were kept"
        " out, because nobody can be sure that they are people"
    )
    with _busy("Training"):
        return sitelogs.train_from_logs(
            gathered, recipe=recipe.value, seed=seed, budget=budget, after=_tell,
            to_rows=(lambda walks: windows_of(walks, Random(f"windows {seed}"))) if window else path_rows,  # noqa: S311
        )  # fmt: skip


def _shown(reader: LogReader) -> Iterator[Visit]:
    """The reader's visits, under a progress bar."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Reading", total=reader.counts.bytes_total or None)
        for number, visit in enumerate(reader):
            if number % _BETWEEN == 0:
                progress.update(task, completed=reader.counts.bytes_read)
            yield visit


def _encoded(report: dict[str, Any]) -> str:
    import json

    return json.dumps(report, indent=1) + "\n"


def _print(bundle: Bundle) -> None:
    from rich.console import Console
    from rich.table import Table

    from hedgerow.lab.train.training_report import interval

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    table = Table(title=f"{bundle.name}: visitors it had not seen", box=None, title_justify="left")
    for column in ("visits", "people right", "crawlers found", "area under ROC", "calibration error"):
        table.add_column(column, justify="right")
    for size, measured in bundle.metrics.items():
        people, found = interval(measured["people_right"]), interval(measured["crawlers_found"])
        table.add_row(size, people, found, f"{measured['auc']:.4f}", f"{measured['calibration_error']:.4f}")
    console.print(table)
    size, last = list(bundle.metrics.items())[-1]
    if own := last.get("own"):
        people = f"{own['people']} people, {interval(own['people_right'])} of their sessions right"
        crawlers = f"{own['crawlers']} crawlers, {interval(own['crawlers_found'])} of their sessions found"
        console.print(
            f"\nOf these, this site's own at {size} visits: {people if own['people'] else 'no people'}; "
            f"{crawlers if own['crawlers'] else 'no crawlers'}. The rest is simulated."
        )
    judged = sorted({name for row in last["confusion"].values() for name in row})
    grid = Table(title=f"\nAt {size} visits: truth (rows) and judgement (columns)", box=None, title_justify="left")
    grid.add_column("")
    for name in judged:
        grid.add_column(name, justify="right")
    for truth, row in sorted(last["confusion"].items()):
        grid.add_row(truth, *(f"{row.get(name, 0):,}" for name in judged))
    console.print(grid)

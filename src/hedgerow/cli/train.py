"""`hedgerow train`: a bundle of models, from a site's own logs or from simulated walks, and how good it is."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.errors import ModelError

if TYPE_CHECKING:
    from hedgerow.models.bundle import Bundle

STANDARD_OUTPUT = "-"
_WIDTH_OF_A_FILE = 120


class Recipe(StrEnum):
    """What is trained."""

    BOOSTED = "boosted"
    PATHMARKER = "pathmarker"
    WINDOW = "window"


def run(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOG...]", help="A ledger or access logs; none: simulated people and crawlers only."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the bundle here.")] = None,
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
    people: Annotated[int, typer.Option(min=20, help="Simulated people, where there are no logs.")] = 4000,
    crawlers: Annotated[int, typer.Option(min=20, help="Simulated crawlers, where there are no logs.")] = 3000,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write how good it is as JSON; - for standard output.")
    ] = None,
) -> None:
    """
    Train the models that tell crawlers by their paths.

    Cross-validated by visitor: every figure is of visitors that the model had not seen, with its 95 % interval. Needs
    the extra `hedgerow[train]`. By `train shape LOG...` the models that judge the shape of traffic are trained instead.
    """
    if logs and logs[0] == "shape":
        from hedgerow.cli.train_shape import run as run_shape

        run_shape(logs[1:], out=out, labels=labels, json_path=json, seed=seed)
        return
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ModelError("training needs scikit-learn; install hedgerow[train]") from None
    from hedgerow.models.bundle import save
    from hedgerow.training.simulated import Size, train_simulated

    def tell(done: str) -> None:
        typer.echo(done, err=True)

    if logs:
        bundle = _from_logs(logs, labels, recipe=recipe, host=host, budget=budget, seed=seed)
    else:
        size = Size(people=people, crawlers=crawlers)
        bundle = train_simulated(recipe.value, seed=seed, budget=budget, size=size, after=tell)
    if out is not None:
        save(bundle, out)
        tell(f"The bundle is in {out}.")
    report = {
        "name": bundle.name,
        "budget": bundle.budget,
        "provenance": bundle.provenance,
        "metrics": bundle.metrics,
    }
    if json == STANDARD_OUTPUT:
        sys.stdout.write(_encoded(report))
        return
    if json is not None:
        try:
            Path(json).write_text(_encoded(report), encoding="utf-8")
        except OSError as error:
            raise ModelError(f"{json!r} cannot be written: {error.strerror}") from None
    _print(bundle)


def _from_logs(logs: list[str], labels: Path | None, *, recipe: Recipe, host: str, budget: float, seed: int) -> Bundle:
    from hedgerow.logs.reader import Reader
    from hedgerow.models.bundle import load
    from hedgerow.training.sitelogs import gather, read_labels, train_from_logs

    if recipe is Recipe.WINDOW:
        raise ModelError("the window's model needs what logs do not tell; train it without logs")
    gathered = gather(Reader(logs), read_labels(labels) if labels else {}, load(), host=host)
    typer.echo(
        f"{gathered.people:,} people and {gathered.crawlers:,} crawlers with ten pages or more; "
        f"{gathered.kept_out:,} kept out by the filter",
        err=True,
    )
    return train_from_logs(
        gathered, recipe=recipe.value, seed=seed, budget=budget, after=lambda done: typer.echo(done, err=True)
    )


def _encoded(report: dict[str, Any]) -> str:
    import json

    return json.dumps(report, indent=1) + "\n"


def _print(bundle: Bundle) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    table = Table(title=f"{bundle.name}: visitors it had not seen", box=None, title_justify="left")
    for column in ("visits", "people right", "crawlers found", "area under ROC", "calibration error"):
        table.add_column(column, justify="right")
    for size, measured in bundle.metrics.items():
        people, found = _interval(measured["people_right"]), _interval(measured["crawlers_found"])
        table.add_row(size, people, found, f"{measured['auc']:.4f}", f"{measured['calibration_error']:.4f}")
    console.print(table)
    last = list(bundle.metrics.values())[-1]["confusion"]
    judged = sorted({name for row in last.values() for name in row})
    grid = Table(title="\nThe last stage: truth (rows) and judgement (columns)", box=None, title_justify="left")
    grid.add_column("")
    for name in judged:
        grid.add_column(name, justify="right")
    for truth in sorted(last):
        grid.add_row(truth, *(f"{last[truth].get(name, 0):,}" for name in judged))
    console.print(grid)


def _interval(measured: dict[str, float]) -> str:
    return f"{measured['value']:.2%} ({measured['low']:.2%} to {measured['high']:.2%})"

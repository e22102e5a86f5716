"""
`hedgerow train`: train a model bundle from a site's ledger or logs, or from simulated visitors, and show its quality.

A bundle for a site becomes the shadow of the one in use, until `hedgerow models promote`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.console import Console
from typer import Argument, Option

from hedgerow.cli.main import Config
from hedgerow.cli.output import STANDARD_OUTPUT, console, new_table, visits_with_progress, write_file, write_json
from hedgerow.cli.running_service import reload_running
from hedgerow.errors import HedgerowError, ModelError
from hedgerow.ledger.reader import short_name
from hedgerow.logs.dialect import Dialect
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import LogReader
from hedgerow.settings import Settings, load_settings
from hedgerow.web.ledger_access import has_ledger, labels_of, ledger_of
from hedgerow.web.watch import bundle_in_use, model_files, session_lengths

if TYPE_CHECKING:
    from hedgerow.lab.train.adapt import Adapted
    from hedgerow.lab.train.log_samples import Gathered, Lengths
    from hedgerow.watch.models.bundle import Bundle

_WIDTH = 120
_MEMORY = 1_200_000_000


Recipe = Literal["boosted", "pathmarker", "window"]


def run(
    logs: Annotated[
        list[str] | None,
        Argument(metavar="[LOG...]", help="Ledgers or access logs; default: the ledger of the settings."),
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the bundle to this file; default: make it the shadow of the one in use."),
    ] = None,
    labels: Annotated[
        Path | None,
        Option(metavar="FILE", help="CSV of visitor,label; other visitors are people, if the filter agrees."),
    ] = None,
    recipe: Annotated[Recipe, Option(help="Our own models, those of PathMarker, or the sliding window.")] = "boosted",
    host: Annotated[str, Option(metavar="NAME", help="Host of the site, if the log does not contain it.")] = "",
    budget: Annotated[
        float, Option(min=0.0, max=0.5, help="Share of people that all stages together may misclassify.")
    ] = 0.005,
    seed: Annotated[int, Option(help="Random seed: the same seed and logs give the same bundle.")] = 1,
    simulated: Annotated[
        bool, Option("--simulated", help="Use simulated people and crawlers instead of logs.")
    ] = False,
    people: Annotated[int, Option(min=20, help="Number of simulated people, with --simulated.")] = 4000,
    crawlers: Annotated[int, Option(min=20, help="Number of simulated crawlers, with --simulated.")] = 3000,
    json: Annotated[
        str | None, Option(metavar="FILE", help="Write the quality as JSON; - for standard output.")
    ] = None,
    report: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the quality as HTML, with calibration plots; default: next to the bundle."),
    ] = None,
    config: Config = None,
) -> None:
    """
    Train the models that recognise crawlers, from logs or simulated visitors.

    The labels next to the ledger identify the visits of `hedgerow crawl`. Other visitors count as people, unless the
    heuristics suspect them or the shipped bundle suspects most of their sessions. Training goes on from the shipped
    bundle, with simulated people and crawlers among the samples. A bundle that is worse than the current one on the
    site's own people is rejected. All figures are of visitors that neither the models nor the thresholds have seen,
    with 95 % intervals. Needs scikit-learn, the extra `train`.

    `train heuristics LOG...` and `train shape LOG...` train the models of `hedgerow report` instead, and
    `train similarity LOG...` learns how alike the series of a campaign are (k of PubCrawl's algorithm 1).
    """
    settings = load_settings(config)
    if logs and logs[0] in {"heuristics", "shape", "similarity"}:
        dialect = Dialect(settings.logs.format, settings.logs.fields, cookies=True)
        if logs[0] == "heuristics":
            train_heuristics(logs[1:], dialect, out=out, labels=labels, json_path=json)
        elif logs[0] == "similarity":
            train_similarity(logs[1:], dialect, out=out, labels=labels, json_path=json)
        else:
            train_shape(logs[1:], dialect, out=out, labels=labels, json_path=json, seed=seed)
        return
    check_installed()
    from hedgerow.lab.train.simulated_data import Size, train_simulated
    from hedgerow.watch.models.bundle import save

    if simulated and logs:
        raise typer.BadParameter("takes no logs", param_hint="--simulated")
    if simulated:
        size = Size(people=people, crawlers=crawlers)
        with _busy(f"Training on {people:,} simulated people and {crawlers:,} crawlers"):
            bundle = train_simulated(recipe, seed=seed, budget=budget, size=size, after=print_status)
    else:
        if not logs and not has_ledger(settings):
            raise ModelError(
                f"there is no ledger {ledger_of(settings)}; name a log, or the settings of the site with --config, or"
                " use --simulated"
            )
        bundle = _from_logs(
            logs or [ledger_of(settings)], settings, labels, recipe=recipe, host=host, budget=budget, seed=seed
        )
    if out is None and not simulated and json != STANDARD_OUTPUT:
        out = put_shadow(bundle, settings)
    elif out is not None:
        save(bundle, out)
        print_status(f"The bundle is in {out}.")
    write_quality(bundle, json, report or (out.with_suffix(".html") if out is not None else None))


def check_installed() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ModelError("training needs scikit-learn; install it: pip install 'hedgerow[train]'") from None


def put_shadow(bundle: Bundle, settings: Settings) -> Path:
    path = model_files(settings).put_shadow(bundle)
    print_status(
        f"The bundle is the shadow, {path}: its classifications are recorded and have no effect "
        f"({reload_running(settings)}). See hedgerow models show, then hedgerow models promote."
    )
    return path


def write_quality(bundle: Bundle, json: str | None, report: Path | None) -> None:
    from hedgerow.lab.train.training_report import page

    if report is not None:
        write_file(report, [page(bundle)])
        print_status(f"Quality report with calibration plots: {report}")
    if json is not None:
        write_json(json, {name: getattr(bundle, name) for name in ("name", "budget", "provenance", "metrics")})
    if json != STANDARD_OUTPUT:
        _print_quality(bundle)


print_status = partial(typer.echo, err=True)


def _busy(text: str) -> AbstractContextManager[object]:
    """Show a spinner if standard error is a terminal."""
    return Console(stderr=True).status(f"{text}; it may take some minutes ...")


def _from_logs(
    logs: list[str], settings: Settings, labels: Path | None, *, recipe: Recipe, host: str, budget: float, seed: int
) -> Bundle:
    from hedgerow.lab.train.log_samples import train_for_site

    lengths = lengths_of(settings)
    gathered = read_site(logs, settings, labels, recipe=recipe, host=host)
    with _busy("Training"):
        adapted = train_for_site(
            gathered, recipe=recipe, start=start_of(recipe, settings), seed=seed, budget=budget, lengths=lengths,
            after=print_status,
        )  # fmt: skip
    check_better(adapted, settings, recipe)
    return adapted.bundle


def lengths_of(settings: Settings) -> Lengths:
    from hedgerow.lab.train.log_samples import Lengths

    return Lengths(*session_lengths(settings))


def start_of(recipe: Recipe, settings: Settings) -> Bundle | None:
    """Return the shipped bundle to start from; None if it was trained for other lengths of sessions."""
    from hedgerow.watch.models.bundle import shipped

    start = shipped(recipe)
    misfit = start.misfit(*session_lengths(settings))
    if misfit:
        print_status(f"The bundle that comes with Hedgerow was trained for {misfit}: training begins anew.")
    return None if misfit else start


def read_site(logs: list[str], settings: Settings, labels: Path | None, *, recipe: Recipe, host: str) -> Gathered:
    """Read the samples of a site from its logs, and say how many visitors there are."""
    from hedgerow.lab.train import log_samples as sitelogs
    from hedgerow.lab.train.samples import visits_to_samples, visits_to_windows
    from hedgerow.ledger.labels import read_labels
    from hedgerow.watch.models.bundle import load, shipped

    reader = LogReader(logs)
    window = recipe == "window"
    if window and not reader.is_ledger:
        raise ModelError(
            "the window model needs cookies, which access logs do not contain: name a ledger, or use --simulated"
        )
    paths = dict.fromkeys(labels_of(settings, log) for log in logs)
    crawls = [label for path in paths for label in read_labels(path)] if reader.is_ledger else []
    known = sitelogs.read_labels(labels) if labels else {}
    visits = sitelogs.label_crawls(visits_with_progress(reader), crawls, known)
    lengths = lengths_of(settings)
    to_samples = (
        partial(visits_to_windows, lengths=lengths.window)
        if window
        else partial(visits_to_samples, lengths=lengths.paths)
    )
    gathered = sitelogs.gather(visits, known, shipped("window") if window else load(), host=host, to_samples=to_samples)
    pages = lengths.judged_at(recipe)[0]
    gathered = gathered.with_pages(pages)
    print_status(
        f"{reader.counts.parsed:,} visits; {len(crawls)} crawls of hedgerow crawl; with {pages} pages or more:"
        f" {gathered.people:,} people, {gathered.suspected:,} of whom the shipped bundle suspects now and then, and"
        f" {gathered.crawlers:,} crawlers; left out: {gathered.kept_out:,} visitors that are no people, and"
        f" {gathered.doubtful:,} that often look like crawlers (name them with --labels)"
    )
    return gathered


def check_better(adapted: Adapted, settings: Settings, recipe: Recipe) -> None:
    """Raise ModelError, and so replace nothing, if the new bundle is worse than the current one on this site."""
    from hedgerow.lab.train.adapt import compare

    try:
        current = bundle_in_use(settings, "windows" if recipe == "window" else "paths")
    except ModelError as error:
        print_status(f"Not compared with the bundle in use: {error}")
        return
    comparison = compare(adapted.judged, current)
    if comparison.fault:
        raise ModelError(f"the new bundle was rejected, nothing was replaced: {comparison.fault}")
    print_status(
        f"Visitors that were not seen in training: the new bundle suspects {comparison.suspected:,} of"
        f" {comparison.people:,} people of this site (current bundle: {comparison.suspected_by_current:,}) and finds"
        f" {comparison.found:,} of {comparison.crawlers:,} crawlers (current bundle: {comparison.found_by_current:,})."
    )


def _print_quality(bundle: Bundle) -> None:
    from hedgerow.lab.train.training_report import interval

    output = console(_WIDTH)
    columns = (">visits", ">people right", ">crawlers found", ">area under ROC", ">calibration error")
    title = f"{bundle.name}: visitors that neither models nor thresholds have seen"
    table = new_table(*columns, title=title, box=None, title_justify="left")
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
    title = f"\nAt {size} visits: truth (rows) and classification (columns)"
    grid = new_table("", *(f">{name}" for name in judged), title=title, box=None, title_justify="left")
    for truth, row in sorted(last["confusion"].items()):
        grid.add_row(truth, *(f"{row.get(name, 0):,}" for name in judged))
    output.print(grid)


def train_heuristics(
    logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None
) -> None:
    """Learn thresholds and weights from *logs*, each of another site. *labels* is a CSV file of `source,label`."""
    try:
        from hedgerow.lab.train.report_weights import train_report_model, training_log
        from hedgerow.report.heuristics import encode_model
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
            print_status(f"{readable(short_name(log))}: {len(lessons[-1].crawlers):,} labelled sources")
    model = train_report_model(lessons)
    if out is not None:
        try:
            out.write_bytes(encode_model(model))
        except OSError as error:
            raise ModelError(f"{str(out)!r} cannot be written: {error.strerror}") from None
    write_json(json_path or STANDARD_OUTPUT, model.provenance)


def train_shape(
    logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None, seed: int
) -> None:
    """Train the traffic-shape models on *logs*, each of another site. *labels* is a CSV file of `visitor,label`."""
    if not logs:
        raise ModelError("name the logs to learn from: hedgerow train shape LOG...")
    try:
        from hedgerow.lab.train.shape_model import gather
        from hedgerow.lab.train.shape_model import train_shape as train
    except ImportError as error:
        raise ModelError(f"training needs {error.name}; install hedgerow[train]") from None
    from hedgerow.lab.train.log_samples import read_labels
    from hedgerow.report.shape.classifiers import save

    known = read_labels(labels) if labels is not None else None
    gathered = {}
    for number, log in enumerate(logs):
        sources = gather(LogReader([log], dialect=dialect), known)
        labelled = sum(bool(source.label) for source in sources)
        print_status(f"log {number + 1} of {len(logs)}: {len(sources):,} sources, {labelled:,} with a label")
        gathered[f"{number} {short_name(log)}"] = sources
    provenance = {"logs": len(logs), "labels": "given" if known is not None else "declared and human-like"}
    bundle = train(gathered, seed=seed, provenance=provenance, after=print_status)
    if out is not None:
        save(bundle, out)
        print_status(f"The bundle is in {out}.")
    write_json(json_path or STANDARD_OUTPUT, {"provenance": bundle.provenance, "metrics": bundle.metrics})


def train_similarity(
    logs: list[str], dialect: Dialect, *, out: Path | None, labels: Path | None, json_path: str | None
) -> None:
    """
    Learn k of algorithm 1 from *logs* with known campaigns.

    *labels* is a CSV file of `source,campaign`. Without it, the sources of each declared bot are a campaign.
    """
    if not logs:
        raise ModelError("name the logs to learn from: hedgerow train similarity LOG...")
    try:
        from hedgerow.lab.train.similarity import learn
        from hedgerow.report.shape.classifiers import load, save
        from hedgerow.report.tables.source_tables import Tables
    except ImportError as error:
        raise HedgerowError(f"this needs {error.name}; install hedgerow[report]") from None
    from hedgerow.lab.train.log_samples import read_labels

    known = read_labels(labels, campaigns=True) if labels is not None else None
    found = []
    for log in logs:
        with Tables([log], memory=_MEMORY, dialect=dialect) as tables:
            found.append(learn(short_name(log), tables, known))
    lowest = min((one.k for one in found if one.k is not None), default=None)
    if out is not None:
        if lowest is None:
            raise ModelError("no campaign with three busy sources in these logs: k cannot be learned")
        save(msgspec.structs.replace(load(), similarity=lowest), out)
        print_status(f"The bundle is in {out}; use it with hedgerow report --shape.")
    write_json(json_path or STANDARD_OUTPUT, {"k": lowest, "logs": msgspec.to_builtins(found)})

"""`hedgerow models show|promote|back|drop`: the bundles that judge, the ones in their shadow, and how they compare."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from hedgerow.cli.options import Config, default_config
from hedgerow.errors import ModelError
from hedgerow.logs.formats import iso, readable
from hedgerow.settings import Settings, load_settings
from hedgerow.state.sqlite.journal import connect
from hedgerow.watch.models.drift import MAJOR_DRIFT, MIN_SESSIONS, MINOR_DRIFT
from hedgerow.watch.models.panel import ModelKind, Panel, PanelRecord
from hedgerow.watch.session_store import read_records
from hedgerow.web.paths import state_path
from hedgerow.web.watch import build_panel, model_files

app = typer.Typer(help="The models that judge visitors, and what speaks for others.", no_args_is_help=True)

_FEATURES_SHOWN = 5
_DIFFERENCES_SHOWN = 10
_FEW = 200
_SIGHUP = "a running Hedgerow takes it at SIGHUP"


class Which(StrEnum):
    """What a model judges."""

    PATHS = "paths"
    WINDOWS = "windows"


WhichKind = Annotated[Which, typer.Argument(help="Models of paths, or of windows of 27 to 40 pages.")]


@app.command()
def show(
    config: Config = None, json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False
) -> None:
    """
    Show which bundles judge, what they have judged, how a shadow compares, and whether visitors have changed.

    What a running watch has counted is written every half a minute.
    """
    settings = load_settings(default_config(config))
    panels = _panels(settings)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode([panel.status() for panel in panels])).decode())
        return
    if not panels:
        typer.echo("paths and windows are both off in [watch]")
    for panel in panels:
        _print(panel, _response(settings, panel.kind))


@app.command()
def promote(which: WhichKind = Which.PATHS, config: Config = None) -> None:
    """Have the bundle in the shadow judge from now on; the one before it is kept."""
    settings = load_settings(default_config(config))
    kind: ModelKind = which.value
    named = settings.watch.model if kind == "paths" else settings.watch.window_model
    if named or settings.watch.shadow:
        raise ModelError(
            "the settings name the bundles themselves; change model, window_model and shadow in [watch], or empty them"
        )
    record = next((panel.record for panel in _panels(settings) if panel.kind == kind), None)
    path = model_files(settings).promote(kind)
    typer.echo(f"{kind} are judged by {path} now; {_SIGHUP}; hedgerow models back undoes it")
    if record is None or record.sessions < _FEW:
        seen = record.sessions if record is not None else 0
        typer.echo(f"only {seen} judgements had been compared: look at hedgerow models show in a while", err=True)


@app.command()
def back(which: WhichKind = Which.PATHS, config: Config = None) -> None:
    """Have the bundle judge again that did so before the last promotion; the other goes into the shadow."""
    kind: ModelKind = which.value
    model_files(load_settings(default_config(config))).go_back(kind)
    typer.echo(f"{kind} are judged as before; {_SIGHUP}")


@app.command()
def drop(which: WhichKind = Which.PATHS, config: Config = None) -> None:
    """Remove the bundle in the shadow."""
    kind: ModelKind = which.value
    model_files(load_settings(default_config(config))).drop_shadow(kind)
    typer.echo(f"no bundle of {kind} is in the shadow any more; {_SIGHUP}")


def _response(settings: Settings, kind: ModelKind) -> str:
    return settings.watch.paths if kind == "paths" else settings.watch.windows


def _panels(settings: Settings) -> list[Panel]:
    """The panels as a watch would have them, with what it has recorded."""
    kinds: tuple[ModelKind, ...] = ("paths", "windows")
    panels = [build_panel(settings, kind) for kind in kinds if _response(settings, kind) != "off"]
    path = state_path(settings)
    if settings.state.durable and path.is_file():
        with closing(connect(path)) as connection:
            records = read_records(connection)
        for panel in panels:
            for record in records:
                panel.restore(record)
    return panels


def _print(panel: Panel, response: str) -> None:
    record = panel.record
    total, people = sum(record.judged.values()), record.judged.get("person", 0)
    typer.echo(f"{panel.kind}: {_named(panel.bundle.name, record.bundle)}, {_WHAT_BECOMES[response]}")
    typer.echo(f"  trained on people: {panel.bundle.provenance.get('people', 'unknown')}")
    typer.echo(f"  trained on crawlers: {panel.bundle.provenance.get('crawlers', 'unknown')}")
    if total:
        kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(record.judged.items()) if name != "person")
        typer.echo(f"  judged {total:,} times: {people:,} person{f', {kinds}' if kinds else ''}")
    else:
        typer.echo("  has judged nobody yet")
    if panel.shadow is not None:
        _print_shadow(record)
    _print_drift(panel)


_WHAT_BECOMES = {"record": "what it finds is recorded only", "challenge": "who it finds is challenged"}


def _named(name: str, digest: str) -> str:
    return f"{readable(name)} ({digest})"


def _print_shadow(record: PanelRecord) -> None:
    typer.echo(f"  in the shadow: {_named(record.shadow_name, record.shadow)}")
    total = record.sessions
    if not total:
        typer.echo("    nothing compared yet")
        return
    by_bundle, by_shadow = record.flagged
    typer.echo(
        f"    agrees in {record.agreed / total:.1%} of {total:,}; held to be crawlers: {by_bundle / total:.1%} by the"
        f" one in use, {by_shadow / total:.1%} by the shadow"
    )
    for judged, row in sorted(record.compared.items()):
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(row.items()))
        typer.echo(f"    held to be {judged}; by the shadow: {said}")
    for one in record.differences[-_DIFFERENCES_SHOWN:]:
        typer.echo(f"    {iso(one.at)} {readable(one.visitor)}: {one.judged}, by the shadow {one.shadow}")


def _print_drift(panel: Panel) -> None:
    moved = [one for one in panel.drift() if one.sessions >= MIN_SESSIONS]
    if not any(stage.bins for stage in panel.bundle.stages):
        typer.echo("  whether visitors have changed cannot be told: the bundle does not say what people were like")
        return
    if not moved:
        typer.echo(f"  whether visitors have changed will be told after {MIN_SESSIONS} judgements of people")
        return
    far = [one for one in moved if one.drift > MAJOR_DRIFT]
    some = [one for one in moved if MINOR_DRIFT < one.drift <= MAJOR_DRIFT]
    typer.echo(
        f"  against the training, {len(far)} of {len(moved)} features (each at every number of visits) moved far, "
        f"{len(some)} a little"
    )
    for one in sorted(moved, key=lambda m: -m.drift)[:_FEATURES_SHOWN]:
        typer.echo(f"    {one.feature} at {one.size} visits: {one.drift:.2f} (above {MAJOR_DRIFT} is far)")
    if warning := panel.warning():
        typer.echo(f"  warning: {warning}")

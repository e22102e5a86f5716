"""`hedgerow models show|promote|back|drop`: the model bundles in use, their shadows, and how they compare."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from hedgerow.cli.main import AsJson, Config
from hedgerow.cli.output import print_json
from hedgerow.cli.running_service import IN_USE, connect_service, reload_running
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.logs.formats import iso, readable
from hedgerow.settings import Settings
from hedgerow.watch.models.bundle import ModelKind
from hedgerow.watch.models.panel import MAJOR_DRIFT, MIN_SESSIONS, MINOR_DRIFT, Panel, PanelRecord
from hedgerow.web.audit import audit_command
from hedgerow.web.model_changes import promote_shadow, response_of, stored_panels
from hedgerow.web.watch import model_files

app = typer.Typer()

_FEATURES_SHOWN = 5
_DIFFERENCES_SHOWN = 10


KindArgument = Annotated[ModelKind, Argument(help="Models of paths, or of windows of 27 to 40 pages.")]


@app.command()
def show(config: Config = None, directory: Directory = None, site: SiteName = "", json: AsJson = False) -> None:
    """
    Show the bundles in use, their results, how a shadow compares, and whether visitors have changed.

    A running watch stores its counts every half minute.
    """
    settings = find_site(config, directory, site, changes=False, quiet=json)
    panels = stored_panels(settings)
    if json:
        print_json([panel.status() for panel in panels])
        return
    if not panels:
        typer.echo("paths and windows are both off in [watch]")
    for panel in panels:
        _print(panel, response_of(settings, panel.kind))


@app.command()
def promote(
    which: KindArgument = "paths",
    force: Annotated[bool, Option("--force", help="Promote it before it was compared.")] = False,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """
    Use the shadow bundle from now on. The current bundle is kept as the previous one.

    Before 200 comparisons this is refused, unless forced.
    """
    settings = find_site(config, directory, site)
    follows = _change(settings, site, "promote", which, force=force)
    path = model_files(settings).current(which)
    typer.echo(f"{path} now classifies {which}; {follows}; hedgerow models back undoes it")


@app.command()
def back(
    which: KindArgument = "paths", config: Config = None, directory: Directory = None, site: SiteName = ""
) -> None:
    """Use the previous bundle again. The current one becomes the shadow."""
    settings = find_site(config, directory, site)
    typer.echo(f"{which} are classified by the previous bundle; {_change(settings, site, 'back', which)}")


@app.command()
def drop(
    which: KindArgument = "paths", config: Config = None, directory: Directory = None, site: SiteName = ""
) -> None:
    """Remove the shadow bundle."""
    settings = find_site(config, directory, site)
    typer.echo(f"the shadow bundle for {which} is removed; {_change(settings, site, 'drop', which)}")


def _change(
    settings: Settings, site: str, change: Literal["promote", "back", "drop"], kind: ModelKind, *, force: bool = False
) -> str:
    """Let the running service make a change, or make it in its files, and return what comes of it."""
    if (connected := connect_service(settings, site)) is not None:
        with closing(connected[0]) as service:
            return IN_USE if service.change_models(change, kind, force=force) else "restart the application"
    match change:
        case "promote":
            promote_shadow(settings, kind, force=force)
        case "back":
            model_files(settings).go_back(kind)
        case "drop":
            model_files(settings).drop_shadow(kind)
    audit_command(settings, f"models.{change}", kind)
    return reload_running(settings)


def _print(panel: Panel, response: str) -> None:
    record = panel.record
    total, people = sum(record.judged.values()), record.judged.get("person", 0)
    typer.echo(f"{panel.kind}: {_named(panel.bundle.name, record.bundle)}, {_RESPONSES[response]}")
    typer.echo(f"  trained on people: {panel.bundle.provenance.get('people', 'unknown')}")
    typer.echo(f"  trained on crawlers: {panel.bundle.provenance.get('crawlers', 'unknown')}")
    if total:
        kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(record.judged.items()) if name != "person")
        typer.echo(f"  {total:,} classifications: {people:,} person{f', {kinds}' if kinds else ''}")
    else:
        typer.echo("  no classifications yet")
    if panel.shadow is not None:
        _print_shadow(record)
    _print_drift(panel)


_RESPONSES = {"record": "findings are only recorded", "challenge": "found visitors are challenged"}


def _named(name: str, digest: str) -> str:
    return f"{readable(name)} ({digest})"


def _print_shadow(record: PanelRecord) -> None:
    typer.echo(f"  shadow: {_named(record.shadow_name, record.shadow)}")
    total = record.sessions
    if not total:
        typer.echo("    nothing compared yet")
        return
    by_bundle, by_shadow = record.flagged
    typer.echo(
        f"    agrees in {record.agreed / total:.1%} of {total:,}; classified as crawlers: {by_bundle / total:.1%} by"
        f" the bundle in use, {by_shadow / total:.1%} by the shadow"
    )
    for judged, row in sorted(record.compared.items()):
        by_shadow_counts = ", ".join(f"{count:,} {name}" for name, count in sorted(row.items()))
        typer.echo(f"    {judged} according to the bundle in use; according to the shadow: {by_shadow_counts}")
    for one in record.differences[-_DIFFERENCES_SHOWN:]:
        typer.echo(f"    {iso(one.at)} {readable(one.visitor)}: {one.judged}, shadow: {one.shadow}")


def _print_drift(panel: Panel) -> None:
    features = [one for one in panel.drift() if one.sessions >= MIN_SESSIONS]
    if not any(stage.bins for stage in panel.bundle.stages):
        typer.echo("  drift: unknown, because the bundle has no data on its training visitors")
        return
    if not features:
        typer.echo(f"  drift: known after {MIN_SESSIONS} classifications of people")
        return
    major = sum(one.drift > MAJOR_DRIFT for one in features)
    minor = sum(MINOR_DRIFT < one.drift <= MAJOR_DRIFT for one in features)
    typer.echo(
        f"  drift since the training: major in {major} of {len(features)} features (each at every number of visits), "
        f"minor in {minor}"
    )
    for one in sorted(features, key=lambda feature: -feature.drift)[:_FEATURES_SHOWN]:
        typer.echo(f"    {one.feature} at {one.size} visits: {one.drift:.2f} (above {MAJOR_DRIFT} is major)")
    if warning := panel.warning():
        typer.echo(f"  warning: {warning}")

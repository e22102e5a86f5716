"""`hedgerow attack`: while it is on, every visitor without a clearance needs one before the page."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from typer import Option

from hedgerow.cli.main import AsJson, Config
from hedgerow.cli.output import format_time, print_json
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.cli.visitor_store import open_visitor_stores
from hedgerow.cli.visitors import read_duration
from hedgerow.core.attack import ATTACK_KEY, attack_block, attack_of

app = typer.Typer()

_NOTHING_CHANGES = "the site only observes, so nobody is asked: this is recorded and not enforced"


@app.command()
def on(
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    for_: Annotated[str, Option("--for", metavar="TIME", help="When it ends by itself, such as 30m, 2h or 1d.")] = "2h",
) -> None:
    """Ask every visitor without a clearance for one, from the next second on. Said again, it ends at the new time."""
    seconds = read_duration(for_)
    settings = find_site(config, directory, site, place="state", has_started=True)
    now = time.time()
    with open_visitor_stores(settings, site) as stores:
        for store in stores:
            store.order(ATTACK_KEY, attack_block(now, seconds))
        stores.audit("attack.on", "the site", f"For {for_}.")
    typer.echo(f"under attack until {format_time(now + seconds)}: visitors without a clearance need one")
    if settings.observe:
        typer.echo(_NOTHING_CHANGES)


@app.command()
def off(config: Config = None, directory: Directory = None, site: SiteName = "") -> None:
    """Stop asking, from the next second on."""
    settings = find_site(config, directory, site, place="state", has_started=True)
    with open_visitor_stores(settings, site) as stores:
        found = [store.order(ATTACK_KEY, None) for store in stores]
        if any(found):
            stores.audit("attack.off", "the site")
    typer.echo("no longer under attack" if any(found) else "it was not on")


@app.command()
def status(config: Config = None, directory: Directory = None, site: SiteName = "", json: AsJson = False) -> None:
    """Show whether it is on, and until when."""
    settings = find_site(config, directory, site, place="state", changes=False, quiet=json)
    now = time.time()
    with open_visitor_stores(settings, site) as stores:
        found = [attack_of(store.about(ATTACK_KEY, now)[0], now) for store in stores]
    running = next((block for block in found if block is not None), None)
    if json:
        print_json({"on": running is not None, "until": running.until if running is not None else None})
    elif running is None:
        typer.echo("off")
    else:
        typer.echo(f"on since {format_time(running.since)}, until {format_time(running.until)}")
        if settings.observe:
            typer.echo(_NOTHING_CHANGES)

"""`hedgerow campaigns show`: visitors that belong together, who they are, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from hedgerow.cli.options import Config, default_config
from hedgerow.cli.visitor_store import open_visitor_store
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import load_settings
from hedgerow.web.paths import state_path

app = typer.Typer(help="Visitors that belong together: distributed crawlers.", no_args_is_help=True)

_SHOWN = 20


@app.command()
def show(
    campaign: Annotated[str, typer.Argument(metavar="ID", help="Only this one, with all its members.")] = "",
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Show the campaigns of the last days, the latest first."""
    settings = load_settings(default_config(config))
    if not settings.state.url and settings.state.durable and not state_path(settings).is_file():
        raise StoreError(f"there is no {state_path(settings)}; name the settings of the site with --config")
    with open_visitor_store(settings) as desk:
        found = list(reversed(desk.campaigns()))
    if campaign:
        found = [one for one in found if one.id == campaign.upper()]
        if not found:
            raise StoreError(f"there is no campaign {readable(campaign)}")
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    if not found:
        typer.echo("no campaigns")
    for one in found:
        members = one.members if campaign else one.members[:_SHOWN]
        more = len(one.members) - len(members)
        typer.echo(f"{one.id}  {_time(one.since)} to {_time(one.seen)}")
        typer.echo(f"  {readable(one.text)}")
        typer.echo(f"  {readable(', '.join(members))}{f' and {more:,} more' if more else ''}")


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"

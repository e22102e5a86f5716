"""`hedgerow campaigns show`: groups of visitors that belong together, their members, and why."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from hedgerow.cli.options import AsJson, Config
from hedgerow.cli.output import format_time
from hedgerow.cli.visitor_store import open_visitor_store
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import load_settings
from hedgerow.web.paths import state_path

app = typer.Typer(help="Show campaigns: groups of visitors that belong together.", no_args_is_help=True)

_MEMBERS_SHOWN = 20


@app.command()
def show(
    campaign: Annotated[str, typer.Argument(metavar="ID", help="Show only this campaign, with all members.")] = "",
    config: Config = None,
    json: AsJson = False,
) -> None:
    """Show the campaigns of the last days, latest first."""
    settings = load_settings(config)
    if not settings.state.url and settings.state.durable and not state_path(settings).is_file():
        raise StoreError(f"there is no {state_path(settings)}; name the settings of the site with --config")
    with open_visitor_store(settings) as store:
        campaigns = list(reversed(store.campaigns()))
    if campaign:
        campaigns = [each for each in campaigns if each.id == campaign.upper()]
        if not campaigns:
            raise StoreError(f"there is no campaign {readable(campaign)}")
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(campaigns)).decode())
        return
    if not campaigns:
        typer.echo("no campaigns")
    for each in campaigns:
        members = each.members if campaign else each.members[:_MEMBERS_SHOWN]
        more = len(each.members) - len(members)
        typer.echo(f"{each.id}  {format_time(each.since)} to {format_time(each.seen)}")
        typer.echo(f"  {readable(each.text)}")
        typer.echo(f"  {readable(', '.join(members))}{f' and {more:,} more' if more else ''}")

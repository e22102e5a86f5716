"""
`hedgerow visitors`, `campaigns` and `explain`: suspected and blocked visitors, groups of visitors, and the reasons.

A visitor is given by its address, by `account:NAME`, or by the reference on its refusal page. The commands ask the
running service, or use the file of the state or the Redis of all gates: see `visitor_store`.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from typer import Argument, Option

from hedgerow.cli.main import AsJson, Config
from hedgerow.cli.output import console, format_time, new_table, print_json
from hedgerow.cli.path_explanation import explain_path
from hedgerow.cli.personal_data import export, forget
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.cli.visitor_store import Visitor, find_decision, is_in_memory, open_visitor_stores
from hedgerow.core.address import parse_address
from hedgerow.core.decision import JUDGED_PERSON, Block, Evidence, VisitorScore
from hedgerow.core.state import prefix_key
from hedgerow.detectors.documentation import describe_code
from hedgerow.detectors.registry import registry
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.policy.score import explained
from hedgerow.request.path_rules import GROUP
from hedgerow.web.paths import state_path
from hedgerow.web.visitor_rows import visitor_rows

app = typer.Typer()
campaigns_app = typer.Typer()
app.command()(forget)
app.command()(export)

_PARTICIPLES = {"challenge": "challenged", "detain": "detained", "refuse": "refused"}
_LONG_SESSION = 60
_PERSON = explained(VisitorScore(reasons=((JUDGED_PERSON, 1),)))
_MEMBERS_SHOWN = 20
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@app.command()
def show(
    visitor: Annotated[str, Argument(metavar="VISITOR", help="Show only this visitor; also a reference.")] = "",
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    json: AsJson = False,
) -> None:
    """Show suspected and blocked visitors, with the reasons, and addresses of many people."""
    settings = find_site(config, directory, site, place="state", changes=False, quiet=json)
    now = time.time()
    with open_visitor_stores(settings, site) as stores:
        key = stores.key_of(visitor) if visitor else ""
        rows: list[dict[str, Any]] = [
            msgspec.to_builtins(row)
            for store in stores
            for row in visitor_rows(
                settings, *(store.about(key, now) if key else store.read(now)), now, observed=store is stores.observed
            )
        ]
        if key:
            for row in rows:
                # Page visits since the visitor's last complete long session, as far as the ledger goes back.
                row["pending"] = stores.count_pages(row["visitor"]) % _LONG_SESSION
        else:
            rows = [row for row in rows if row["identity"] != "person" or row["suspicion"] or row["why"] != _PERSON]
    if key and not rows:
        typer.echo(f"{readable(key)} is neither suspected nor blocked")
        return
    if json:
        print_json(rows)
    elif rows:
        _print(rows)
    else:
        typer.echo("nobody is suspected or blocked")


@app.command()
def forgive(visitor: Visitor, config: Config = None, directory: Directory = None, site: SiteName = "") -> None:
    """Clear the score and the block of a visitor. A running Hedgerow does so within a second."""
    settings = find_site(config, directory, site, place="state", has_started=True)
    with open_visitor_stores(settings, site) as stores:
        key = stores.key_of(visitor)
        forgiven = [store.order(one, None) for store in stores for one in (key, prefix_key(key))]
        if not any(forgiven):
            raise StoreError(f"{readable(key)} is neither suspected nor blocked")
        stores.audit("visitors.forgive", key)
    typer.echo(f"{readable(key)} is forgiven")


@app.command()
def block(
    visitor: Visitor,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    for_: Annotated[str, Option("--for", metavar="TIME", help="Duration, such as 30m, 12h or 7d.")] = "1d",
    reason: Annotated[str, Option(help="Shown in the ledger and in `visitors show`.")] = "By the administrator.",
) -> None:
    """Block a visitor for some time. A running Hedgerow does so within a second."""
    seconds = read_duration(for_)
    settings = find_site(config, directory, site, place="state", has_started=True)
    evidence = Evidence("administrator", "administrator", 1.0, reason)
    with open_visitor_stores(settings, site) as stores:
        key, now = stores.key_of(visitor), time.time()
        until = now + seconds
        prefix = key if parse_address(key.partition("/")[0]) else ""
        for store in stores:
            store.order(key, Block(key, prefix, now, until, "refuse", evidence))
        stores.audit("visitors.block", key, f"For {for_}. {reason}")
    typer.echo(f"{readable(key)} is blocked until {format_time(until)}")


def read_duration(text: str) -> int:
    """Return the seconds of a duration such as 30m, for the option --for."""
    duration = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if duration is None or not int(duration[1]):
        raise typer.BadParameter(f"{text!r} is not a duration; write 30m, 12h or 7d", param_hint="--for")
    return int(duration[1]) * _TIMES[duration[2]]


def _print(rows: list[dict[str, Any]]) -> None:
    columns = ["visitor", "identity", ">suspicion", ">wrong", ">challenges", "why"]
    pending = [">pending"] if "pending" in rows[0] else []
    table = new_table(*columns, *pending, box=None, pad_edge=False)
    for row in rows:
        identity = f"blocked until {format_time(row['until'])}" if row["until"] else row["identity"]
        if row["observed"]:
            identity = f"would have {identity}" if row["until"] else f"{identity} (observed)"
        cells = [readable(row["visitor"]), identity, f"{row['suspicion']:.2f}", str(row["wrong_visits"])]
        cells += [str(row["challenges"]), readable(row["why"])]
        table.add_row(*cells, *([str(row["pending"])] if pending else []))
    console(markup=False).print(table)
    if pending:
        # For one visitor there is room for words.
        for reason in (one for row in rows for one in row["reasons"] if one["text"]):
            typer.echo(f"{reason['code']}: {readable(reason['text'])}")


@campaigns_app.command("show")
def show_campaigns(
    campaign: Annotated[str, Argument(metavar="ID", help="Show only this campaign, with all members.")] = "",
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    json: AsJson = False,
) -> None:
    """Show the campaigns of the last days, latest first."""
    settings = find_site(config, directory, site, place="state", changes=False, quiet=json)
    paths = [state_path(msgspec.structs.replace(settings, observe=observe)) for observe in (False, True)]
    if not (settings.state.url or is_in_memory(settings) or any(path.is_file() for path in paths)):
        raise StoreError(f"there is no {paths[0]}; name the settings of the site with --config")
    with open_visitor_stores(settings, site) as stores:
        enforced = list(stores.enforced.campaigns())
        observed = list(stores.observed.campaigns()) if stores.observed is not None else []
    campaigns = sorted([*enforced, *observed], key=lambda each: -each.seen)
    if campaign:
        campaigns = [each for each in campaigns if each.id == campaign.upper()]
        if not campaigns:
            raise StoreError(f"there is no campaign {readable(campaign)}")
    if json:
        print_json([{**msgspec.to_builtins(each), "observed": each in observed} for each in campaigns])
        return
    if not campaigns:
        typer.echo("no campaigns")
    for each in campaigns:
        members = each.members if campaign else each.members[:_MEMBERS_SHOWN]
        more = len(each.members) - len(members)
        how = "  observed, nothing was enforced" if each in observed else ""
        typer.echo(f"{each.id}  {format_time(each.since)} to {format_time(each.seen)}{how}")
        typer.echo(f"  {readable(each.text)}")
        typer.echo(f"  {readable(', '.join(members))}{f' and {more:,} more' if more else ''}")


def explain(
    reference: Annotated[
        str,
        Argument(
            metavar="REFERENCE",
            help="Reference from the page that the visitor saw, an address or account:NAME for its last visit that did "
            "not pass, an evidence code such as `trap`, or a path such as `/api/users` for the rules that apply to it.",
        ),
    ],
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    if described := list(describe_code(registry(), reference.strip())):
        typer.echo("\n".join(described))
        return
    reference = reference.strip()
    if reference.startswith("/"):
        typer.echo("\n".join(explain_path(find_site(config, directory, site, changes=False), reference)))
        return
    settings = find_site(config, directory, site, place="ledger", changes=False)
    found = find_decision(settings, site, reference)
    action = found.action
    if found.observed:
        action = f"would have been {_PARTICIPLES[action]}" if action in _PARTICIPLES else action
    typer.echo(f"{datetime.fromtimestamp(found.at, UTC):%Y-%m-%d %H:%M:%S} UTC  {action}, status {found.status}")
    typer.echo(readable(f"visitor     {found.visitor} ({found.address})"))
    typer.echo(readable(f"request     {found.method} {found.host}{found.target}"))
    typer.echo(readable(f"user agent  {found.user_agent or '(none)'}"))
    for evidence in found.evidence:
        if evidence.detector == GROUP:
            typer.echo(readable(f"rule        {evidence.text}"))
            continue
        typer.echo(readable(f"evidence    {evidence.text} [{evidence.code}, weight {evidence.weight:g}]"))
        if evidence.detector == "lists":
            typer.echo(readable(f"entry       {evidence.key}{f' ({evidence.details})' if evidence.details else ''}"))

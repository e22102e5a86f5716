"""
`hedgerow visitors`: suspected and blocked visitors with reasons, and commands to forgive or block them.

A visitor is given by its address, by `account:NAME`, or by the reference on its refusal page.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from hedgerow.cli.ledger_access import count_visits, find_reference
from hedgerow.cli.options import AsJson, Config
from hedgerow.cli.output import console, format_time
from hedgerow.cli.visitor_store import open_visitor_store
from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.decision import Block, Evidence, VisitorScore
from hedgerow.core.state import prefix_key
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.policy.score import explained, score_at
from hedgerow.settings import Settings, load_settings

app = typer.Typer(
    help="Show suspected and blocked visitors with reasons; forgive or block a visitor.", no_args_is_help=True
)

_REFERENCE = re.compile(r"[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}")
_LONG_SESSION = 60
_WIDTH_OF_A_FILE = 160
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
Visitor = Annotated[
    str, typer.Argument(metavar="VISITOR", help="An address, account:NAME, or a reference like 1A2B-3C4D.")
]


@app.command()
def show(
    visitor: Annotated[str, typer.Argument(metavar="VISITOR", help="Show only this visitor; also a reference.")] = "",
    config: Config = None,
    json: AsJson = False,
) -> None:
    """Show suspected and blocked visitors, with the reasons."""
    settings = load_settings(config)
    now = time.time()
    with open_visitor_store(settings) as store:
        blocks, scores = store.read(now)
    key = _key(settings, visitor) if visitor else ""
    rows = _rows(settings, blocks, dict(scores), now)
    if key:
        rows = [row for row in rows if row["visitor"] in {key, prefix_key(key)}]
        for row in rows:
            row["pending"] = _pending(settings, row["visitor"])
        if not rows:
            typer.echo(f"{readable(key)} is neither suspected nor blocked")
            return
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    elif rows:
        _print(rows)
    else:
        typer.echo("nobody is suspected or blocked")


@app.command()
def forgive(visitor: Visitor, config: Config = None) -> None:
    """Clear the score and the block of a visitor. A running Hedgerow does so within a second."""
    settings = load_settings(config)
    key = _key(settings, visitor)
    with open_visitor_store(settings) as store:
        forgiven = [store.order(one, None) for one in (key, prefix_key(key))]
    if not any(forgiven):
        raise StoreError(f"{readable(key)} is neither suspected nor blocked")
    typer.echo(f"{readable(key)} is forgiven")


@app.command()
def block(
    visitor: Visitor,
    config: Config = None,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="Duration, such as 30m, 12h or 7d.")] = "1d",
    reason: Annotated[str, typer.Option(help="Shown in the ledger and in `visitors show`.")] = "By the administrator.",
) -> None:
    """Block a visitor for some time. A running Hedgerow does so within a second."""
    duration = re.fullmatch(r"(\d+)([smhd])", for_)
    if duration is None or not int(duration[1]):
        raise typer.BadParameter(f"{for_!r} is not a duration; write 30m, 12h or 7d", param_hint="--for")
    settings = load_settings(config)
    key, now = _key(settings, visitor), time.time()
    until = now + int(duration[1]) * _TIMES[duration[2]]
    prefix = key if parse_address(key.partition("/")[0]) else ""
    evidence = Evidence("administrator", "administrator", 1.0, reason)
    with open_visitor_store(settings) as store:
        store.order(key, Block(key, prefix, now, until, "refuse", evidence))
    typer.echo(f"{readable(key)} is blocked until {format_time(until)}")


def _key(settings: Settings, visitor: str) -> str:
    """Return the visitor key of an address, of a reference in the ledger, or of a key itself."""
    if _REFERENCE.fullmatch(visitor):
        return str(find_reference(settings, visitor.upper(), ("visitor",))[0])
    address = parse_address(visitor)
    return prefix_of(address) if address else visitor


def _pending(settings: Settings, visitor: str) -> int:
    """Return the page visits since the visitor's last complete long session, as far as the ledger goes back."""
    return count_visits(settings, visitor) % _LONG_SESSION


def _rows(
    settings: Settings, blocks: Sequence[Block], scores: dict[str, VisitorScore], now: float
) -> list[dict[str, Any]]:
    """Return one row for each visitor, blocked visitors first, then by score."""
    blocked = {block.key: block for block in blocks}
    rows = []
    for key in {**blocked, **scores}:
        score, blocked_by = scores.get(key, VisitorScore()), blocked.get(key)
        suspicion = score_at(score, now, settings.policy.half_life)
        rows.append(
            {
                "visitor": key,
                "identity": "blocked" if blocked_by else score.identity,
                "until": blocked_by.until if blocked_by else None,
                "suspicion": round(suspicion, 3),
                "wrong_visits": score.suspicious_visits,
                "challenges": score.challenges,
                "why": blocked_by.evidence.text if blocked_by else explained(score) if score.reasons else "",
            }
        )
    return sorted(rows, key=lambda row: (row["until"] is None, -row["suspicion"], row["visitor"]))


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("visitor", "identity", "suspicion", "wrong", "challenges", "why"):
        table.add_column(title, justify="right" if title in {"suspicion", "wrong", "challenges"} else "left")
    pending = any("pending" in row for row in rows)
    if pending:
        table.add_column("pending", justify="right")
    for row in rows:
        identity = f"blocked until {format_time(row['until'])}" if row["until"] else row["identity"]
        cells = [readable(row["visitor"]), identity, f"{row['suspicion']:.2f}", str(row["wrong_visits"])]
        cells += [str(row["challenges"]), readable(row["why"])]
        table.add_row(*cells, *([str(row["pending"])] if pending else []))
    console(markup=False).print(table)

"""
`hedgerow visitors`: who is suspected or blocked and why, and the administrator's answer to who asks.

A visitor is named by its address, by `account:NAME`, or by the reference that its page of refusal showed.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hedgerow.cli.ledger_access import count_visits, find_reference
from hedgerow.cli.options import Config, default_config
from hedgerow.cli.visitor_store import open_visitor_store
from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.decision import Block, Evidence, VisitorScore
from hedgerow.core.state import prefix_key
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.policy.score import explained, score_at
from hedgerow.settings import Settings, load_settings

app = typer.Typer(help="Who is suspected or blocked, and why; forgive or block somebody.", no_args_is_help=True)

_REFERENCE = re.compile(r"[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}")
_LONG_SESSION = 60
_WIDTH_OF_A_FILE = 160
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
Who = Annotated[str, typer.Argument(metavar="VISITOR", help="An address, account:NAME, or a reference like 1A2B-3C4D.")]


@app.command()
def show(
    who: Annotated[str, typer.Argument(metavar="VISITOR", help="Only this one; also a reference.")] = "",
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Show visitors that are suspected or blocked, with the reasons."""
    settings = load_settings(default_config(config))
    now = time.time()
    with open_visitor_store(settings) as desk:
        blocks, scores = desk.read(now)
    key = _key(settings, who) if who else ""
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
def forgive(who: Who, config: Config = None) -> None:
    """Forget all that speaks against a visitor. A running Hedgerow does so within a second."""
    settings = load_settings(default_config(config))
    key = _key(settings, who)
    with open_visitor_store(settings) as desk:
        known = [desk.order(one, None) for one in (key, prefix_key(key))]
    if not any(known):
        raise StoreError(f"nothing is known against {readable(key)}")
    typer.echo(f"{readable(key)} is forgiven")


@app.command()
def block(
    who: Who,
    config: Config = None,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="Such as 30m, 12h or 7d.")] = "1d",
    reason: Annotated[str, typer.Option(help="Shown in the ledger and in `visitors show`.")] = "By the administrator.",
) -> None:
    """Block a visitor for some time. A running Hedgerow does so within a second."""
    found = re.fullmatch(r"(\d+)([smhd])", for_)
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{for_!r} is no time; write it like 30m, 12h or 7d", param_hint="--for")
    settings = load_settings(default_config(config))
    key, now = _key(settings, who), time.time()
    until = now + int(found[1]) * _TIMES[found[2]]
    prefix = key if parse_address(key.partition("/")[0]) else ""
    why = Evidence("administrator", "administrator", 1.0, reason)
    with open_visitor_store(settings) as desk:
        desk.order(key, Block(key, prefix, now, until, "refuse", why))
    typer.echo(f"{readable(key)} is blocked until {_time(until)}")


def _key(settings: Settings, who: str) -> str:
    """The key of a visitor: as it is, of an address, or looked up in the ledger by a reference."""
    if _REFERENCE.fullmatch(who):
        return str(find_reference(settings, who.upper(), ("visitor",))[0])
    address = parse_address(who)
    return prefix_of(address) if address else who


def _pending(settings: Settings, visitor: str) -> int:
    """Page visits since the visitor's last long session was full, as far as the ledger goes back."""
    return count_visits(settings, visitor) % _LONG_SESSION


def _rows(
    settings: Settings, blocks: Sequence[Block], scores: dict[str, VisitorScore], now: float
) -> list[dict[str, Any]]:
    """One row for each visitor, the blocked first, then by suspicion."""
    blocked = {block.key: block for block in blocks}
    rows = []
    for key in {**blocked, **scores}:
        score, found = scores.get(key, VisitorScore()), blocked.get(key)
        suspicion = score_at(score, now, settings.policy.half_life)
        rows.append(
            {
                "visitor": key,
                "identity": "blocked" if found else score.identity,
                "until": found.until if found else None,
                "suspicion": round(suspicion, 3),
                "wrong_visits": score.suspicious_visits,
                "challenges": score.challenges,
                "why": found.evidence.text if found else explained(score) if score.reasons else "",
            }
        )
    return sorted(rows, key=lambda row: (row["until"] is None, -row["suspicion"], row["visitor"]))


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("visitor", "identity", "suspicion", "wrong", "challenges", "why"):
        table.add_column(title, justify="right" if title in {"suspicion", "wrong", "challenges"} else "left")
    pending = any("pending" in row for row in rows)
    if pending:
        table.add_column("pending", justify="right")
    for row in rows:
        identity = f"blocked until {_time(row['until'])}" if row["until"] else row["identity"]
        cells = [readable(row["visitor"]), identity, f"{row['suspicion']:.2f}", str(row["wrong_visits"])]
        cells += [str(row["challenges"]), readable(row["why"])]
        table.add_row(*cells, *([str(row["pending"])] if pending else []))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False, markup=False).print(table)

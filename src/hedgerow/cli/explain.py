"""`hedgerow explain REFERENCE`: from the number that a refused visitor reads out to what it did."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import typer

from hedgerow.build import ledger_path
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import load_settings
from hedgerow.verdict import Evidence

_QUERY = (
    "SELECT at, visitor, address, method, host, target, user_agent, action, status, evidence FROM visits WHERE ref = ?"
)


def run(reference: str, *, config: Path | None) -> None:
    """Print what the ledger knows about *reference*."""
    path = ledger_path(load_settings(config))
    if not path.is_file():
        raise StoreError(f"there is no ledger at {path}; name the settings of the site with --config")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute(_QUERY, (reference.strip().upper(),)).fetchone()
        found = msgspec.json.decode(row[-1], type=list[Evidence]) if row is not None else []
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise StoreError(f"cannot read the ledger {path}: {error}") from None
    if row is None:
        raise StoreError(f"the ledger {path} does not know the reference {reference}")
    at, visitor, address, method, host, target, user_agent, action, status, _ = row
    typer.echo(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC  {action}, status {status}")
    typer.echo(readable(f"visitor     {visitor} ({address})"))
    typer.echo(readable(f"asked for   {method} {host}{target}"))
    typer.echo(readable(f"user agent  {user_agent or '(none)'}"))
    for evidence in found:
        typer.echo(readable(f"evidence    {evidence.text} [{evidence.code}, weight {evidence.weight:g}]"))
        if evidence.detector == "lists":
            typer.echo(readable(f"entry       {evidence.key}{f' ({evidence.details})' if evidence.details else ''}"))

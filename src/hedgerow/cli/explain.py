"""`hedgerow explain REFERENCE`: what a refused visitor did, or what an evidence code means."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import typer

from hedgerow.cli.ledger_access import find_reference
from hedgerow.core.decision import Evidence
from hedgerow.detectors.documentation import describe_code
from hedgerow.detectors.registry import registry
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import load_settings

_COLUMNS = ("at", "visitor", "address", "method", "host", "target", "user_agent", "action", "status", "evidence")


def run(reference: str, *, config: Path | None) -> None:
    """Print what the ledger knows about *reference*, or what the detectors declare where it is an evidence code."""
    if described := list(describe_code(registry(), reference.strip())):
        typer.echo("\n".join(described))
        return
    settings = load_settings(config)
    row = find_reference(settings, reference.strip().upper(), _COLUMNS)
    try:
        found = msgspec.json.decode(row[-1], type=list[Evidence])
    except msgspec.MsgspecError as error:
        raise StoreError(f"cannot read what the ledger says of {reference}: {error}") from None
    at, visitor, address, method, host, target, user_agent, action, status, _ = row
    typer.echo(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC  {action}, status {status}")
    typer.echo(readable(f"visitor     {visitor} ({address})"))
    typer.echo(readable(f"asked for   {method} {host}{target}"))
    typer.echo(readable(f"user agent  {user_agent or '(none)'}"))
    for evidence in found:
        typer.echo(readable(f"evidence    {evidence.text} [{evidence.code}, weight {evidence.weight:g}]"))
        if evidence.detector == "lists":
            typer.echo(readable(f"entry       {evidence.key}{f' ({evidence.details})' if evidence.details else ''}"))

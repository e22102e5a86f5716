"""`hedgerow migrate`: bring the stores to the form that this version needs. Forward only."""

from __future__ import annotations

from pathlib import Path

import typer

from hedgerow.ledger.sqlite import migrate
from hedgerow.settings import load_settings
from hedgerow.state.sqlite.journal import connect
from hedgerow.web.paths import ledger_path, state_path
from hedgerow.web.stores import import_postgresql


def run(*, config: Path | None) -> None:
    """Migrate what the settings name, and say what was done."""
    settings = load_settings(config)
    files = [ledger_path(settings), state_path(settings)]
    if not settings.ledger.url and not settings.lists.url and not any(path.is_file() for path in files):
        typer.echo(f"there is nothing to migrate in {files[1].parent}: a gate makes its files itself")
        return
    for url in dict.fromkeys(filter(None, (settings.ledger.url, settings.lists.url))):
        what = " and ".join(name for name in ("ledger", "lists") if getattr(settings, name).url == url)
        _tell(f"PostgreSQL ({what})", *import_postgresql().migrate(url))
    if not settings.ledger.url and settings.ledger.enabled and ledger_path(settings).is_file():
        _tell(f"the ledger {ledger_path(settings)}", *migrate(ledger_path(settings)))
    if not settings.state.url and state_path(settings).is_file():
        connect(state_path(settings)).close()
        typer.echo(f"{state_path(settings)} is up to date")


def _tell(what: str, first: int, last: int) -> None:
    typer.echo(f"{what} is up to date (version {last})" if first == last else f"{what}: version {first} to {last}")

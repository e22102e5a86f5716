"""`hedgerow check` and `hedgerow migrate`: check the settings, and bring the stores to this version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.options import Config
from hedgerow.settings import load_settings


def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Settings file; default ./hedgerow.toml.")] = None,
) -> None:
    """Check a settings file and list every fault with its line."""
    path = file or Path("hedgerow.toml")
    load_settings(path)
    typer.echo(f"{path}: no faults")


def migrate(config: Config = None) -> None:
    """Migrate ledger and state to this version; create the tables in PostgreSQL."""
    from hedgerow.ledger.sqlite import migrate as migrate_ledger
    from hedgerow.state.sqlite.journal import connect
    from hedgerow.web.paths import ledger_path, state_path
    from hedgerow.web.stores import import_postgresql

    settings = load_settings(config)
    files = [ledger_path(settings), state_path(settings)]
    if not settings.ledger.url and not settings.lists.url and not any(path.is_file() for path in files):
        typer.echo(f"nothing to migrate in {files[1].parent}; a gate creates its files itself")
        return
    for url in dict.fromkeys(filter(None, (settings.ledger.url, settings.lists.url))):
        names = " and ".join(name for name in ("ledger", "lists") if getattr(settings, name).url == url)
        _print_versions(f"PostgreSQL ({names})", *import_postgresql().migrate(url))
    if not settings.ledger.url and settings.ledger.enabled and ledger_path(settings).is_file():
        _print_versions(f"the ledger {ledger_path(settings)}", *migrate_ledger(ledger_path(settings)))
    if not settings.state.url and state_path(settings).is_file():
        connect(state_path(settings)).close()
        typer.echo(f"{state_path(settings)} is up to date")


def _print_versions(store: str, before: int, after: int) -> None:
    typer.echo(
        f"{store} is up to date (version {after})" if before == after else f"{store}: version {before} to {after}"
    )

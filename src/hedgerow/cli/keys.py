"""`hedgerow keys new|rotate`: the keys under which links are sealed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from hedgerow.cli.options import Config, default_config
from hedgerow.settings import load_settings
from hedgerow.web.key_file import load_keys, new_key, rotate, write_keys
from hedgerow.web.paths import key_path

app = typer.Typer(help="The keys under which links are sealed.", no_args_is_help=True)

_DAY = 86_400.0


@app.command()
def new() -> None:
    """Print a new key, for the environment variable HEDGEROW_KEYS or for a key file of your own."""
    typer.echo(write_keys([new_key(time.time())]), nl=False)


@app.command("rotate")
def rotate_(
    config: Config = None,
    show: Annotated[bool, typer.Option("--show", help="Only list the keys' numbers and ages.")] = False,
) -> None:
    """
    Add a key and seal under it from now on; links under older keys open until they are too old.

    A running Hedgerow takes the new key at SIGHUP.
    """
    settings = load_settings(default_config(config))
    path = key_path(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = time.time()
    keys = load_keys(path, now) if show else rotate(path, now, settings.marker.overlap_days * _DAY)
    for key in sorted(keys, key=lambda key: key.made_at):
        made = datetime.fromtimestamp(key.made_at, UTC)
        typer.echo(f"key {key.number}, made {made:%Y-%m-%d %H:%M} UTC")
    if not show:
        typer.echo(f"{path}: {len(keys)} keys, the last one seals; send SIGHUP to a running Hedgerow")

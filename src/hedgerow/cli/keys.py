"""`hedgerow keys new|rotate`: the keys that encrypt marked links."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from hedgerow.cli.options import Config
from hedgerow.cli.output import format_time
from hedgerow.settings import load_settings
from hedgerow.web.key_file import load_keys, new_key, rotate, write_keys
from hedgerow.web.paths import key_path

app = typer.Typer(help="Manage the keys that encrypt marked links.", no_args_is_help=True)

_DAY = 86_400.0


@app.command()
def new() -> None:
    """Print a new key, for the environment variable HEDGEROW_KEYS or for your own key file."""
    typer.echo(write_keys([new_key(time.time())]), nl=False)


@app.command("rotate")
def rotate_(
    config: Config = None,
    show: Annotated[bool, typer.Option("--show", help="Only list the numbers and ages of the keys.")] = False,
) -> None:
    """
    Add a key and use it for new links. Links with older keys stay valid until they are too old.

    A running Hedgerow uses the new key after SIGHUP.
    """
    settings = load_settings(config)
    path = key_path(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = time.time()
    keys = load_keys(path, now) if show else rotate(path, now, settings.marker.overlap_days * _DAY)
    for key in sorted(keys, key=lambda key: key.made_at):
        typer.echo(f"key {key.number}, made {format_time(key.made_at)}")
    if not show:
        typer.echo(f"{path}: {len(keys)} keys; the last one encrypts new links; send SIGHUP to a running Hedgerow")

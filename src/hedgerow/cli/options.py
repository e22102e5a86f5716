"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings; ./hedgerow.toml where there is one."),
]


def default_config(config: Path | None) -> Path | None:
    """The settings file to read: the one named, else `hedgerow.toml` in this folder where there is one."""
    here = Path("hedgerow.toml")
    return config if config is not None else here if here.is_file() else None

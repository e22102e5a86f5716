"""Options and logging that several commands share."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer


def _default_config(config: Path | None) -> Path | None:
    default = Path("hedgerow.toml")
    return config if config is not None else default if default.is_file() else None


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings file; default ./hedgerow.toml if it exists.",
        callback=_default_config,
    ),
]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Observe = Annotated[bool, typer.Option("--observe", help="Decide and record everything, enforce nothing.")]
WorkerCount = Annotated[int, typer.Option("--workers", min=1, help="Number of worker processes.")]
AdminListener = Annotated[
    str,
    typer.Option("--admin", metavar="HOST:PORT", help="Address for overview, health and metrics; keep it private."),
]


def log_to_stderr() -> None:
    """Log to standard error, without the messages of uvicorn."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

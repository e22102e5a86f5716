"""`hedgerow demo`: a protected site, crawlers against it, and what happens."""

from __future__ import annotations

from typing import Annotated

import typer

from hedgerow.lab.demo import run as demo


def run(
    seconds: Annotated[
        float | None,
        typer.Option(metavar="N", help="Stop N seconds after the crawlers have finished; default: on Ctrl-C."),
    ] = None,
) -> None:
    """Protect a small real site, send crawlers against it, and show what happens."""
    demo.run(seconds=seconds)

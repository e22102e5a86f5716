"""
Later: commands that are read when they are typed.

Each command's module needs other parts of Hedgerow, and to read them all takes longer than most commands do.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from hedgerow.cli.interrupt import exit_on_interrupt


class LazyCommand(TyperCommand):
    """Stands for the command in the module of the same name: its *app*, where it has commands of its own, or *run*."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Where a command begins; from here on it is the one that was stood for."""
        return _read(str(self.name)).make_context(info_name, args, parent, **extra)


def _read(name: str) -> Any:
    with exit_on_interrupt():
        module = import_module(f"hedgerow.cli.{name}")
    if hasattr(module, "app"):
        return get_group(module.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(module.run)
    return get_command(alone)


def add_lazy_commands(app: typer.Typer, **texts: str) -> None:
    """Add commands to *app*, by name, with what help says of them."""
    for name, text in texts.items():
        app.command(name, cls=LazyCommand, help=text)(lambda: None)

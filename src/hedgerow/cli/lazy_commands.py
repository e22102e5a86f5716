"""
Commands whose module is imported when they are used.

Importing all modules takes longer than most commands do.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from hedgerow.cli.interrupt import exit_on_interrupt


def add_lazy_commands(app: typer.Typer, commands: Mapping[str, tuple[str, str]]) -> None:
    """Add commands to *app*. Each name maps to "module:attribute", a function or a `Typer`, and its help text."""
    for name, (location, text) in commands.items():
        app.command(name, cls=_lazy(location), help=text)(lambda: None)


def _lazy(location: str) -> type[TyperCommand]:
    class LazyCommand(TyperCommand):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            """Import the command and let it parse its arguments in place of this one."""
            return _load(location, str(self.name)).make_context(info_name, args, parent, **extra)

    return LazyCommand


def _load(location: str, name: str) -> Any:
    module, _, attribute = location.partition(":")
    with exit_on_interrupt():
        command = getattr(import_module(module), attribute)
    if isinstance(command, typer.Typer):
        return get_group(command)
    single = typer.Typer(add_completion=False)
    single.command(name)(command)
    return get_command(single)

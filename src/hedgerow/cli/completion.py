"""`hedgerow completion`: the script by which a shell completes commands, options and their values."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer import Argument
from typer.completion import get_completion_script  # type: ignore[attr-defined]

VARIABLE = "_HEDGEROW_COMPLETE"
"""The shell sets it when it asks `hedgerow` for completions."""


def run(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Argument(metavar="bash|zsh|fish", help="The shell to write it for.")
    ],
) -> None:
    """
    Print the script by which bash, zsh or fish completes commands and options.

    For bash: hedgerow completion bash > ~/.local/share/bash-completion/completions/hedgerow

    For zsh, in a folder of $fpath: hedgerow completion zsh > ~/.zfunc/_hedgerow

    For fish: hedgerow completion fish > ~/.config/fish/completions/hedgerow.fish
    """
    typer.echo(get_completion_script(prog_name="hedgerow", complete_var=VARIABLE, shell=shell))

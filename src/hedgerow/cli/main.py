"""All commands of `hedgerow`, and how errors and interruptions end them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hedgerow import __version__
from hedgerow.cli.interrupt import STATUS as INTERRUPTED
from hedgerow.cli.interrupt import InterruptStatus
from hedgerow.cli.lazy_commands import add_lazy_commands
from hedgerow.errors import HedgerowError, SettingsError

app = typer.Typer(
    name="hedgerow",
    help="Hedgerow stands in front of a web site, or reads its logs, and tells crawlers from people.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FAILURE, _WRONG_USE, _PIPE_CLOSED = 1, 2, 141

COMMANDS = {
    "protect": ("protect:run", "Run as a reverse proxy in front of a web site."),
    "serve": ("serve:run", "Decide for other servers (forward-auth), and keep ban-list clients up to date."),
    "client": (
        "client:run",
        "Check requests against local lists that a remote Hedgerow keeps up to date, and send it the visits.",
    ),
    "replay": (
        "replay:run",
        "Show what Hedgerow would have done with the visits in a log, and what the watch would have found.",
    ),
    "report": ("report:run", "Find the crawlers in access logs."),
    "check": ("maintenance:check", "Check a settings file and list every fault with its line."),
    "explain": (
        "explain:run",
        "Explain why a visitor was refused, by the reference number on its page; or what an evidence code means.",
    ),
    "watch": ("watch:run", "Run the watch as a separate process that follows the ledger and reports to the gates."),
    "migrate": ("maintenance:migrate", "Migrate ledger and state to this version; create the tables in PostgreSQL."),
    "crawl": ("crawl:run", "Run a training crawler against your own site, and label its visits for `hedgerow train`."),
    "demo": ("demo:run", "Protect a small real site, send crawlers against it, and show what happens."),
    "mark": ("mark:run", "Mark the links in a folder of HTML files, for publication by any server."),
    "train": ("train:run", "Train the models that recognise crawlers, from logs or simulated visitors."),
    "simulate": ("simulate:app", "Simulate what a measure costs crawlers and people."),
    "keys": ("keys:app", "Manage the keys that encrypt marked links."),
    "bots": ("bots:app", "Show known bots, update their addresses, and check whether an address is one."),
    "visitors": ("visitors:app", "Show suspected and blocked visitors with reasons; forgive or block a visitor."),
    "lists": ("lists:app", "Manage the white list and the black list."),
    "campaigns": ("campaigns:app", "Show campaigns: groups of visitors that belong together."),
    "models": ("models:app", "Show and switch the models that classify visitors."),
}
"""Each command, in the order of the help: where it is, and its help text."""

add_lazy_commands(app, {name: (f"hedgerow.cli.{location}", text) for name, (location, text) in COMMANDS.items()})


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hedgerow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. An expected failure or wrong use becomes one line on standard error."""
    try:
        status = app(standalone_mode=False)
        if status == INTERRUPTED and not isinstance(status, InterruptStatus):
            # Interrupted before the command handled it; typer prints nothing.
            typer.echo("Interrupted.", err=True)
    except SettingsError as error:
        for fault in error.faults:
            typer.echo(fault, err=True)
        status = _WRONG_USE
    except HedgerowError as error:
        typer.echo(f"hedgerow: {error}", err=True)
        status = _FAILURE
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("Interrupted.", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe early, as `head` does.
        sys.stderr.close()
        status = _PIPE_CLOSED
    except Exception as error:
        # Typer reports wrong use with exceptions of its own click, whose names are not public.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        # The message is empty if help was shown because no command was named.
        if sentence := format_message().rstrip("."):
            typer.echo(f"hedgerow: {sentence}; see hedgerow --help", err=True)
        status = _WRONG_USE
    sys.exit(status if isinstance(status, int) else 0)

"""All commands of `hedgerow`, the options that several share, and how errors and interruptions end a command."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import BadParameter, Option
from typer.core import TyperCommand
from typer.main import get_command, get_group

from hedgerow import __version__
from hedgerow.cli.start import STATUS as INTERRUPTED
from hedgerow.cli.start import InterruptStatus, exit_on_interrupt
from hedgerow.corrupt_files import reporting_only
from hedgerow.errors import HedgerowError, SettingsError

app = typer.Typer(
    name="hedgerow",
    help="Hedgerow stands in front of a web site, or reads its logs, and tells crawlers from people.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_OBSERVING = frozenset({"protect", "serve"})
_ALONE = "--observe=true"
_FAILURE, _WRONG_USE, _PIPE_CLOSED = 1, 2, 141

COMMANDS = {
    "init": ("init:run", "Ask five questions, write a settings file, and show how to go on."),
    "protect": ("servers:protect", "Run as a reverse proxy in front of a web site."),
    "serve": ("servers:serve", "Decide for other servers (forward-auth), and keep ban-list clients up to date."),
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
        "visitors:explain",
        "Explain why a visitor was refused, by the reference on its page or by its address; or an evidence code.",
    ),
    "watch": ("watch:run", "Run the watch as a separate process that follows the ledger and reports to the gates."),
    "migrate": ("maintenance:migrate", "Migrate ledger and state to this version; create the tables in PostgreSQL."),
    "crawl": ("crawl:run", "Run a training crawler against your own site, and label its visits for `hedgerow train`."),
    "demo": ("main:demo", "Protect a small real site, send crawlers against it, and show what happens."),
    "mark": ("mark:run", "Mark the links in a folder of HTML files, for publication by any server."),
    "train": ("train:run", "Train the models that recognise crawlers, from logs or simulated visitors."),
    "learn": (
        "learn:run",
        "Crawl your own site with six crawlers, train a bundle for it, and compare it with the one in use.",
    ),
    "simulate": ("simulate:app", "Simulate what a measure costs crawlers and people."),
    "keys": ("maintenance:keys", "Manage the keys that encrypt marked links."),
    "password": ("password:run", "Ask for a password and print the settings of a user of the dashboard."),
    "bots": ("bots:app", "Show known bots, update their addresses, and check whether an address is one."),
    "visitors": (
        "visitors:app",
        "Show suspected and blocked visitors with reasons; forgive, block, export or forget one.",
    ),
    "attack": ("attack:app", "Ask every visitor without a clearance for one, for some time; switch that off; show it."),
    "alerts": ("alerts:app", "Send a test alert by webhook and mail."),
    "limits": (
        "limits:run",
        "Show how many pages visitors may read in a day and why, how many they read, and who is affected.",
    ),
    "lists": ("lists:app", "Manage the white list and the black list."),
    "campaigns": ("visitors:campaigns_app", "Show campaigns: groups of visitors that belong together."),
    "models": ("models:app", "Show and switch the models that classify visitors."),
    "completion": ("completion:run", "Print the script by which bash, zsh or fish completes commands and options."),
}
"""Each command: where its function or `Typer` is, and its help text."""

GROUPS = {
    "Set up": ("init", "check", "password", "completion", "demo"),
    "Protect a site": ("protect", "serve", "client", "watch", "mark"),
    "See and act": (
        "explain", "visitors", "campaigns", "attack", "lists", "limits", "bots", "alerts", "report", "replay",
    ),
    "Models": ("models", "learn", "train", "crawl", "simulate"),
    "Maintain": ("keys", "migrate"),
}  # fmt: skip
"""The groups of commands, in the order of the help."""
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


DEFAULT_FILE = Path("hedgerow.toml")
CONFIG_VARIABLE = "HEDGEROW_CONFIG"


def _default_config(config: Path | None) -> Path | None:
    if config is not None or DEFAULT_FILE.is_file():
        return config or DEFAULT_FILE
    return Path(named) if (named := os.environ.get(CONFIG_VARIABLE)) else None


def join_observe(arguments: list[str]) -> list[str]:
    """
    Return *arguments* with a value for `--observe`, which may stand alone.

    >>> join_observe(["--observe", "http://a", "--observe", "links"])
    ['--observe=true', 'http://a', '--observe=links']
    """
    joined: list[str] = []
    for argument in arguments:
        if argument == "links" and joined and joined[-1] == _ALONE:
            joined[-1] = "--observe=links"
        else:
            joined.append(_ALONE if argument == "--observe" else argument)
    return joined


def _checked_observe(value: str) -> str:
    if value not in {"", "true", "links"}:
        raise BadParameter(f"write --observe or --observe=links, not {value!r}", param_hint="--observe")
    return value


Config = Annotated[
    Path | None,
    Option(
        "--config",
        "-c",
        metavar="FILE",
        help=f"Settings file; default ./hedgerow.toml if it exists, else the file in {CONFIG_VARIABLE}.",
        callback=_default_config,
    ),
]
JsonFile = Annotated[
    str | None, Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
]
AsJson = Annotated[bool, Option("--json", help="Print everything as JSON.")]
Observe = Annotated[
    str,
    Option(
        "--observe",
        metavar="[links]",
        help="Decide and record everything, enforce nothing, and change no response. With `links`, mark links and add "
        "hidden ones, as when enforcing.",
        callback=_checked_observe,
    ),
]
WorkerCount = Annotated[int, Option("--workers", min=1, help="Number of worker processes.")]
AdminListener = Annotated[
    str,
    Option(
        "--admin", metavar="HOST:PORT", help="Address or unix:/PATH for dashboard, health and metrics; keep it private."
    ),
]
StrictStart = Annotated[
    bool, Option("--strict-start", help="Do not start with dangerous settings, such as an open admin listener.")
]


class _LazyCommand(TyperCommand):
    """A command whose module is imported when it is used: importing all takes longer than most commands do."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and let it parse its arguments in place of this one."""
        location, text = COMMANDS[str(self.name)]
        module, _, attribute = location.partition(":")
        with exit_on_interrupt():
            command = getattr(import_module(f"hedgerow.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            command.info.help, command.info.no_args_is_help = text, True
            loaded: Any = get_group(command)
        else:
            single = typer.Typer(add_completion=False)
            single.command(self.name, help=None if command.__doc__ else text)(command)
            loaded = get_command(single)
        return loaded.make_context(info_name, join_observe(args) if self.name in _OBSERVING else args, parent, **extra)


for _name, (_, _text) in sorted(COMMANDS.items(), key=lambda command: list(_GROUP_OF).index(command[0])):
    app.command(_name, cls=_LazyCommand, help=_text, rich_help_panel=_GROUP_OF[_name])(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hedgerow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def demo(
    seconds: Annotated[
        float | None, Option(metavar="N", help="Stop N seconds after the crawlers have finished; default: on Ctrl-C.")
    ] = None,
) -> None:
    from hedgerow.lab.demo.run import run

    run(seconds=seconds)


def main() -> None:
    """Run the command line. An expected failure or wrong use becomes one line on standard error."""
    if "_HEDGEROW_COMPLETE" in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        # A shell asks for completions. Typer is told so here, because it would offer options to install them.
        completion_init()
    try:
        with reporting_only():
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

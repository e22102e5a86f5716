"""All commands of `hedgerow`, and how faults and interruptions end them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hedgerow import __version__
from hedgerow.cli.interrupt import STATUS as INTERRUPTED
from hedgerow.cli.interrupt import InterruptStatus, exit_on_interrupt
from hedgerow.cli.lazy_commands import add_lazy_commands
from hedgerow.cli.options import Config, default_config
from hedgerow.errors import HedgerowError, SettingsError

if TYPE_CHECKING:
    from hedgerow.lab.crawl.frontier import Order

app = typer.Typer(
    name="hedgerow",
    help="Hedgerow stands in front of a web site, or reads its logs, and tells crawlers from people.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_BROKEN, _WRONG_USE, _PIPE_CLOSED = 1, 2, 141


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


@app.command()
def protect(
    upstream: Annotated[
        str, typer.Argument(metavar="UPSTREAM", help="The site to protect, such as http://127.0.0.1:8000.")
    ] = "",
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where visitors come in.")] = "",
    config: Config = None,
    observe: Annotated[bool, typer.Option("--observe", help="Decide and record everything, enforce nothing.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    admin: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Overview, health and metrics; keep it on a private address."),
    ] = "",
) -> None:
    """Stand in front of a web site as a reverse proxy."""
    from hedgerow.cli.protect import run

    run(upstream, listen=listen, config=default_config(config), observe=observe, workers=workers, admin=admin)


@app.command()
def serve(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where other servers ask.")] = "",
    config: Config = None,
    observe: Annotated[bool, typer.Option("--observe", help="Decide and record everything, enforce nothing.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    admin: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Overview, health and metrics; keep it on a private address."),
    ] = "",
) -> None:
    """Decide for other servers (forward-auth), and keep ban-list clients up to date."""
    from hedgerow.cli.serve import run

    run(listen=listen, config=default_config(config), observe=observe, workers=workers, admin=admin)


@app.command()
def client(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="A hedgerow serve, such as https://host:8090.")],
    token_file: Annotated[
        Path, typer.Option(metavar="FILE", help="Holds the token by which the server knows this client.")
    ],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where servers on this machine ask.")
    ] = "127.0.0.1:8091",
    trust: Annotated[
        list[str] | None, typer.Option(metavar="NETWORK", help="A server that may ask; 127.0.0.1/32 without.")
    ] = None,
    nginx: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep a file for nginx's geo current.")] = None,
    map_file: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Keep a map for HAProxy (map_ip) or Apache (RewriteMap) current."),
    ] = None,
    reload: Annotated[
        str, typer.Option(metavar="COMMAND", help="Run when a file has changed, such as 'nginx -s reload'.")
    ] = "",
    account_cookie: Annotated[str, typer.Option(metavar="NAME", help="As in the server's settings.")] = "",
    ca_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Who vouches for the server, for https.")] = None,
    observe: Annotated[bool, typer.Option("--observe", help="Refuse nobody, only send visits.")] = False,
) -> None:
    """Check requests against local lists, which a remote Hedgerow keeps current; send it the visits."""
    from hedgerow.cli.client import run

    run(
        server, token_file=token_file, listen=listen, trust=trust or ["127.0.0.1/32"], nginx=nginx, map_file=map_file,
        reload=reload, account_cookie=account_cookie, ca_file=ca_file, observe=observe,
    )  # fmt: skip


@app.command()
def replay(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="Access logs, a ledger (also postgresql://...), or - for standard input."
        ),
    ],
    config: Config = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    propose: Annotated[bool, typer.Option("--propose", help="Propose density limits from these logs.")] = False,
    top: Annotated[int, typer.Option(min=0, help="How many visitors to show.")] = 20,
    host: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The site's host, where the log does not name it: marked links open, and referrers tell the way to a "
            "page. Without it the host that images name as the page they are on.",
        ),
    ] = "",
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Leave the watch out: no models, no campaigns.")] = False,
) -> None:
    """Say what Hedgerow would have done with the visits of a log, and what the watch would have found."""
    from hedgerow.cli.replay import run

    run(logs, config=default_config(config), json_path=json, propose=propose, top=top, host=host, watched=not no_watch)


@app.command()
def report(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="Access logs, a ledger (also postgresql://...), patterns, or -: standard input."
        ),
    ],
    config: Config = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with plots and tables; it needs no network.")
    ] = None,
    ignore_user_agent: Annotated[
        bool, typer.Option("--ignore-user-agent", help="Hide user agents from every detector.")
    ] = False,
    memory: Annotated[float, typer.Option(min=0.5, metavar="GB", help="Memory to keep to.")] = 2.0,
    host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The site's own host; without, found from the log.")
    ] = None,
    form: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="The server's log_format or LogFormat, or a format's name."),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="What a source is: visitor (an account that Hedgerow knows, else a prefix), address, prefix (IPv4 "
            "address, IPv6 /64), network (/24, /48), or the log's own account or session.",
        ),
    ] = "",
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Thresholds and weights; see hedgerow train heuristics."),
    ] = None,
    shape: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Models of the shape of traffic; see hedgerow train shape."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many crawlers to show.")] = 10,
    export: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT=FILE", help="Write the crawlers as a list; formats as in hedgerow lists export."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Put the crawlers on the black list of the running Hedgerow.")
    ] = False,
    length: Annotated[str, typer.Option("--for", metavar="7d", help="How long entries hold.")] = "7d",
    sure: Annotated[float, typer.Option(min=0.0, max=1.0, help="The score from which on a crawler is listed.")] = 0.9,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Verify bots by the names of their addresses, asked of the DNS.")
    ] = False,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="What holds the rows: local or duckdb on this machine, or spark.")
    ] = "local",
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's master, such as spark://host:7077; without, this machine.")
    ] = "",
    timing: Annotated[bool, typer.Option("--timing", help="Say how long it took; the JSON then differs.")] = False,
) -> None:
    """Say who crawls the site, by its access log."""
    with exit_on_interrupt():
        from hedgerow.cli.report import run

    run(
        logs, config=default_config(config), json_path=json, html_path=html, ignore_agents=ignore_user_agent,
        memory=memory, hosts=host, form=form, by=by, model=model, shape=shape, top=top, timing=timing,
        exports=export or [], apply=apply, length=length, sure=sure, resolve=resolve, engine=engine, master=master,
    )  # fmt: skip


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Settings; ./hedgerow.toml without.")] = None,
) -> None:
    """Check a settings file: every fault, with its line."""
    from hedgerow.settings import load_settings

    path = file or Path("hedgerow.toml")
    load_settings(path)
    typer.echo(f"{path}: no faults")


@app.command()
def explain(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="As on the page that the visitor saw; or an evidence code like `trap`."
        ),
    ],
    config: Config = None,
) -> None:
    """Say why a visitor was refused, given the reference it was shown; or what an evidence code means."""
    from hedgerow.cli.explain import run

    run(reference, config=default_config(config))


@app.command()
def watch(config: Config = None) -> None:
    """Watch in a process of its own: read the ledger along, and tell the gates what is found."""
    from hedgerow.cli.watch import run

    run(config=default_config(config))


@app.command()
def migrate(config: Config = None) -> None:
    """Bring ledger and state to the form that this version needs; in PostgreSQL, make the tables."""
    from hedgerow.cli.migrate import run

    run(config=default_config(config))


@app.command()
def crawl(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to begin, on your own site.")],
    order: Annotated[str, typer.Option(metavar="depth|breadth|random", help="Which link is followed next.")],
    delay: Annotated[
        str, typer.Option(metavar="SECONDS", help='Before each request; also drawn anew each time: "normal(8,1)".')
    ] = "0",
    pages: Annotated[int, typer.Option(min=1, help="Requests at the most.")] = 300,
    user_agent: Annotated[str, typer.Option(help="What it says it is.")] = "hedgerow-crawl",
    login: Annotated[str, typer.Option(metavar="URL", help="A page with a form to fill in first.")] = "",
    field: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A field of it; @FILE as the value reads a file.")
    ] = None,
    label: Annotated[str, typer.Option(metavar="NAME", help="Its visits' label; the order's name without.")] = "",
    allow: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A host of yours that is not this machine.")
    ] = None,
    source: Annotated[
        str, typer.Option("--from", metavar="ADDRESS", help="Speak from this address of this machine.")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="The same again: links and delays are drawn alike.")] = None,
    config: Config = None,
) -> None:
    """Send a training crawler against your own site, and label its visits for `hedgerow train`."""
    if order not in {"depth", "breadth", "random"}:
        raise typer.BadParameter(f"{order!r} is none of depth, breadth and random", param_hint="--order")
    from hedgerow.cli.crawl import run

    run(
        url, order=cast("Order", order), delay=delay, pages=pages, user_agent=user_agent, login=login,
        fields=field or [], label=label, allow=allow or [], source=source, seed=seed, config=default_config(config),
    )  # fmt: skip


@app.command()
def demo(
    seconds: Annotated[
        float | None,
        typer.Option(metavar="N", help="Stop N seconds after the crawlers are done; else on Ctrl-C."),
    ] = None,
) -> None:
    """Protect a small real site, send crawlers against it, and show what happens."""
    from hedgerow.lab.demo.run import run

    run(seconds=seconds)


add_lazy_commands(
    app,
    mark="Mark the links of a folder of HTML for publication: page markers, for no visitor in particular.",
    train="Train the models that tell crawlers by their paths; or, by `train heuristics LOG...`, those of `hedgerow"
    " report`.",
    simulate="Experiments: what a measure would cost crawlers, and people.",
    keys="The keys under which links are sealed.",
    bots="Known bots: who they are, and whether somebody is one.",
    visitors="Who is suspected or blocked, and why; forgive or block somebody.",
    lists="White and black lists: who is let in, or kept out, by your word.",
    campaigns="Visitors that belong together: distributed crawlers.",
    models="The models that judge visitors, and what speaks for others.",
)


def main() -> None:
    """Run the command line: what is broken, or typed wrong, becomes one line on standard error."""
    try:
        status = app(standalone_mode=False)
        if status == INTERRUPTED and not isinstance(status, InterruptStatus):
            # Before the command had begun to mind it; typer keeps silent.
            typer.echo("Interrupted.", err=True)
    except SettingsError as error:
        for fault in error.faults:
            typer.echo(fault, err=True)
        status = _WRONG_USE
    except HedgerowError as error:
        typer.echo(f"hedgerow: {error}", err=True)
        status = _BROKEN
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("Interrupted.", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        # Somebody looked at the first lines with `head`.
        sys.stderr.close()
        status = _PIPE_CLOSED
    except Exception as error:
        # What typer says of wrong use is an exception of a click of its own, under a name that is not public.
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        if sentence := said().rstrip("."):
            typer.echo(f"hedgerow: {sentence}; see hedgerow --help", err=True)
        # Else help was shown in place of a command that was not named.
        status = _WRONG_USE
    sys.exit(status if isinstance(status, int) else 0)

"""`hedgerow crawl URL`: run one of PathMarker's training crawlers against your own site, and label its visits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.progress import Progress
from typer import Argument, Option

from hedgerow.cli.main import Config
from hedgerow.core.visit import HIDDEN_KINDS
from hedgerow.errors import HedgerowError
from hedgerow.lab.crawl.own_hosts import Origin, is_own, own_origin, source_address
from hedgerow.lab.crawl.schedule import IDENTITIES, Order, parse_delay
from hedgerow.ledger.labels import Label, add_label, labels_path
from hedgerow.request.identify import Identifier
from hedgerow.settings import Settings, load_settings
from hedgerow.web.paths import key_path, ledger_path
from hedgerow.web.stores import build_token_codecs

if TYPE_CHECKING:
    from hedgerow.lab.crawl.spider import Crawl

_MIN_PAGES = 10
_REFUSED = "the login was refused; check its URL and fields"
_FAILURES = {"no-form": "the login page has no form", "login-refused": _REFUSED}


def run(
    url: Annotated[str, Argument(metavar="URL", help="Start page, on your own site.")],
    order: Annotated[str, Option(metavar="depth|breadth|random", help="Order in which links are followed.")],
    delay: Annotated[
        str, Option(metavar="SECONDS", help='Delay before each request; "normal(8,1)" draws it at random.')
    ] = "0",
    pages: Annotated[int, Option(min=1, help="Maximum number of requests.")] = 300,
    user_agent: Annotated[str, Option(help="User agent of the crawler.")] = "hedgerow-crawl",
    login: Annotated[str, Option(metavar="URL", help="Login page with a form to fill in first.")] = "",
    field: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="Form field; a value @FILE is read from the file.")
    ] = None,
    label: Annotated[str, Option(metavar="NAME", help="Label of its visits; default: the name of the order.")] = "",
    allow: Annotated[
        list[str] | None, Option(metavar="HOST", help="Another host of your own that may be crawled.")
    ] = None,
    source: Annotated[str, Option("--from", metavar="ADDRESS", help="Local address to send from.")] = "",
    seed: Annotated[int | None, Option(help="Random seed: the same seed gives the same links and delays.")] = None,
    config: Config = None,
) -> None:
    if order not in get_args(Order):
        raise typer.BadParameter(f"{order!r} is none of depth, breadth and random", param_hint="--order")
    try:
        pause = parse_delay(delay, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--delay") from None
    origin = own_origin(url, allow or [])
    if login and not origin.has(login):
        raise HedgerowError(f"the login page {login} is not on the site {url}")
    if source and not is_own(source):
        raise HedgerowError(f"{source} is not an address of this machine")
    fields = dict(map(_field, field or []))
    try:
        from hedgerow.lab.crawl import spider
    except ImportError:
        raise HedgerowError("crawling needs Scrapy; install it: pip install 'hedgerow[crawl]'") from None
    settings = load_settings(config)
    path = labels_path(ledger_path(settings))
    is_hidden = hidden_links(settings, origin)
    since = time.time()
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"Crawling, {order} first" if order != "random" else "Crawling at random", total=pages)
        plan = spider.CrawlPlan(
            url, origin, cast("Order", order), pause, pages, user_agent, login=login, fields=fields, source=source,
            seed=seed, is_hidden=is_hidden, after=lambda count: progress.update(task, completed=count),
        )  # fmt: skip
        (crawl,) = spider.run([plan])
    name = label or IDENTITIES[cast("Order", order)]
    visits_label = Label(source or source_address(origin), user_agent, host_of(origin), since, time.time(), name)
    if crawl.statuses:
        add_label(path, visits_label)
    seconds = visits_label.until - visits_label.since
    results = [f"{count} x {status}" for status, count in sorted(crawl.statuses.items())]
    results += [f"{count} x {failure}" for failure, count in sorted(crawl.failures.items())]
    if crawl.end in _FAILURES:
        raise HedgerowError(_FAILURES[crawl.end])
    if not crawl.statuses:
        raise HedgerowError(f"no response from {url}: {', '.join(results) or crawl.end}; is the site running there?")
    typer.echo(f"requested {crawl.requests} pages in {seconds:.0f} s: {', '.join(results)}")
    typer.echo(f"labelled {name} in {path}")
    _print_hints(crawl, settings)


def _print_hints(crawl: Crawl, settings: Settings) -> None:
    if crawl.hidden:
        typer.echo(f"{crawl.hidden} hidden links were not followed")
    elif not has_keys(settings):
        typer.echo(
            f"there is no key file {key_path(settings)}, so hidden links were followed like others; name the settings"
            " of the site with --config",
            err=True,
        )
    if crawl.statuses.total() < _MIN_PAGES:
        typer.echo(f"fewer than {_MIN_PAGES} responses: too few to learn from", err=True)
    elif 2 * crawl.statuses[200] < crawl.statuses.total():
        typer.echo(
            "less than half of the responses are pages; run the site with --observe=links, or hidden links and rate "
            "limits stop the crawler",
            err=True,
        )


def host_of(origin: Origin) -> str:
    """Return the Host header of requests to *origin*."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return host if origin.port == {"http": 80, "https": 443}[origin.scheme] else f"{host}:{origin.port}"


def has_keys(settings: Settings) -> bool:
    return "HEDGEROW_KEYS" in os.environ or os.access(key_path(settings), os.R_OK)


def hidden_links(settings: Settings, origin: Origin) -> Callable[[str], bool]:
    """Return a function that recognises hidden links. It needs the site's keys: nothing else tells them apart."""
    if not has_keys(settings):
        return lambda _: False
    identifier = Identifier(tokens=build_token_codecs(settings), prefix=settings.marker.prefix)
    host = host_of(origin)

    def is_hidden(url: str) -> bool:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        marker = identifier.unmark(target, host)[1]
        return marker is not None and marker.kind in HIDDEN_KINDS

    return is_hidden


def _field(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE. A value @FILE is read from the file, so that no password is on the command line."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--field")
    if value.startswith("@"):
        try:
            value = Path(value[1:]).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise HedgerowError(f"cannot read {value[1:]}: {error}") from None
    return name, value

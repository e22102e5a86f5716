"""`hedgerow crawl URL`: run one of PathMarker's training crawlers against your own site, and label its visits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.progress import Progress

from hedgerow.cli.options import Config
from hedgerow.errors import HedgerowError
from hedgerow.lab.crawl.delay import parse_delay
from hedgerow.lab.crawl.frontier import IDENTITIES, Order
from hedgerow.lab.crawl.own_hosts import is_own, own_origin, source_address
from hedgerow.ledger.labels import Label, add_label, labels_path
from hedgerow.settings import load_settings
from hedgerow.web.paths import ledger_path

_MIN_PAGES = 10
_FAILURES = {
    "no-form": "the login page has no form",
    "login-refused": "the login was refused; check its URL and fields",
}


def run(
    url: Annotated[str, typer.Argument(metavar="URL", help="Start page, on your own site.")],
    order: Annotated[str, typer.Option(metavar="depth|breadth|random", help="Order in which links are followed.")],
    delay: Annotated[
        str, typer.Option(metavar="SECONDS", help='Delay before each request; "normal(8,1)" draws it at random.')
    ] = "0",
    pages: Annotated[int, typer.Option(min=1, help="Maximum number of requests.")] = 300,
    user_agent: Annotated[str, typer.Option(help="User agent of the crawler.")] = "hedgerow-crawl",
    login: Annotated[str, typer.Option(metavar="URL", help="Login page with a form to fill in first.")] = "",
    field: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Form field; a value @FILE is read from the file.")
    ] = None,
    label: Annotated[
        str, typer.Option(metavar="NAME", help="Label of its visits; default: the name of the order.")
    ] = "",
    allow: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Another host of your own that may be crawled.")
    ] = None,
    source: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Local address to send from.")] = "",
    seed: Annotated[
        int | None, typer.Option(help="Random seed: the same seed gives the same links and delays.")
    ] = None,
    config: Config = None,
) -> None:
    """Run a training crawler against your own site, and label its visits for `hedgerow train`."""
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
    path = labels_path(ledger_path(load_settings(config)))
    since = time.time()
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"Crawling, {order} first" if order != "random" else "Crawling at random", total=pages)
        plan = spider.CrawlPlan(
            url, origin, cast("Order", order), pause, pages, user_agent, login=login, fields=fields, source=source,
            seed=seed, after=lambda count: progress.update(task, completed=count),
        )  # fmt: skip
        crawl, end = spider.run(plan)
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    if origin.port != {"http": 80, "https": 443}[origin.scheme]:
        host += f":{origin.port}"
    name = label or IDENTITIES[cast("Order", order)]
    visits_label = Label(source or source_address(origin), user_agent, host, since, time.time(), name)
    if crawl.statuses:
        add_label(path, visits_label)
    seconds = visits_label.until - visits_label.since
    results = [f"{count} x {status}" for status, count in sorted(crawl.statuses.items())]
    results += [f"{count} x {failure}" for failure, count in sorted(crawl.failures.items())]
    if end in _FAILURES:
        raise HedgerowError(_FAILURES[end])
    if not crawl.statuses:
        raise HedgerowError(f"no response from {url}: {', '.join(results) or end}; is the site running there?")
    typer.echo(f"requested {crawl.requests} pages in {seconds:.0f} s: {', '.join(results)}")
    typer.echo(f"labelled {name} in {path}")
    if crawl.statuses.total() < _MIN_PAGES:
        typer.echo(f"fewer than {_MIN_PAGES} responses: too few to learn from", err=True)
    elif 2 * crawl.statuses[200] < crawl.statuses.total():
        typer.echo(
            "less than half of the responses are pages; run the site with observe = true, or hidden links and rate "
            "limits stop the crawler",
            err=True,
        )


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

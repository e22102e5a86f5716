"""`hedgerow crawl URL`: one of PathMarker's training crawlers against one's own site, its visits labelled."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from hedgerow.errors import HedgerowError
from hedgerow.lab.crawl.delay import parse_delay
from hedgerow.lab.crawl.frontier import IDENTITIES, Order
from hedgerow.lab.crawl.own_hosts import is_own, own_origin, source_address
from hedgerow.ledger.labels import Label, add_label, labels_path
from hedgerow.settings import load_settings
from hedgerow.web.paths import ledger_path

_LEAST = 10
_ENDS = {
    "no-form": "the login page has no form",
    "login-refused": "the login was refused; look at its URL and fields",
}


def run(
    url: str,
    *,
    order: Order,
    delay: str,
    pages: int,
    user_agent: str,
    login: str,
    fields: list[str],
    label: str,
    allow: list[str],
    source: str,
    seed: int | None,
    config: Path | None,
) -> None:
    """Crawl, label what was crawled, and say how it went."""
    try:
        pause = parse_delay(delay, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--delay") from None
    origin = own_origin(url, allow)
    if login and not origin.has(login):
        raise HedgerowError(f"the login page {login} is not of the site {url}")
    if source and not is_own(source):
        raise HedgerowError(f"{source} is not an address of this machine")
    filled = dict(map(_field, fields))
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
            url, origin, order, pause, pages, user_agent, login=login, fields=filled, source=source, seed=seed,
            after=lambda asked: progress.update(task, completed=asked),
        )  # fmt: skip
        crawl, end = spider.run(plan)
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    if origin.port != {"http": 80, "https": 443}[origin.scheme]:
        host += f":{origin.port}"
    name = label or IDENTITIES[order]
    made = Label(source or source_address(origin), user_agent, host, since, time.time(), name)
    if crawl.statuses:
        add_label(path, made)
    seconds = made.until - made.since
    said = [f"{count} x {status}" for status, count in sorted(crawl.statuses.items())]
    said += [f"{count} x {failure}" for failure, count in sorted(crawl.failures.items())]
    if end in _ENDS:
        raise HedgerowError(_ENDS[end])
    if not crawl.statuses:
        raise HedgerowError(f"nothing answers at {url}: {', '.join(said) or end}; is the site running there?")
    typer.echo(f"asked for {crawl.asked} pages in {seconds:.0f} s: {', '.join(said)}")
    typer.echo(f"labelled {name} in {path}")
    if crawl.statuses.total() < _LEAST:
        typer.echo(f"fewer than {_LEAST} pages answered: there is nothing to learn from so few", err=True)
    elif 2 * crawl.statuses[200] < crawl.statuses.total():
        typer.echo(
            "less than half were answered with a page; run the site with observe = true, or hidden links and density "
            "stop the crawler",
            err=True,
        )


def _field(text: str) -> tuple[str, str]:
    """NAME=VALUE; a value @FILE is what is in the file, so that no password need be typed where others see it."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--field")
    if value.startswith("@"):
        try:
            value = Path(value[1:]).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise HedgerowError(f"cannot read {value[1:]}: {error}") from None
    return name, value

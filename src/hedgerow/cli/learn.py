"""`hedgerow learn URL`: crawl your own site with six training crawlers, train a bundle, and compare it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from typer import Argument, Option

from hedgerow.cli.crawl import has_keys, hidden_links, host_of
from hedgerow.cli.main import Config
from hedgerow.cli.train import (
    Recipe,
    check_better,
    check_installed,
    lengths_of,
    print_status,
    put_shadow,
    read_site,
    start_of,
    write_quality,
)
from hedgerow.errors import HedgerowError, ModelError
from hedgerow.lab.crawl.own_hosts import Origin, own_origin, source_address
from hedgerow.lab.crawl.schedule import IDENTITIES, Order, parse_delay
from hedgerow.ledger.labels import Label, add_label, labels_path
from hedgerow.settings import Settings, load_settings
from hedgerow.web.ledger_access import has_ledger, ledger_of
from hedgerow.web.paths import key_path, ledger_path

if TYPE_CHECKING:
    from hedgerow.lab.crawl.spider import Crawl

_ORDERS: tuple[Order, ...] = ("depth", "breadth", "random")
_LEDGER_DELAY = 2.0
"""Seconds after which a running gate has written its visits."""
_FIRST_ADDRESS = 11


class _Crawler(NamedTuple):
    order: Order
    delay: str
    user_agent: str
    source: str


def run(
    url: Annotated[str, Argument(metavar="URL", help="Start page, on your own site.")],
    pages: Annotated[int, Option(min=10, help="Maximum number of requests of each crawler.")] = 120,
    delay: Annotated[
        str, Option(metavar="SECONDS", help="Delay of three of the six crawlers; the others have none.")
    ] = "normal(8,1)",
    recipe: Annotated[Recipe, Option(help="Our own models, those of PathMarker, or the sliding window.")] = "boosted",
    allow: Annotated[
        list[str] | None, Option(metavar="HOST", help="Another host of your own that may be crawled.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed of crawlers and training.")] = 1,
    config: Config = None,
) -> None:
    """
    Crawl your own site with six crawlers, train a bundle for it, and compare it with the one in use.

    These are PathMarker's: depth first, breadth first and at random, each without and with a delay.
    The site must run behind Hedgerow with `--observe=links`, and people must have visited it. A bundle that is not
    worse on the site's own people becomes the shadow of the one in use. With the defaults crawling takes 16 minutes.
    """
    check_installed()
    settings = load_settings(config)
    try:
        parse_delay(delay, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--delay") from None
    origin = own_origin(url, allow or [])
    _check_site(settings)
    logs = [ledger_of(settings)]
    # Before the work: without people there is nothing to learn.
    from hedgerow.lab.train.log_samples import check_own, train_for_site

    check_own(read_site(logs, settings, None, recipe=recipe, host=""), recipe, lengths_of(settings))
    _crawl(url, origin, settings, pages=pages, delay=delay, seed=seed)
    time.sleep(_LEDGER_DELAY)
    gathered = read_site(logs, settings, None, recipe=recipe, host="")
    print_status("Training; it may take some minutes.")
    adapted = train_for_site(
        gathered, recipe=recipe, start=start_of(recipe, settings), seed=seed, lengths=lengths_of(settings),
        after=print_status,
    )  # fmt: skip
    check_better(adapted, settings, recipe)
    path = put_shadow(adapted.bundle, settings)
    write_quality(adapted.bundle, None, Path(path).with_suffix(".html"))


def _check_site(settings: Settings) -> None:
    if not has_ledger(settings):
        raise ModelError(f"there is no ledger {ledger_of(settings)}; name the settings of the site with --config")
    if not has_keys(settings):
        raise ModelError(
            f"there is no key file {key_path(settings)}, so hidden links cannot be told from others; name the settings"
            " of the site with --config"
        )


def _crawlers(origin: Origin, delay: str) -> list[_Crawler]:
    """Return PathMarker's six crawlers. They run side by side, so each has a user agent of its own, and an address."""
    crawlers = []
    for number, (order, its) in enumerate((order, its) for its in ("0", delay) for order in _ORDERS):
        is_local = origin.address.startswith("127.")
        source = f"127.0.0.{_FIRST_ADDRESS + number}" if is_local else source_address(origin)
        crawlers.append(_Crawler(order, its, f"hedgerow-crawl/{order}-{number + 1}", source))
    return crawlers


def _crawl(url: str, origin: Origin, settings: Settings, *, pages: int, delay: str, seed: int) -> None:
    """Run the six crawlers side by side and label their visits. HedgerowError if they got too few pages."""
    try:
        from hedgerow.lab.crawl import spider
    except ImportError:
        raise HedgerowError("crawling needs Scrapy; install it: pip install 'hedgerow[crawl]'") from None
    crawlers, is_hidden = _crawlers(origin, delay), hidden_links(settings, origin)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    print_status(f"Crawling {url}: six crawlers side by side, {pages} pages each.")
    since = time.time()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        plans = []
        for number, one in enumerate(crawlers):
            task = progress.add_task(f"{one.order}, delay {one.delay}", total=pages)
            plans.append(
                spider.CrawlPlan(
                    url,
                    origin,
                    one.order,
                    parse_delay(one.delay, seed + number),
                    pages,
                    one.user_agent,
                    source=one.source if origin.address.startswith("127.") else "",
                    seed=seed + number,
                    is_hidden=is_hidden,
                    after=_advance(progress, task),
                )
            )
        crawls = spider.run(plans)
    path = labels_path(ledger_path(settings))
    for one, crawl in zip(crawlers, crawls, strict=True):
        if crawl.statuses:
            label = Label(one.source, one.user_agent, host_of(origin), since, crawl.until + 1, IDENTITIES[one.order])
            add_label(path, label)
    _check_crawls(url, crawls)


def _advance(progress: Progress, task: TaskID) -> Callable[[int], None]:
    return lambda count: progress.update(task, completed=count)


def _check_crawls(url: str, crawls: list[Crawl]) -> None:
    requests, received = sum(crawl.requests for crawl in crawls), sum(crawl.statuses[200] for crawl in crawls)
    hidden = sum(crawl.hidden for crawl in crawls)
    if not any(crawl.statuses for crawl in crawls):
        failures = ", ".join(sorted({name for crawl in crawls for name in crawl.failures})) or crawls[0].end
        raise HedgerowError(f"no response from {url}: {failures}; is the site running there?")
    print_status(f"{requests:,} requests, {received:,} pages; {hidden:,} hidden links were not followed.")
    if 2 * received < requests:
        raise HedgerowError(
            "less than half of the responses are pages: run the site with --observe=links, or rate limits and the"
            " budget stop the crawlers; nothing was trained"
        )

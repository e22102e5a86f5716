"""
`hedgerow simulate`: PathMarker's suppression experiment, and the reach of PubCrawl's containment on a log.

Progress goes to standard error if it is a terminal. Tables or JSON go to standard output.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Argument, Option

from hedgerow.cli.main import JsonFile
from hedgerow.cli.output import (
    STANDARD_OUTPUT,
    console,
    is_writable,
    new_table,
    visits_with_progress,
    write_file,
    write_json,
)  # fmt: skip
from hedgerow.cli.start import STATUS as INTERRUPTED
from hedgerow.lab.simulate.crawl import CrawlMemory, Order
from hedgerow.lab.simulate.suppression import PAPER_EXTRA, PAPER_WASTE, Estimate, Parameters, Suppression, suppress

if TYPE_CHECKING:
    from hedgerow.report.request_volumes import RequestVolumes

WRONG_USE = 2

_WIDTH = 100
_BAR = 32

app = typer.Typer()


@app.command()
def containment(
    logs: Annotated[list[str], Argument(metavar="LOG...", help="Access logs, a ledger, or - for standard input.")],
    k1: Annotated[str, Option(metavar="N,N,...", help="Free requests per source and day.")] = "10,15,20,25,50,100",
    k2: Annotated[
        str, Option(metavar="N,N,...", help="Number of requests from which on the models decide.")
    ] = "100,500,1000,2000,5000,10000",
    pages: Annotated[bool, Option("--pages", help="Ignore images, styles and scripts, as containment does.")] = False,
    timezone: Annotated[str, Option(help="Time zone that defines the day.")] = "UTC",
    json: JsonFile = None,
) -> None:
    """
    Count the sources and requests in a log that containment would affect, for each k1 and k2 (PubCrawl's table 9).

    A source is an address on one day.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from hedgerow.logs.reader import LogReader
    from hedgerow.report.request_volumes import RequestVolumes
    from hedgerow.web.gate import day_of

    first, second = _numbers(k1, "--k1"), _numbers(k2, "--k2")
    _check_writable("--json", json)
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        _refuse(f"--timezone: {timezone!r} is unknown; write it like Europe/Berlin")
    volumes = RequestVolumes(day_of(zone), pages_only=pages)
    for visit in visits_with_progress(LogReader(logs)):
        volumes.add(visit)
    if json is not None:
        write_json(json, volumes.to_json(first, second))
    if json != STANDARD_OUTPUT:
        _print_volumes(volumes, first, second)


def _print_volumes(volumes: RequestVolumes, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    output = console(_WIDTH)
    output.print(f"{volumes.sources:,} sources (an address on one day), {volumes.requests:,} requests")
    if not volumes.requests:
        return
    for title, part in (("Requests of sources", 1), ("Sources", 0)):
        whole = (volumes.sources, volumes.requests)[part]
        columns = (">k1 \\ k2", *(f">{k2:,}" for k2 in second), ">above k1")
        table = new_table(*columns, title=f"\n{title} with more than k1 and at most k2", box=None, title_justify="left")
        for k1 in first:
            cells = [volumes.touched(k1, k2)[part] for k2 in second]
            shares = [f"{count / whole:.2%}" if k2 > k1 else "" for count, k2 in zip(cells, second, strict=True)]
            table.add_row(f"{k1:,}", *shares, f"{volumes.behind(k1)[part] / whole:.2%}")
        output.print(table)


@app.command()
def suppression(
    pages: Annotated[int, Option(help="Number of pages of the site.")] = 10_000,
    links: Annotated[int, Option(help="Number of links on each page.")] = 100,
    fixed: Annotated[int, Option(help="Number of links that are the same on every page.")] = 20,
    deviation: Annotated[
        float | None,
        Option(help="Standard deviation of the popularity of links, in pages.", show_default="a third of them"),
    ] = None,
    crews: Annotated[
        str, Option(metavar="N,N,...", help="Numbers of workers whose efficiency is compared.")
    ] = "1,2,5,10,20,50,100",
    first_pages: Annotated[int, Option(help="New pages that one worker finds in the compared time.")] = 100,
    workers: Annotated[int, Option(help="Number of workers that crawl a share of the site.")] = 10,
    fraction: Annotated[
        list[float] | None,
        Option(metavar="SHARE", help="A share of the site; may be repeated.", show_default="0.5 and 0.95"),
    ] = None,
    order: Annotated[Order, Option(help="Order in which a worker tries links.")] = "random",
    memory: Annotated[CrawlMemory, Option(help="Whether workers share their knowledge of visited pages.")] = "crew",
    repeats: Annotated[int, Option(help="Number of repetitions, each on a new site.")] = 20,
    seed: Annotated[int, Option(help="Random seed: the same seed gives the same result.")] = 1,
    plot: Annotated[Path | None, Option(metavar="FILE", help="Draw both figures into an SVG file.")] = None,
    json: JsonFile = None,
) -> None:
    """
    Show what marked links cost a crawler that has not been detected yet.

    A page has another URL for each page that links to it and for each visitor, so a crawler fetches it repeatedly.
    This is PathMarker's experiment (2019, figures 6 and 7); the defaults are those of the paper.
    """
    parameters = Parameters(
        pages=pages, links=links, fixed=fixed, deviation=deviation, crews=_numbers(crews, "--crews"),
        first_pages=first_pages, workers=workers, fractions=tuple(dict.fromkeys(fraction or Parameters().fractions)),
        order=order, memory=memory, repeats=repeats, seed=seed,
    )  # fmt: skip
    if faults := parameters.faults():
        _refuse("; ".join(faults))
    _check_writable("--json", json)
    _check_writable("--plot", str(plot) if plot is not None else None)
    result = _run(parameters)
    if plot is not None:
        from hedgerow.lab.simulate.plot import draw

        write_file(plot, [draw(result)])
    if json is not None:
        write_json(json, result.to_json())
    if json != STANDARD_OUTPUT:
        output = console(_WIDTH)
        output.print(result.parameters.summary, soft_wrap=True)
        _print_efficiency(output, result)
        _print_extra(output, result)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    """
    Return the distinct numbers in *text*.

    >>> _numbers("1,2, 5,2", "--crews")
    (1, 2, 5)
    """
    try:
        return tuple(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError:
        _refuse(f"{option} needs whole numbers separated by commas, such as 1,10,100, not {text!r}")


def _refuse(fault: str) -> NoReturn:
    typer.echo(f"hedgerow: {fault}", err=True)
    raise typer.Exit(WRONG_USE)


def _check_writable(option: str, path: str | None) -> None:
    if path is not None and path != STANDARD_OUTPUT and not is_writable(Path(path)):
        _refuse(f"{path!r} cannot be written; name another file for {option}")


def _run(parameters: Parameters) -> Suppression:
    stderr = Console(stderr=True, highlight=False)
    columns = (TextColumn("Crawling"), BarColumn(), MofNCompleteColumn(), TextColumn("repeats"), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=parameters.repeats)
        try:
            return suppress(parameters, after_each=lambda: progress.advance(task))
        except KeyboardInterrupt:
            progress.stop()
            done = round(progress.tasks[0].completed)
            stderr.print(f"Interrupted after {done:,} of {parameters.repeats:,} repeats; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None


def _print_efficiency(output: Console, result: Suppression) -> None:
    """Print the data of figure 6."""
    first = result.parameters.first_pages
    paper = f" (paper: {_percent(PAPER_WASTE, 1)})" if result.parameters.like_the_paper else ""
    output.print(f"\nOne worker wastes {_share(result.waste, 1)} of its requests on its first {first:,} pages{paper}.")
    table = new_table(">workers", ">new pages per request", "", box=None, padding=(0, 2, 0, 0))
    for crew, estimate in result.efficiency.items():
        bar = "█" * round(estimate.mean * _BAR)
        table.add_row(f"{crew:,}", _share(estimate, 1), f"[green]{bar}[/]")
    output.print(table)


def _print_extra(output: Console, result: Suppression) -> None:
    """Print the data of figure 7."""
    workers, paper = result.parameters.workers, result.parameters.like_the_paper
    crew = "One worker" if workers == 1 else f"{workers:,} workers"
    output.print(f"\n{crew} on marked links, compared with a crawler that recognises pages (one request per page):")
    columns = (">share of the site", ">more requests", ">wasted", *((">paper: more",) if paper else ()))
    table = new_table(*columns, box=None, padding=(0, 2, 0, 0))
    for fraction, estimate in result.extra.items():
        if estimate is None:
            table.add_row(f"{fraction * 100:.4g} %", "never reached")
            continue
        in_paper = _percent(PAPER_EXTRA[fraction]) if fraction in PAPER_EXTRA else ""
        wasted = _percent(estimate.mean / (1 + estimate.mean), 1)
        table.add_row(f"{fraction * 100:.4g} %", _share(estimate, 0), wasted, *((in_paper,) if paper else ()))
    output.print(table)


def _share(estimate: Estimate, digits: int) -> str:
    margin = "" if estimate.margin is None else f" ± {estimate.margin * 100:,.{digits}f}"
    return f"{estimate.mean * 100:,.{digits}f}{margin} %"


def _percent(share: float, digits: int = 0) -> str:
    return f"{share * 100:,.{digits}f} %"

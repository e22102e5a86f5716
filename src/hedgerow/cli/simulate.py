"""
`hedgerow simulate suppression`: what marked links cost a crawler, by PathMarker's experiment; and `hedgerow simulate
containment`: whom PubCrawl's containment would touch.

Progress goes to standard error, and only where that is a terminal; the tables, or the JSON, go to standard output.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hedgerow.cli.interrupt import STATUS as INTERRUPTED
from hedgerow.errors import HedgerowError
from hedgerow.lab.simulate.crawl import CrawlMemory, Order

if TYPE_CHECKING:
    from rich.console import Console

    from hedgerow.lab.simulate.suppression import Estimate, Parameters, Suppression
    from hedgerow.logs.reader import LogReader
    from hedgerow.report.request_volumes import RequestVolumes

STANDARD_OUTPUT = "-"
WRONG_USE = 2

_WIDTH_OF_A_FILE = 100
_BAR = 32
_LINES_BETWEEN = 5_000

app = typer.Typer(help="Experiments: what a measure would cost crawlers, and people.", no_args_is_help=True)


@app.command()
def containment(
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Access logs, a ledger, or - for standard input.")
    ],
    k1: Annotated[
        str, typer.Option(metavar="N,N,...", help="Free requests of a source in a day.")
    ] = "10,15,20,25,50,100",
    k2: Annotated[
        str, typer.Option(metavar="N,N,...", help="Requests from which on the models decide.")
    ] = "100,500,1000,2000,5000,10000",
    pages: Annotated[
        bool, typer.Option("--pages", help="Leave images, styles and scripts out, as containment does.")
    ] = False,
    timezone: Annotated[str, typer.Option(help="Whose midnight it is.")] = "UTC",
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
) -> None:
    """
    Say how many sources and requests of a log containment would touch, for each k1 and k2 (PubCrawl's table 9).

    A source is an address on one day.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from hedgerow.logs.reader import LogReader
    from hedgerow.report.request_volumes import RequestVolumes
    from hedgerow.web.gate import day_of

    first, second = _numbers(k1, "--k1"), _numbers(k2, "--k2")
    json_path = Path(json) if json is not None and json != STANDARD_OUTPUT else None
    _check_writable("--json", json_path)
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        _refuse(f"--timezone: {timezone!r} is none; write it like Europe/Berlin")
    volumes = RequestVolumes(day_of(zone), pages_only=pages)
    _read(LogReader(logs), volumes)
    text = _encoded(volumes.to_json(first, second))
    if json_path is not None:
        _write_text(json_path, text)
    if json == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        _print_touched(volumes, first, second)


def _read(reader: LogReader, volumes: RequestVolumes) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    tally = reader.counts
    columns = (TextColumn("Reading"), BarColumn(), TextColumn("{task.fields[lines]:,} lines"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=tally.bytes_total or None, lines=0)
        for number, visit in enumerate(reader):
            volumes.add(visit)
            if not number % _LINES_BETWEEN:
                progress.update(task, completed=tally.bytes_read, lines=tally.lines)


def _print_touched(volumes: RequestVolumes, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    console.print(f"{volumes.sources:,} sources (an address on one day), {volumes.requests:,} requests")
    if not volumes.requests:
        return
    for title, part in (("Requests of sources", 1), ("Sources", 0)):
        whole = (volumes.sources, volumes.requests)[part]
        table = Table(title=f"\n{title} with more than k1 and at most k2", box=None, title_justify="left")
        table.add_column("k1 \\ k2", justify="right")
        for k2 in second:
            table.add_column(f"{k2:,}", justify="right")
        table.add_column("behind k1", justify="right")
        for k1 in first:
            cells = [volumes.touched(k1, k2)[part] for k2 in second]
            shares = [f"{count / whole:.2%}" if k2 > k1 else "" for count, k2 in zip(cells, second, strict=True)]
            table.add_row(f"{k1:,}", *shares, f"{volumes.behind(k1)[part] / whole:.2%}")
        console.print(table)


@app.command()
def suppression(
    pages: Annotated[int, typer.Option(help="Pages of the site.")] = 10_000,
    links: Annotated[int, typer.Option(help="Links on each page.")] = 100,
    fixed: Annotated[int, typer.Option(help="Of these, the ones that are the same on every page.")] = 20,
    deviation: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the links' popularity, in pages.", show_default="a third of them"),
    ] = None,
    crews: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of workers whose efficiency is compared.")
    ] = "1,2,5,10,20,50,100",
    first_pages: Annotated[int, typer.Option(help="New pages one worker finds in the time that is compared.")] = 100,
    workers: Annotated[int, typer.Option(help="Workers that crawl a share of the site.")] = 10,
    fraction: Annotated[
        list[float] | None,
        typer.Option(metavar="SHARE", help="A share of the site; may be repeated.", show_default="0.5 and 0.95"),
    ] = None,
    order: Annotated[Order, typer.Option(help="Which link a worker tries next.")] = Order.RANDOM,
    memory: Annotated[
        CrawlMemory, typer.Option(help="Who knows which pages were read: all workers, or each for itself.")
    ] = CrawlMemory.CREW,
    repeats: Annotated[int, typer.Option(help="How often everything is repeated, each time on a new site.")] = 20,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 1,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw both figures into an SVG file.")] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
) -> None:
    """
    Say what marked links cost a crawler that nobody has noticed yet.

    A page has another URL for each page that links to it and each visitor, so a crawler fetches it again and again.
    This is PathMarker's experiment (2019, figures 6 and 7); the defaults are the paper's.
    """
    from hedgerow.lab.simulate.suppression import Parameters

    parameters = Parameters(
        pages=pages,
        links=links,
        fixed=fixed,
        deviation=deviation,
        crews=_numbers(crews, "--crews"),
        first_pages=first_pages,
        workers=workers,
        fractions=tuple(dict.fromkeys(fraction or Parameters().fractions)),
        order=order,
        memory=memory,
        repeats=repeats,
        seed=seed,
    )
    if faults := parameters.faults():
        _refuse("; ".join(faults))
    json_path = Path(json) if json is not None and json != STANDARD_OUTPUT else None
    for option, path in (("--json", json_path), ("--plot", plot)):
        _check_writable(option, path)
    result = _run(parameters)
    _write(result, plot=plot, json_path=json_path)
    if json == STANDARD_OUTPUT:
        sys.stdout.write(_json(result))
    else:
        _print(result)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    """
    The numbers in *text*, each once.

    >>> _numbers("1,2, 5,2", "--crews")
    (1, 2, 5)
    """
    try:
        return tuple(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError:
        _refuse(f"{option} are whole numbers with commas between them, such as 1,10,100, not {text!r}")


def _refuse(fault: str) -> NoReturn:
    typer.echo(f"hedgerow: {fault}", err=True)
    raise typer.Exit(WRONG_USE)


def _check_writable(option: str, path: Path | None) -> None:
    """Before a minute of work, not after it."""
    if path is not None and (path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK)):
        _refuse(f"{str(path)!r} cannot be written; name another file for {option}")


def _run(parameters: Parameters) -> Suppression:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from hedgerow.lab.simulate.suppression import suppress

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("Crawling"), BarColumn(), MofNCompleteColumn(), TextColumn("repeats"), TimeRemainingColumn())
    done = 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=parameters.repeats)

        def after_each() -> None:
            nonlocal done
            done += 1
            progress.advance(task)

        try:
            return suppress(parameters, after_each=after_each)
        except KeyboardInterrupt:
            progress.stop()
            console.print(f"Interrupted after {done:,} of {parameters.repeats:,} repeats; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None


def _write(result: Suppression, *, plot: Path | None, json_path: Path | None) -> None:
    from hedgerow.lab.simulate.plot import draw

    for path, text in ((json_path, _json(result)), (plot, draw(result) if plot else "")):
        if path is not None:
            _write_text(path, text)


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HedgerowError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def _json(result: Suppression) -> str:
    return _encoded(result.to_json())


def _encoded(result: dict[str, Any]) -> str:
    import json

    return json.dumps(result, indent=1) + "\n"


def _print(result: Suppression) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    console.print(result.parameters.summary, soft_wrap=True)
    _print_efficiency(console, result)
    _print_extra(console, result)


def _print_efficiency(console: Console, result: Suppression) -> None:
    """Figure 6."""
    from rich.table import Table

    from hedgerow.lab.simulate.suppression import PAPER_WASTE

    first = result.parameters.first_pages
    told = f" (paper: {_percent(PAPER_WASTE, 1)})" if result.parameters.like_the_paper else ""
    console.print(f"\nOne worker wastes {_share(result.waste, 1)} of its requests on its first {first:,} pages{told}.")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("workers", justify="right")
    table.add_column("new pages per request", justify="right")
    table.add_column("")
    for crew, found in result.efficiency.items():
        bar = "█" * round(found.mean * _BAR)
        table.add_row(f"{crew:,}", _share(found, 1), f"[green]{bar}[/]")
    console.print(table)


def _print_extra(console: Console, result: Suppression) -> None:
    """Figure 7."""
    from rich.table import Table

    from hedgerow.lab.simulate.suppression import PAPER_EXTRA

    workers, paper = result.parameters.workers, result.parameters.like_the_paper
    crew = "One worker" if workers == 1 else f"{workers:,} workers"
    console.print(f"\n{crew} against marked links, and a crawler that can tell links apart (one request a page):")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("share of the site", "more requests", "wasted", *(("paper: more",) if paper else ())):
        table.add_column(column, justify="right")
    for fraction, found in result.extra.items():
        if found is None:
            table.add_row(f"{fraction * 100:.4g} %", "never reached")
            continue
        told = _percent(PAPER_EXTRA[fraction]) if fraction in PAPER_EXTRA else ""
        wasted = _percent(found.mean / (1 + found.mean), 1)
        table.add_row(f"{fraction * 100:.4g} %", _share(found, 0), wasted, *((told,) if paper else ()))
    console.print(table)


def _share(found: Estimate, digits: int) -> str:
    """In percent, with its interval."""
    margin = "" if found.margin is None else f" ± {found.margin * 100:,.{digits}f}"
    return f"{found.mean * 100:,.{digits}f}{margin} %"


def _percent(share: float, digits: int = 0) -> str:
    return f"{share * 100:,.{digits}f} %"

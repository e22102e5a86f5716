"""
`hedgerow report LOG...`: who crawls the site, by its access log.

Progress goes to standard error, and only where that is a terminal; the summary, or the JSON, to standard output.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hedgerow.cli.interrupt import STATUS as INTERRUPTED
from hedgerow.cli.interrupt import exit_on_interrupt
from hedgerow.cli.output_files import write_files
from hedgerow.errors import HedgerowError, LogError, SettingsError
from hedgerow.lists.exporter import TARGETS, Target, write
from hedgerow.lists.times import parse_duration
from hedgerow.logs.dialect import Dialect, SourceKey
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import STANDARD_INPUT, ReadCounts
from hedgerow.request.bots import BotProofs
from hedgerow.settings import load_settings
from hedgerow.settings.checks import split_listen
from hedgerow.settings.schema import Settings
from hedgerow.web.bots import build_bots

if TYPE_CHECKING:
    from hedgerow.report.result import Report
    from hedgerow.report.tables.queries import TableStore
    from hedgerow.web.lookups.dns import Resolver

LOCAL, DUCKDB, SPARK = ENGINES = ("local", "duckdb", "spark")
THIS_MACHINE = "local[2]"
MASTERS = ("spark://", "local", "yarn", "k8s://")
STANDARD_OUTPUT = "-"
_WIDTH_OF_A_FILE = 160
_GIGABYTE = 1_000_000_000
_SHARE_OF_TABLES = 0.6


def run(
    logs: list[str],
    *,
    config: Path | None = None,
    json_path: str | None = None,
    html_path: str | None = None,
    ignore_agents: bool = False,
    memory: float = 2.0,
    hosts: list[str] | None = None,
    form: str = "",
    by: str = "",
    model: Path | None = None,
    shape: Path | None = None,
    top: int = 10,
    timing: bool = False,
    exports: list[str] | None = None,
    apply: bool = False,
    length: str = "7d",
    sure: float = 0.9,
    resolve: bool = False,
    engine: str = LOCAL,
    master: str = "",
) -> None:
    """Report on *logs*; see the command's help for the rest."""
    with exit_on_interrupt():
        try:
            from hedgerow.report.pipeline import Options, make
            from hedgerow.report.tables.jit import is_first
            from hedgerow.report.tables.source_tables import Tables
            from hedgerow.report.terminal import print_report
        except ImportError as error:
            raise HedgerowError(f"reports need {error.name}; install hedgerow[report]") from None
        _check_engine(engine, master)
        settings = load_settings(config)
        dialect = Dialect(form or settings.logs.format, settings.logs.fields, _by(by) or settings.logs.by, cookies=True)
        try:
            dialect.check()
        except LogError as error:
            raise SettingsError([f"--format or [logs]: {error}"]) from None
        targets = [_target(one) for one in exports or []]
        seconds = _seconds(length)
        aloud = _check_writable([json_path, html_path, *(path for _, path in targets)])
        proofs = BotProofs()
        options = Options(
            ignore_agents=ignore_agents,
            model=model,
            shape=shape,
            resolve=proofs if resolve else None,
            resolver=_resolver(settings.bots.resolver) if resolve else None,
            settings=settings,
            told=json_path is not None,
        )
    began, written = time.perf_counter(), False
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    if is_first() and sys.stderr.isatty():
        Console(stderr=True).print("The first report compiles its functions, which takes half a minute or so, once.")
    try:
        with (
            _without_collecting(),
            _interruptible() as heed,
            _progress() as progress,
            Tables(
                _expanded(logs),
                memory=int(memory * _GIGABYTE * _SHARE_OF_TABLES),
                hosts=hosts or (),
                progress=progress,
                dialect=dialect,
                store=_store(engine, master, int(memory * _GIGABYTE * _SHARE_OF_TABLES)),
                hide_agents=ignore_agents,
            ) as tables,
        ):
            heed()
            read = time.perf_counter() - began
            report = make(tables, build_bots(settings, proofs), options)
            report.timing = {"read": read} | report.timing
            heed()
            _write_all(report, json_path, html_path, targets, sure=sure, timing=timing)
            written = True
            if aloud:
                print_report(console, report, top=top)
            if apply:
                taken = _apply(report, settings, seconds, sure)
                Console(stderr=True).print(f"{taken:,} crawlers are on the black list for {length}")
    except KeyboardInterrupt:
        told = "the files that were asked for are there" if written else "nothing was written"
        Console(stderr=True).print(f"Interrupted; {told}.")
        raise typer.Exit(INTERRUPTED) from None
    took = time.perf_counter() - began
    if timing and aloud:
        stages = ", ".join(f"{name} {part:,.1f}" for name, part in report.timing.items())
        console.print(f"{took:,.1f} s ({stages}), {report.tally.lines / took:,.0f} lines/s")


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Nothing that a report makes goes round in circles; to look for such in millions of things takes a tenth of it."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """
    Ctrl-C ends what is done here, and so does who is told to stop: either leaves as little behind.

    A library that imports another in passing takes an interruption for a module that is not there, and goes on. So it
    is remembered: what is given raises it again, and whatever goes wrong after it went wrong because of it.
    """
    told = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal told
        told = True
        raise KeyboardInterrupt

    def heed() -> None:
        if told:
            raise KeyboardInterrupt

    minded = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in minded}
    try:
        yield heed
    except Exception:
        heed()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_engine(engine: str, master: str) -> None:
    if engine not in ENGINES:
        raise SettingsError([f"--engine is one of {', '.join(ENGINES)}; not {readable(engine)!r}"])
    if master and engine != SPARK:
        raise SettingsError(["--master is for --engine spark"])
    if master and not master.startswith(MASTERS):
        raise SettingsError(
            [f"--master is such as spark://host:7077, local[2], yarn or k8s://host; not {readable(master)!r}"]
        )


def _by(text: str) -> SourceKey | None:
    """What is to be a source; None where nobody has said."""
    if text and text not in get_args(SourceKey):
        raise SettingsError([f"--by is one of {', '.join(get_args(SourceKey))}; not {readable(text)!r}"])
    return cast("SourceKey", text) if text else None


def _resolver(server: str) -> Resolver:
    """Who asks the DNS: the name server of the settings, or the machine's own."""
    from hedgerow.web.lookups.dns import DnsResolver

    return DnsResolver(split_listen(server) if server else None)


def _store(engine: str, master: str, memory: int) -> TableStore | None:
    """What holds the rows; None where that is as usual."""
    if engine == DUCKDB:
        try:
            from hedgerow.report.tables.duckdb_store import DuckdbStore
        except ImportError as error:
            raise HedgerowError(f"--engine duckdb needs {error.name}; install hedgerow[report]") from None
        return DuckdbStore(memory=memory)
    if engine == SPARK:
        try:
            from hedgerow.report.tables.spark_store import SparkStore
        except ImportError:
            raise HedgerowError("--engine spark needs pyspark; install hedgerow[spark]") from None
        return SparkStore(master or THIS_MACHINE, memory=memory)
    return None


def _write_all(
    report: Report,
    json_path: str | None,
    html_path: str | None,
    targets: list[tuple[Target, str]],
    *,
    sure: float,
    timing: bool,
) -> None:
    """
    The files that were asked for, all or none.

    Lists say the log's own end as their time: the same log gives the same bytes.
    """
    from hedgerow.report.blocklist import listings

    files: list[tuple[str, Iterator[str]]] = []
    if json_path is not None:
        files.append((json_path, report.to_json(timing=timing)))
    if html_path is not None:
        from hedgerow.report.html.page import page

        files.append((html_path, page(report)))
    at = report.tally.last or 0.0
    for target, path in targets:
        files.append((path, write(target, listings(report, since=at, until=0.0, sure=sure), at=at)))
    for pieces in (pieces for path, pieces in files if path == STANDARD_OUTPUT):
        sys.stdout.writelines(pieces)
    write_files([(Path(path), pieces) for path, pieces in files if path != STANDARD_OUTPUT])


def _apply(report: Report, settings: Settings, seconds: float, sure: float) -> int:
    """Put the crawlers on the black list of the running Hedgerow; how many."""
    from hedgerow.report.blocklist import AUTHOR, listings
    from hedgerow.web.stores import build_list_store

    now = time.time()
    entries = listings(report, since=now, until=now + seconds, sure=sure)
    return build_list_store(settings).put(entries, replacing=AUTHOR)


def _target(text: str) -> tuple[Target, str]:
    name, separator, path = text.partition("=")
    target = next((one for one in TARGETS if one == name), None)
    if target is None or not separator or not path:
        raise SettingsError([f"--export wants FORMAT=FILE, with one of {', '.join(TARGETS)}; not {readable(text)!r}"])
    return target, path


def _seconds(length: str) -> float:
    try:
        seconds = parse_duration(length)
    except ValueError as error:
        raise SettingsError([readable(str(error))]) from None
    if seconds <= 0:
        raise SettingsError([f"--for wants a length of time such as 7d, not {readable(length)!r}"])
    return seconds


def _expanded(logs: list[str]) -> list[str]:
    """The files that are meant, each once: patterns that the shell left as they are become files."""
    paths: dict[str, str] = {}
    for log in logs:
        found = sorted(glob(log)) if log != STANDARD_INPUT and not os.path.exists(log) else []  # noqa: PTH110, PTH207
        for path in found or [log]:
            paths.setdefault(os.path.realpath(path) if os.path.exists(path) else path, path)  # noqa: PTH110
    return list(paths.values())


@contextmanager
def _progress() -> Iterator[Callable[[ReadCounts], None]]:
    console = Console(stderr=True)
    columns = (
        TextColumn("Reading"),
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TextColumn("{task.fields[rate]:,.0f} lines/s"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None, lines=0, rate=0.0)

        def show(tally: ReadCounts) -> None:
            rate = tally.lines / (time.monotonic() - began)
            progress.update(
                task, completed=tally.bytes_read, total=tally.bytes_total or None, lines=tally.lines, rate=rate
            )

        yield show


def _check_writable(paths: list[str | None]) -> bool:
    """
    Whether standard output is left for the summary.

    Complains before an hour of work, not after it.
    """
    for path in paths:
        if path is None or path == STANDARD_OUTPUT:
            continue
        target = Path(path)
        if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
            raise HedgerowError(f"{readable(path)}: cannot be written; name another file")
    if paths.count(STANDARD_OUTPUT) > 1:
        raise SettingsError(["only one thing can be written to standard output; name a file for the others"])
    return STANDARD_OUTPUT not in paths

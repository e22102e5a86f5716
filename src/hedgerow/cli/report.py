"""
`hedgerow report LOG...`: find the crawlers in access logs.

Progress goes to standard error if it is a terminal. The summary or the JSON goes to standard output.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from rich.console import Console
from typer import Argument, Option

from hedgerow.cli.follow import check_followed, follow_log
from hedgerow.cli.main import Config, JsonFile
from hedgerow.cli.output import console, progress_bar
from hedgerow.cli.report_files import OutputFiles, apply_to_black_list, parse_target
from hedgerow.cli.service import find_site
from hedgerow.cli.start import STATUS as INTERRUPTED
from hedgerow.cli.start import exit_on_interrupt
from hedgerow.errors import HedgerowError, LogError, SettingsError
from hedgerow.lists.times import parse_duration
from hedgerow.logs.dialect import Dialect, SourceKey
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import STANDARD_INPUT, ReadCounts
from hedgerow.request.bots import BotProofs
from hedgerow.settings import load_settings
from hedgerow.settings.checks import split_listen
from hedgerow.settings.load import Settings
from hedgerow.web.bots import build_bots

if TYPE_CHECKING:
    from hedgerow.report.result import Report
    from hedgerow.report.tables.queries import TableStore
    from hedgerow.web.lookups.dns import Resolver

LOCAL, SPARK = ENGINES = ("local", "spark")
DEPRECATED_ENGINES = {"duckdb": LOCAL}
THIS_MACHINE = "local[2]"
MASTERS = ("spark://", "local", "yarn", "k8s://")
_GIGABYTE = 1_000_000_000
_SHARE_OF_TABLES = 0.6
_LONGEST_SAMPLE = 80


def run(
    logs: Annotated[
        list[str],
        Argument(
            metavar="LOG...", help="Access logs, a ledger (also postgresql://...), patterns, or - for standard input."
        ),
    ],
    config: Config = None,
    json_path: JsonFile = None,
    html_path: Annotated[
        str | None,
        Option("--html", metavar="FILE", help="Write an HTML page with plots and tables; it needs no network."),
    ] = None,
    ignore_agents: Annotated[bool, Option("--ignore-user-agent", help="Hide user agents from every detector.")] = False,
    memory: Annotated[float, Option(min=0.5, metavar="GB", help="Memory limit.")] = 2.0,
    hosts: Annotated[
        list[str] | None, Option("--host", metavar="NAME", help="Host of the site; default: found in the log.")
    ] = None,
    form: Annotated[
        str, Option("--format", metavar="FORMAT", help="The server's log_format or LogFormat, or a format's name.")
    ] = "",
    by: Annotated[
        str,
        Option(
            metavar="KIND",
            help="What a source is: visitor (known account, otherwise prefix), address, prefix (IPv4 address, IPv6 "
            "/64), network (/24, /48), or the account or session in the log.",
        ),
    ] = "",
    model: Annotated[
        Path | None, Option(metavar="FILE", help="Thresholds and weights, from hedgerow train heuristics.")
    ] = None,
    shape: Annotated[
        Path | None, Option(metavar="FILE", help="Traffic-shape models, from hedgerow train shape.")
    ] = None,
    method: Annotated[
        str,
        Option(
            metavar="NAME",
            help="How sources are judged: hedgerow, or pubcrawl (the pipeline of the paper, without our additions).",
        ),
    ] = "hedgerow",
    top: Annotated[int, Option(min=0, help="Number of crawlers to show.")] = 10,
    exports: Annotated[
        list[str] | None,
        Option(
            "--export", metavar="FORMAT=FILE", help="Write the crawlers as a list; formats as in hedgerow lists export."
        ),
    ] = None,
    apply: Annotated[
        bool, Option("--apply", help="Put the crawlers on the black list of the running Hedgerow.")
    ] = False,
    length: Annotated[str, Option("--for", metavar="7d", help="Duration of the entries.")] = "7d",
    min_score: Annotated[float, Option("--sure", min=0.0, max=1.0, help="Minimum score of a listed crawler.")] = 0.9,
    resolve: Annotated[bool, Option("--resolve", help="Verify bots by DNS lookups of their addresses.")] = False,
    engine: Annotated[
        str, Option(metavar="NAME", help="Where the log is analysed: local (this machine) or spark.")
    ] = LOCAL,
    master: Annotated[
        str, Option(metavar="URL", help="Spark's master, such as spark://host:7077; default: this machine.")
    ] = "",
    follow: Annotated[
        bool,
        Option("--follow", help="Keep the summary and the files up to date while the log grows, until Ctrl-C."),
    ] = False,
    every: Annotated[
        float, Option(min=1.0, metavar="SECONDS", help="Seconds between two reports, with --follow.")
    ] = 5.0,
    timing: Annotated[bool, Option("--timing", help="Print the time of each stage; it is also in the JSON.")] = False,
) -> None:
    # Matrices are small here, so threads would mostly wait for each other. This must be set before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with exit_on_interrupt():
        try:
            from hedgerow.report.pipeline import METHODS, Options, make
            from hedgerow.report.tables.source_tables import Tables
            from hedgerow.report.terminal import print_report
        except ImportError as error:
            raise HedgerowError(f"reports need {error.name}; install hedgerow[report]") from None
        engine = _engine(engine, master)
        _check_method(method, METHODS)
        settings = load_settings(config)
        # Before the logs are read: it may be refused.
        site = find_site(config, place="lists") if apply else settings
        files = OutputFiles(
            json_path, html_path, tuple(map(parse_target, exports or [])), min_score, timing,
            math.ceil(every) if follow else 0,
        )  # fmt: skip
        seconds = _seconds(length)
        print_summary = files.check_writable()
        proofs = BotProofs()
        options = Options(
            ignore_agents=ignore_agents, model=model, shape=shape, resolve=proofs if resolve else None,
            resolver=_resolver(settings.bots.resolver) if resolve else None, settings=settings,
            method=method,
        )  # fmt: skip
        read = partial(
            Tables, memory=int(memory * _GIGABYTE * _SHARE_OF_TABLES), hosts=hosts or (),
            dialect=_dialect(form, by, settings), hide_agents=ignore_agents,
        )  # fmt: skip
    if follow:
        check_followed(logs, apply=apply, engine=engine, printed=print_summary)
        bots = build_bots(settings, proofs)
        with _interruptible():
            follow_log(
                logs[0], read, lambda tables: make(tables, bots, options), partial(print_report, top=top), files.write,
                every=every,
            )  # fmt: skip
        return
    started, written = time.perf_counter(), False
    output = console()
    if sys.stderr.isatty():
        _show_messages()
    try:
        with (
            _without_garbage_collection(),
            _interruptible() as raise_if_interrupted,
            progress_bar("Reading") as show_progress,
            read(
                _expanded(logs),
                progress=lambda counts: show_progress(counts.bytes_read, counts.bytes_total, counts.lines),
                store=_store(engine, master, int(memory * _GIGABYTE * _SHARE_OF_TABLES)),
            ) as tables,
        ):
            raise_if_interrupted()
            _check_read(logs, tables.read_counts)
            reading = time.perf_counter() - started
            report = make(tables, build_bots(settings, proofs), options)
            report.timing = {"read": reading} | report.timing
            raise_if_interrupted()
            files.write(report)
            written = True
            if print_summary:
                print_report(output, report, top=top)
            if apply:
                count = apply_to_black_list(report, site, seconds, min_score)
                Console(stderr=True).print(f"{count:,} crawlers are on the black list for {length}")
    except KeyboardInterrupt:
        state = "all output files are complete" if written else "nothing was written"
        Console(stderr=True).print(f"Interrupted; {state}.")
        raise typer.Exit(INTERRUPTED) from None
    if timing and print_summary:
        _print_timing(output, report, time.perf_counter() - started)


def _print_timing(output: Console, report: Report, elapsed: float) -> None:
    stages = ", ".join(f"{name} {part:,.1f}" for name, part in report.timing.items())
    output.print(f"{elapsed:,.1f} s ({stages}), {report.read_counts.lines / elapsed:,.0f} lines/s")


def _check_method(method: str, methods: Sequence[str]) -> None:
    if method not in methods:
        raise SettingsError([f"--method is one of {', '.join(methods)}; not {readable(method)!r}"])


def _dialect(form: str, by: str, settings: Settings) -> Dialect:
    """Return the dialect of the options and settings; SettingsError if it is none."""
    dialect = Dialect(form or settings.logs.format, settings.logs.fields, _by(by) or settings.logs.by, cookies=True)
    try:
        dialect.check()
    except LogError as error:
        raise SettingsError([f"--format or [logs]: {error}"]) from None
    return dialect


def _check_read(logs: list[str], counts: ReadCounts) -> None:
    """Raise LogError if nothing could be read, with what was seen and what to do."""
    if counts.parsed:
        return
    from hedgerow.report.result import advice_on

    names = ", ".join(map(readable, logs))
    if not counts.lines:
        raise LogError(f"{names}: nothing to read, there is no line in it; name a log that has requests")
    first = f"{counts.samples[0][:_LONGEST_SAMPLE]!r}" if counts.samples[0] else "empty"
    many = "its only line" if counts.lines == 1 else f"any of its {counts.lines:,} lines"
    raise LogError(f"{names}: cannot read {many}; the first is {first}. {advice_on(counts)}")


def _show_messages() -> None:
    """Show what the report logs on standard error, a line each."""
    logger = logging.getLogger("hedgerow.report")
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off: a report makes no reference cycles, and a search takes a tenth of its time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # The process is about to end; what is left needs no search for cycles either.
        gc.freeze()
        if before:
            gc.enable()


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """
    End the block with KeyboardInterrupt on SIGINT and SIGTERM, so that both clean up. Yields a function to call in
    between.

    Some libraries import optional modules and take an interruption for a missing module. So the signal is remembered:
    the yielded function raises it again, and any later error counts as its consequence.
    """
    interrupted = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def raise_if_interrupted() -> None:
        if interrupted:
            raise KeyboardInterrupt

    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    handlers = {number: signal.signal(number, stop) for number in handled}
    try:
        yield raise_if_interrupted
    except Exception:
        raise_if_interrupted()
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _engine(engine: str, master: str) -> str:
    """The engine that *engine* names, which may be one that has been replaced; SettingsError where there is none."""
    if engine in DEPRECATED_ENGINES:
        instead = DEPRECATED_ENGINES[engine]
        Console(stderr=True).print(f"--engine {engine} is deprecated: --engine {instead} is used.", soft_wrap=True)
        engine = instead
    if engine not in ENGINES:
        raise SettingsError([f"--engine is one of {', '.join(ENGINES)}; not {readable(engine)!r}"])
    if master and engine != SPARK:
        raise SettingsError(["--master is for --engine spark"])
    if master and not master.startswith(MASTERS):
        raise SettingsError(
            [f"--master is such as spark://host:7077, local[2], yarn or k8s://host; not {readable(master)!r}"]
        )
    return engine


def _by(text: str) -> SourceKey | None:
    """Return the kind of sources; None if the option is not given."""
    if text and text not in get_args(SourceKey):
        raise SettingsError([f"--by is one of {', '.join(get_args(SourceKey))}; not {readable(text)!r}"])
    return cast("SourceKey", text) if text else None


def _resolver(server: str) -> Resolver:
    """Return a DNS resolver with the name server of the settings, or of the machine."""
    from hedgerow.web.lookups.dns import DnsResolver

    return DnsResolver(split_listen(server) if server else None)


def _store(engine: str, master: str, memory: int) -> TableStore | None:
    """Return the store of the engine; None for the default."""
    if engine == SPARK:
        try:
            from hedgerow.report.tables.spark_store import SparkStore
        except ImportError:
            raise HedgerowError("--engine spark needs pyspark; install hedgerow[spark]") from None
        return SparkStore(master or THIS_MACHINE, memory=memory)
    return None


def _seconds(length: str) -> float:
    try:
        seconds = parse_duration(length)
    except ValueError as error:
        raise SettingsError([readable(str(error))]) from None
    if seconds <= 0:
        raise SettingsError([f"--for needs a duration such as 7d, not {readable(length)!r}"])
    return seconds


def _expanded(logs: list[str]) -> list[str]:
    """Return the named files, each once. Patterns that the shell did not expand are expanded here."""
    paths: dict[str, str] = {}
    for log in logs:
        matches = sorted(glob(log)) if log != STANDARD_INPUT and not os.path.exists(log) else []  # noqa: PTH110, PTH207
        for path in matches or [log]:
            paths.setdefault(os.path.realpath(path) if os.path.exists(path) else path, path)  # noqa: PTH110
    return list(paths.values())

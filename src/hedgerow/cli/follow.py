"""`hedgerow report --follow LOG`: the report of a growing log, in the terminal and as files, until it is stopped."""

from __future__ import annotations

import io
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hedgerow.cli.output import console
from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.errors import SettingsError
from hedgerow.logs.follow import FollowedLog
from hedgerow.logs.reader import STANDARD_INPUT

if TYPE_CHECKING:
    from hedgerow.report.result import Report
    from hedgerow.report.tables.source_tables import Tables

_PART_OF_TIME = 4
"""Reports take at most a fifth of the time: after each there is a pause of so many times its duration."""

_LOOK_EVERY = 0.5


def follow_log(
    path: str,
    read: Callable[[list[str]], Tables],
    judge: Callable[[Tables], Report],
    show: Callable[[Console, Report], None],
    write: Callable[[Report], None],
    *,
    every: float,
) -> None:
    """
    Judge the log at *path* every so many seconds if it has grown, until KeyboardInterrupt.

    *read* reads files, *judge* makes a report, *write* replaces the output files, *show* prints a summary. On a
    terminal each summary replaces the one before; elsewhere there is a line for each report.
    """
    output = console()
    live = Live(Text("Waiting for the first lines ..."), console=output, auto_refresh=False)

    def once() -> None:
        with read([str(log.kept)]) as tables:
            if not tables.read_counts.parsed:
                return
            report = judge(tables)
            write(report)
            if output.is_terminal:
                live.update(_as_text(output, report, show, whole=not log.dropped), refresh=True)
            else:
                output.print(_line(report), soft_wrap=True)
                sys.stdout.flush()

    with FollowedLog(path) as log, live if output.is_terminal else nullcontext(), suppress(KeyboardInterrupt):
        _loop(log, once, every, _remembered_signals())
    Console(stderr=True).print("Stopped.")


def _remembered_signals() -> Event:
    """
    Return what is set when Ctrl-C or SIGTERM comes, besides the exception that follows.

    Python loses an exception that is raised while an object is deleted. Then the next look at this ends the command.
    """
    stopped = Event()

    def remember(number: signal.Signals) -> None:
        usual = signal.getsignal(number)

        def handle(given: int, frame: FrameType | None) -> None:
            stopped.set()
            if callable(usual):
                usual(given, frame)

        signal.signal(number, handle)

    for number in (signal.SIGINT, signal.SIGTERM):
        remember(number)
    return stopped


def _loop(log: FollowedLog, once: Callable[[], None], every: float, stopped: Event) -> None:
    due = 0.0
    new = False
    while not stopped.is_set():
        new |= log.catch_up()
        now = time.monotonic()
        if new and now >= due:
            once()
            took = time.monotonic() - now
            due, new = now + took + max(every, _PART_OF_TIME * took), False
        time.sleep(_LOOK_EVERY)


def _as_text(output: Console, report: Report, show: Callable[[Console, Report], None], *, whole: bool) -> Text:
    """Return the summary as one text, no higher than the terminal."""
    buffer = io.StringIO()
    paper = Console(file=buffer, width=output.width, force_terminal=True, highlight=False, color_system="standard")
    show(paper, report)
    lines = buffer.getvalue().rstrip("\n").split("\n")[: max(output.height - 2, 5)]
    what = "the whole log" if whole else "the newest part of the log"
    lines.append(f"Following {what}; updated {time.strftime('%H:%M:%S')}. Ctrl-C ends it.")
    return Text.from_ansi("\n".join(lines))


def _line(report: Report) -> str:
    totals = report.totals()
    requests = max(1, sum(count for _, count in totals.values()))
    sources, made = totals["crawler"]
    return (
        f"{time.strftime('%H:%M:%S')} {report.read_counts.lines:,} lines; {sources:,} crawlers made "
        f"{made / requests:.1%} of the requests".replace("%", " %")
    )


def check_followed(logs: list[str], *, apply: bool, engine: str, printed: bool) -> None:
    """Raise SettingsError if these cannot be followed."""
    if len(logs) != 1 or logs[0] == STANDARD_INPUT or logs[0].startswith(POSTGRESQL_SCHEMES):
        raise SettingsError(["--follow needs one log, which is a file"])
    if apply or engine != "local" or not printed:
        raise SettingsError(["--follow cannot be combined with --apply, --engine spark, or a file on standard output"])

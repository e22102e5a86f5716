"""Output of commands: the terminal, progress bars, and files that are written completely or not at all."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hedgerow.core.visit import Visit
from hedgerow.errors import HedgerowError
from hedgerow.logs.formats import readable
from hedgerow.logs.reader import LogReader

STANDARD_OUTPUT = "-"

_SHOW_EVERY = 0.2
_VISITS_PER_CHECK = 500


def console(width: int = 160, *, markup: bool = True) -> Console:
    """Return a console for standard output that is as wide as the terminal, or *width* for a file."""
    return Console(width=None if sys.stdout.isatty() else width, highlight=False, markup=markup)


def new_table(*columns: str, **options: Any) -> Table:
    """Return a table in which long cells are folded; a column called ">name" is aligned to the right."""
    table = Table(**options)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        table.add_column(column.removeprefix(">"), justify=justify, overflow="fold")
    return table


@contextmanager
def progress_bar(label: str, unit: str = "lines") -> Iterator[Callable[[int, int, int], None]]:
    """Show a progress bar on standard error if it is a terminal. Yields `show(bytes_read, bytes_total, count)`."""
    stderr = Console(stderr=True)
    columns = (
        TextColumn(label),
        BarColumn(),
        TextColumn("{task.fields[count]:,} " + unit),
        TextColumn("{task.fields[rate]:,.0f} " + unit + "/s"),
        TimeRemainingColumn(),
    )
    started = shown = time.monotonic()
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=None, count=0, rate=0.0)

        def show(bytes_read: int, bytes_total: int, count: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown > _SHOW_EVERY:
                shown = now
                rate = count / (now - started)
                progress.update(task, completed=bytes_read, total=bytes_total or None, count=count, rate=rate)

        yield show


def visits_with_progress(reader: LogReader, label: str = "Reading") -> Generator[Visit, None, None]:
    """Yield the visits of *reader* and show a progress bar."""
    counts = reader.counts
    with progress_bar(label) as show:
        for number, visit in enumerate(reader):
            if number % _VISITS_PER_CHECK == 0:
                show(counts.bytes_read, counts.bytes_total, counts.lines)
            yield visit


def format_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def is_writable(path: Path) -> bool:
    """Return whether *path* can be written, so that a command fails before an hour of work, not after it."""
    return not path.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK)


def print_json(data: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(data)).decode() + "\n")


def write_json(path: str, data: Any) -> None:
    """Write *data* to a file or to standard output."""
    text = json.dumps(data, indent=1) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write_file(Path(path), [text])


def write_file(path: Path, parts: Iterable[str]) -> None:
    """Replace a file atomically. A device or a pipe, such as /dev/null, is written to directly."""
    write_files([(path, parts)])


def write_files(files: Iterable[tuple[Path, Iterable[str]]]) -> None:
    """Replace several files: if one of them fails, none is replaced."""
    written: list[tuple[Path, Path]] = []
    try:
        for path, parts in files:
            _write_temporary(path, parts, written)
        with _signals_ignored():
            for temporary, path in written:
                temporary.replace(path)
    except OSError as error:
        raise HedgerowError(f"{readable(str(path))}: cannot be written: {error.strerror}") from None
    finally:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)


def _write_temporary(path: Path, parts: Iterable[str], written: list[tuple[Path, Path]]) -> None:
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as file:
            file.writelines(parts)
        return
    path = path.resolve()
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    written.append((temporary, path))
    with temporary.open("x", encoding="utf-8") as file:
        file.writelines(parts)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM in the main thread, which is the only one that gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

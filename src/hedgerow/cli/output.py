"""Files that a command writes: the whole or nothing."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hedgerow.errors import HedgerowError
from hedgerow.logs.formats import readable


def write_file(path: Path, pieces: Iterable[str]) -> None:
    """
    In one step: whoever reads the file sees all of the old or all of the new, and what is half done has another name.

    A device or a pipe, such as /dev/null, is written to as it is: nothing may take its place.
    """
    write_files([(path, pieces)])


def write_files(files: Iterable[tuple[Path, Iterable[str]]]) -> None:
    """The same with several: all of them are there, or none."""
    beside: list[tuple[Path, Path]] = []
    try:
        for path, pieces in files:
            _write_beside(path, pieces, beside)
        # Whoever interrupts now comes too late.
        with _undisturbed():
            for made, path in beside:
                made.replace(path)
    except OSError as error:
        raise HedgerowError(f"{readable(str(path))}: cannot be written: {error.strerror}") from None
    finally:
        for made, _ in beside:
            made.unlink(missing_ok=True)


def _write_beside(path: Path, pieces: Iterable[str], beside: list[tuple[Path, Path]]) -> None:
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        return
    path = path.resolve()
    made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    beside.append((made, path))
    with made.open("x", encoding="utf-8") as file:
        file.writelines(pieces)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without signals that end the program, where they come here at all: to the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""
Files of Hedgerow that cannot be read: they are set aside, with one line in the log, and the site goes on without them.

A file is renamed to `NAME.corrupt-TIME`, so that nothing is lost that could still be recovered. Only what serves a site
does so. A command that an operator runs beside it reports the fault: the running process may have the file open.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from hedgerow.errors import StoreError

log = logging.getLogger(__name__)

# What SQLite writes next to a file.
_COMPANIONS = ("-wal", "-shm", "-journal")


_only_reports: ContextVar[bool] = ContextVar("only_reports", default=False)


@contextmanager
def reporting_only(only: bool = True) -> Iterator[None]:
    """Within this context, in this thread, corrupt files are errors and stay where they are; not if *only* is false."""
    before = _only_reports.set(only)
    try:
        yield
    finally:
        _only_reports.reset(before)


def set_aside(path: Path, description: str, reason: object) -> None:
    """Rename the corrupt file *path*, which is *description*. StoreError if that is not possible, or not to be done."""
    if _only_reports.get():
        raise StoreError(f"{description} {path} is corrupt: {reason}; Hedgerow sets it aside when it starts")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    new_name, number = f"{path.name}.corrupt-{stamp}", 1
    while path.with_name(new_name).exists():
        number += 1
        new_name = f"{path.name}.corrupt-{stamp}-{number}"
    try:
        path.rename(path.with_name(new_name))
    except FileNotFoundError:
        # Another process was faster.
        return
    except OSError as error:
        raise StoreError(f"{description} {path} is corrupt and cannot be set aside: {error.strerror}") from None
    for companion in _COMPANIONS:
        with suppress(OSError):
            path.with_name(path.name + companion).rename(path.with_name(new_name + companion))
    log.error("%s %s is corrupt (%s): it is now %s, and a new one is started", description, path, reason, new_name)


_thread = threading.local()


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Exclude others that set files in *directory* aside: they must not rename the new file. May be nested."""
    if getattr(_thread, "is_alone", False):
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _thread.is_alone = True
        yield
    finally:
        _thread.is_alone = False
        os.close(descriptor)

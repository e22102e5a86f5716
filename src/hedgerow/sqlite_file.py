"""SQLite files that several processes share: opening, and transactions."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hedgerow.errors import StoreError


def open_database(
    path: Path, schema: str, *, name: str = "", timeout: float = 10.0, synchronous: str = "NORMAL", mode: int = 0o777
) -> sqlite3.Connection:
    """
    Open the file *path* in WAL mode. If it does not exist, create it, readable by its owner only.

    *name* describes the file in error messages. *mode* is that of a new directory.
    """
    try:
        path.parent.mkdir(mode=mode, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.executescript(schema)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {name}{path}: {error}") from None
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in a transaction that excludes other writers, and undo it if the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise

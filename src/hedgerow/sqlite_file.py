"""SQLite files that several processes share: opening, and transactions."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hedgerow.corrupt_files import one_at_a_time, set_aside
from hedgerow.errors import StoreError
from hedgerow.file_owner import create_private_file, make_directory

_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_MAGIC = b"SQLite format 3\0"


def is_corrupt(error: BaseException) -> bool:
    """Return whether SQLite says that the file is corrupt, and not for example that it is locked."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _CORRUPT


def open_database(
    path: Path,
    schema: str,
    *,
    name: str = "the file",
    timeout: float = 10.0,
    synchronous: str = "NORMAL",
    mode: int = 0o777,
    check: bool = False,
) -> sqlite3.Connection:
    """
    Open the file *path* in WAL mode. If it does not exist, create it for the owner of its directory only.

    *name* says in messages what the file is. *mode* is that of a new directory. A corrupt file is set aside, and a new
    one is created; with *check* the whole file is looked at. A file of another program is left alone.
    """
    try:
        make_directory(path.parent, mode)
        try:
            return _opened(path, schema, timeout, synchronous, check=check)
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise
        with one_at_a_time(path.parent):
            # Another process may have replaced it meanwhile.
            try:
                return _opened(path, schema, timeout, synchronous, check=check)
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                set_database_aside(path, name, error)
            return _opened(path, schema, timeout, synchronous, check=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {name} {path}: {error}") from None


def is_own_file(path: Path) -> bool:
    """Return whether a file may be a database of ours, even a corrupt one. An empty file becomes one."""
    with path.open("rb") as file:
        return path.suffix == ".sqlite" or file.read(len(_MAGIC)) in {_MAGIC, b""}


def set_database_aside(path: Path, name: str, error: BaseException) -> None:
    """Set a corrupt file aside, if it is one of ours: a wrong path in the settings must not move another program's."""
    if not is_own_file(path):
        raise StoreError(f"{name} cannot be in {path}, which is a file of something else; set another path")
    set_aside(path, name, error)


def _check(connection: sqlite3.Connection) -> None:
    """Look at all pages of a file; raise what SQLite would raise where it comes across a corrupt one."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        error = sqlite3.DatabaseError(" ".join(found.split()))
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _opened(path: Path, schema: str, timeout: float, synchronous: str, *, check: bool) -> sqlite3.Connection:
    create_private_file(path)
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.executescript(schema)
        if check:
            _check(connection)
    except BaseException:
        connection.close()
        raise
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

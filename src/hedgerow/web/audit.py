"""
The audit log: who changed what, when and from where. A small SQLite file in the state directory.

Entries are added by the dashboard, the API and the commands. Nothing changes one, and they are removed when they are
older than the settings say.
"""

from __future__ import annotations

import getpass
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from hedgerow.errors import StoreError
from hedgerow.settings import Settings
from hedgerow.sqlite_file import open_database
from hedgerow.web.paths import state_directory

log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, source TEXT NOT NULL, change TEXT NOT NULL,
    subject TEXT NOT NULL, details TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_at ON audit (at);
"""
_COLUMNS = "at, who, source, change, subject, details"
_TEXTS = ("who", "source", "change", "subject", "details")
_MAX_TEXT = 2000
_DAY = 86_400.0
COMPLAINTS = ("complaint.let-in", "visitor.forgive", "visitors.forgive")
"""Changes by which an operator let one visitor in: by a reference, on its page, and by the command or the old form."""


class AuditEntry(msgspec.Struct, frozen=True):
    """
    A change. *who* is a user, a token, or the user of the machine who ran a command. *source* is the address of who
    made it, or `command line`; *change* such as `visitors.forgive`; *details* a sentence about what was done.

    A command that asks the service is in the log as `ann, token (operator)` from an address. One that uses the files
    itself is there as `ann` from the `command line`.
    """

    at: float
    who: str
    source: str
    change: str
    subject: str
    details: str = ""


class AuditLog:
    """The audit log of a site."""

    def __init__(self, settings: Settings) -> None:
        self.path = audit_path(settings)
        self._keep = settings.privacy.audit_days * _DAY

    def add(self, who: str, source: str, change: str, subject: str, details: str = "") -> None:
        texts = (_clean(text) for text in (who, source, change, subject, details))
        now = time.time()
        with self._connection() as connection:
            connection.execute(f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", (now, *texts))  # noqa: S608
            connection.execute("DELETE FROM audit WHERE at < ?", (now - self._keep,))

    def read(
        self, *, text: str = "", sort: str = "at", descending: bool = True, limit: int = -1, offset: int = 0
    ) -> tuple[Sequence[AuditEntry], int]:
        """Return entries that contain *text*, and how many there are in all."""
        if sort not in AuditEntry.__struct_fields__:
            raise ValueError(f"there is no column {sort!r}")
        if not self.path.is_file():
            return (), 0
        where = " OR ".join(f"instr(lower({name}), ?) > 0" for name in _TEXTS) if text else "1"
        values = [text.lower()] * len(_TEXTS) if text else []
        order = f"{sort} {'DESC' if descending else 'ASC'}, id {'DESC' if descending else 'ASC'}"
        with self._connection() as connection:
            total = connection.execute(f"SELECT count(*) FROM audit WHERE {where}", values).fetchone()[0]  # noqa: S608
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM audit WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",  # noqa: S608
                [*values, limit, offset],
            ).fetchall()
        return [AuditEntry(*row) for row in rows], total

    def about(self, subjects: Sequence[str]) -> Sequence[AuditEntry]:
        """Return the changes that were about one of *subjects*."""
        found: list[AuditEntry] = []
        for subject in dict.fromkeys(subjects):
            found += [entry for entry in self.read(text=subject)[0] if entry.subject == subject]
        return found

    def times_of(self, changes: Sequence[str], start: float) -> Sequence[float]:
        """Return when these *changes* were made since *start*."""
        if not self.path.is_file():
            return ()
        places = ", ".join("?" * len(changes))
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT at FROM audit WHERE at >= ? AND change IN ({places})",  # noqa: S608
                (start, *changes),
            )
            return [at for (at,) in rows]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(open_database(self.path, _SCHEMA, name="the audit log")) as connection:
                yield connection
        except sqlite3.Error as error:
            raise StoreError(f"cannot use the audit log {self.path}: {error}") from None


def audit_command(settings: Settings, change: str, subject: str, details: str = "") -> None:
    """Add what a command has changed, by the name of the user who ran it."""
    try:
        AuditLog(settings).add(command_user(), "command line", change, subject, details)
    except StoreError as error:
        # The change itself is made.
        log.warning("%s", error)


def command_user() -> str:
    """Return the name of the user who runs a command, also with sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # In a container the user may have no name.
        return f"user {os.getuid()}"


def audit_path(settings: Settings) -> Path:
    return state_directory(settings) / "audit.sqlite"


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:_MAX_TEXT]

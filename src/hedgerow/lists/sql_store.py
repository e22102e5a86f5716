"""
The store of lists in a SQL database: SQLite for the processes of one machine, PostgreSQL for several machines.

Every changing transaction has a number, and each row has the number of its last change. A removed entry stays as a row
marked as gone for an hour, so that followers learn of the removal.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from hedgerow.core.address import parse_address
from hedgerow.lists.model import Listing, ListName, SubjectKind, network_text, parse_subject

BATCH_SIZE = 200
_COLUMNS = "list, subject, reason, author, since, until"
_IN_FORCE = "(until = 0 OR until > ?)"
_HOUR = 3600.0
_KEEP_ENDED = 7 * 86_400.0

Row = tuple[object, ...]


class ListFilter(msgspec.Struct, frozen=True):
    """Selects entries. *address* selects entries that contain it, *text* those with this text in the reason."""

    list: ListName | None = None
    kind: SubjectKind | None = None
    subject: str = ""
    address: str = ""
    author: str = ""
    text: str = ""
    in_force_at: float | None = None
    after: tuple[str, str] | None = None
    limit: int = -1


class ListChanges(NamedTuple):
    """
    The changes up to number *newest*, in batches. A row has a listing's fields and whether it is gone.

    *anew* is true if the rows are all entries, and the reader must forget what it has.
    """

    newest: int
    anew: bool
    rows: Iterator[Sequence[Sequence[Any]]]


class ListFeed(Protocol):
    """An open connection that reports changes."""

    def since(self, seen: int) -> AbstractContextManager[ListChanges | None]:
        """Give the changes after number *seen*, or None if nothing changed since the last call."""

    def close(self) -> None: ...


class ListStore(ABC):
    """
    The persistent entries of all lists. Each call is one transaction. A subclass per database runs the queries.

    *clock* returns the current time: an entry that has ended does not prevent a new one.
    """

    entries, changes, purged = "entries", "changes", "purged"
    """The names of the tables."""
    position_function = "instr"
    on_conflict = (
        "ON CONFLICT (list, subject) DO UPDATE SET reason = excluded.reason, author = excluded.author, "
        "since = excluded.since, until = excluded.until, change = excluded.change, gone = 0"
    )

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    @property
    def put_query(self) -> str:
        return f"INSERT INTO {self.entries} VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) {self.on_conflict}"  # noqa: S608 - constants

    # ---- What a database implements

    @abstractmethod
    def follow(self) -> ListFeed: ...

    @abstractmethod
    def execute(self, connection: Any, query: str, values: Sequence[object] = ()) -> Any:
        """Run a query with question marks as placeholders, and return its cursor."""

    @abstractmethod
    def _exists(self) -> bool: ...

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """Open a connection in a transaction that excludes other writers."""

    @abstractmethod
    def _put_rows(self, connection: Any, rows: Iterator[Row]) -> None:
        """Insert or replace rows. The last of two rows for one subject counts."""

    @abstractmethod
    def _select(self, query: str, values: Sequence[object]) -> Iterator[Sequence[Any]]: ...

    # ---- Reading

    def read(self, wanted: ListFilter | None = None) -> Iterator[Listing]:
        """Yield entries ordered by list and subject."""
        if self._exists():
            where, values = self._conditions(wanted or ListFilter())
            for row in self._select(f"SELECT {_COLUMNS} FROM {self.entries} WHERE {where}", values):  # noqa: S608
                yield Listing(*row)

    def count(self, name: ListName, at: float) -> int:
        """Return how many entries of a list are in force."""
        if not self._exists():
            return 0
        query = f"SELECT count(*) FROM {self.entries} WHERE list = ? AND gone = 0 AND {_IN_FORCE}"  # noqa: S608
        (row,) = self._select(query, (name, at))
        return int(row[0])

    def search(
        self, text: str, at: float, *, sort: str, descending: bool, limit: int, offset: int
    ) -> tuple[Sequence[Listing], int]:
        """
        Return entries in force that contain *text*, and how many there are in all.

        If *text* is an address, those that contain the address are found as well. *sort* is a column.
        """
        if sort not in Listing.__struct_fields__:
            raise ValueError(f"there is no column {sort!r}")
        if not self._exists():
            return (), 0
        where, values = f"gone = 0 AND {_IN_FORCE}", list[object]([at])
        if text:
            parts = [
                f"{self.position_function}(lower({name}), lower(?)) > 0" for name in ("subject", "reason", "author")
            ]
            networks = _enclosing(text) if parse_address(text) else ()
            parts += [f"subject IN ({', '.join('?' * len(networks))})"] if networks else []
            where += f" AND ({' OR '.join(parts)})"
            values += [text] * 3 + list(networks)
        (counted,) = self._select(f"SELECT count(*) FROM {self.entries} WHERE {where}", values)  # noqa: S608
        way = "DESC" if descending else "ASC"
        query = (
            f"SELECT {_COLUMNS} FROM {self.entries} WHERE {where} ORDER BY {sort} {way}, list, subject LIMIT ? OFFSET ?"  # noqa: S608
        )
        return [Listing(*row) for row in self._select(query, [*values, limit, offset])], int(counted[0])

    def _conditions(self, wanted: ListFilter) -> tuple[str, list[object]]:
        conditions, values = ["gone = 0"], list[object]()
        columns = (
            ("list", wanted.list), ("sort", wanted.kind), ("subject", wanted.subject), ("author", wanted.author),
        )  # fmt: skip
        for column, value in columns:
            if value:
                conditions.append(f"{column} = ?")
                values.append(value)
        if wanted.text:
            conditions.append(f"{self.position_function}(lower(reason), lower(?)) > 0")
            values.append(wanted.text)
        if wanted.address:
            networks = _enclosing(wanted.address)
            conditions.append(f"subject IN ({', '.join('?' * len(networks))})")
            values += networks
        if wanted.in_force_at is not None:
            conditions.append(_IN_FORCE)
            values.append(wanted.in_force_at)
        if wanted.after is not None:
            # Of one list: without its name, SQLite finds the place by the index and reads nothing before it.
            if wanted.after[0] == wanted.list:
                conditions.append("subject > ?")
                values.append(wanted.after[1])
            else:
                conditions.append("(list, subject) > (?, ?)")
                values += wanted.after
        text = " AND ".join(conditions) + " ORDER BY list, subject"
        if wanted.limit >= 0:
            text += " LIMIT ?"
            values.append(wanted.limit)
        return text, values

    # ---- Writing

    def add(self, listing: Listing) -> bool:
        """Add an entry, and return True, unless one on the same subject is in force."""
        existing = f"SELECT 1 FROM {self.entries} WHERE list = ? AND subject = ? AND gone = 0 AND {_IN_FORCE}"  # noqa: S608
        with self._change() as (connection, number):
            if self.execute(connection, existing, (listing.list, listing.subject, self._clock())).fetchone():
                return False
            self.execute(connection, self.put_query, _row(listing, number))
            return True

    def put(self, listings: Iterable[Listing], *, replacing: str = "") -> int:
        """Store all entries, or none if the iterable raises, and remove others of the author *replacing*."""
        count = 0

        def rows(number: int) -> Iterator[Row]:
            nonlocal count
            for listing in listings:
                count += 1
                yield _row(listing, number)

        with self._change() as (connection, number):
            self._put_rows(connection, rows(number))
            if replacing:
                query = f"UPDATE {self.entries} SET gone = 1, change = ? WHERE author = ? AND gone = 0 AND change < ?"  # noqa: S608
                self.execute(connection, query, (number, replacing, number))
        return count

    def remove(self, name: ListName, subject: str) -> bool:
        with self._change() as (connection, number):
            query = f"UPDATE {self.entries} SET gone = 1, change = ? WHERE list = ? AND subject = ? AND gone = 0"  # noqa: S608
            removed: bool = self.execute(connection, query, (number, name, subject)).rowcount > 0
        return removed

    def purge(self) -> None:
        """Delete entries that ended a week ago, and the marks of those removed an hour ago."""
        if not self._exists():
            return
        now = self._clock()
        with self._change() as (connection, number):
            ended = f"UPDATE {self.entries} SET gone = 1, change = ? WHERE gone = 0 AND until > 0 AND until < ?"  # noqa: S608
            self.execute(connection, ended, (number, now - _KEEP_ENDED))
            query = f"SELECT max(number) FROM {self.changes} WHERE at < ?"  # noqa: S608
            old = self.execute(connection, query, (now - _HOUR,)).fetchone()[0]
            if old is not None:
                for query in (
                    f"DELETE FROM {self.entries} WHERE gone = 1 AND change <= ?",  # noqa: S608
                    f"DELETE FROM {self.changes} WHERE number <= ?",  # noqa: S608
                    f"UPDATE {self.purged} SET number = ?",  # noqa: S608
                ):
                    self.execute(connection, query, (old,))

    @contextmanager
    def _change(self) -> Iterator[tuple[Any, int]]:
        """Open a transaction, and give its connection and number."""
        with self._transaction() as connection:
            number = self.numbers(connection)[0] + 1
            self.execute(connection, f"INSERT INTO {self.changes} VALUES (?, ?)", (number, self._clock()))  # noqa: S608
            yield connection, number

    # ---- Following

    def numbers(self, connection: Any) -> tuple[int, int]:
        """Return the number of the last change, and the number up to which removals are forgotten."""
        query = f"SELECT coalesce((SELECT max(number) FROM {self.changes}), 0), number FROM {self.purged}"  # noqa: S608
        newest, purged = self.execute(connection, query).fetchone()
        return max(newest, purged), purged

    def changes_since(
        self, seen: int, connection: Any, batches: Callable[[str, Sequence[object]], Iterator[Sequence[Any]]]
    ) -> ListChanges:
        """Return the changes after *seen*. *batches* must read from the same snapshot as *connection*."""
        newest, purged = self.numbers(connection)
        # The reader slept for an hour: removals in the meantime are no longer recorded.
        anew = 0 < seen < purged
        query = f"SELECT {_COLUMNS}, gone FROM {self.entries} WHERE change > ?"  # noqa: S608
        return ListChanges(newest, anew, batches(query, (0 if anew else seen,)))


def _row(listing: Listing, number: int) -> Row:
    return (
        listing.list, listing.subject, parse_subject(listing.subject).kind, listing.reason, listing.author,
        listing.since, listing.until, number,
    )  # fmt: skip


def _enclosing(address: str) -> Sequence[str]:
    """Return every network that contains an address or network, in canonical form."""
    subject = parse_subject(address)
    if not subject.version:
        return [subject.text]
    bits = 32 if subject.version == 4 else 128  # noqa: PLR2004 - IPv4
    return [
        network_text(subject.version, subject.start >> shift << shift, shift)
        for shift in range(subject.shift, bits + 1)
    ]

"""
Lists in a database, whatever its engine: SQLite for the processes of one machine, PostgreSQL for those of several.

Every transaction that changes something has a number, and each row carries that of its last change; what is removed
leaves a row that says so, for an hour.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from hedgerow.lists.follower import ListChanges, ListFeed, ListFilter
from hedgerow.lists.model import Listing, ListName, network_text, parse_subject

ROWS_AT_ONCE = 200
_COLUMNS = "list, subject, reason, author, since, until"
_HOUR = 3600.0
_KEPT_ENDED = 7 * 86_400.0

Row = tuple[object, ...]


class Cursor(Protocol):
    """What a database says to a query."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...


class Asking(Protocol):
    """One transaction."""

    def execute(self, query: str, values: Sequence[object] = ...) -> Cursor:
        """Values stand for question marks."""

    def put_all(self, rows: Iterator[Row]) -> None:
        """Put many rows in. Of two for one subject the last counts."""


class SqlLists(ABC):
    """
    The entries in a database, whose kind says how it is asked.

    *clock* says what time it is: ended entries do not stand in the way of new ones.
    """

    entries, changes, purged = "entries", "changes", "purged"
    """How the tables are called."""
    within = "instr"
    """The function that says where in a text another begins."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    @property
    def put_query(self) -> str:
        """What puts a row in, or in another's place."""
        return f"INSERT INTO {self.entries} VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) {self.replacing}"  # noqa: S608 - constants

    replacing = (
        "ON CONFLICT (list, subject) DO UPDATE SET reason = excluded.reason, author = excluded.author, "
        "since = excluded.since, until = excluded.until, change = excluded.change, gone = 0"
    )

    # ---- What an engine does

    @abstractmethod
    def _is_there(self) -> bool:
        """Whether there is anything to read."""

    @abstractmethod
    def _asking(self) -> AbstractContextManager[Asking]:
        """One transaction, in which one who changes something is alone."""

    @abstractmethod
    def _rows(self, query: str, values: Sequence[object]) -> Iterator[Sequence[Any]]:
        """All rows, however many there are."""

    @abstractmethod
    def follow(self) -> ListFeed: ...

    # ---- Reading

    def read(self, wanted: ListFilter | None = None) -> Iterator[Listing]:
        if self._is_there():
            where, values = self._conditions(wanted or ListFilter())
            for row in self._rows(f"SELECT {_COLUMNS} FROM {self.entries} WHERE {where}", values):  # noqa: S608
                yield Listing(*row)

    def count(self, name: ListName, at: float) -> int:
        if not self._is_there():
            return 0
        query = f"SELECT count(*) FROM {self.entries} WHERE list = ? AND gone = 0 AND (until = 0 OR until > ?)"  # noqa: S608
        (row,) = self._rows(query, (name, at))
        return int(row[0])

    def _conditions(self, wanted: ListFilter) -> tuple[str, list[object]]:
        conditions, values = ["gone = 0"], list[object]()
        for column, value in (("list", wanted.list), ("sort", wanted.sort), ("subject", wanted.subject)):
            if value:
                conditions.append(f"{column} = ?")
                values.append(value)
        if wanted.author:
            conditions.append("author = ?")
            values.append(wanted.author)
        if wanted.text:
            conditions.append(f"{self.within}(lower(reason), lower(?)) > 0")
            values.append(wanted.text)
        if wanted.address:
            holding = _holding(wanted.address)
            conditions.append(f"subject IN ({', '.join('?' * len(holding))})")
            values += holding
        if wanted.in_force_at is not None:
            conditions.append("(until = 0 OR until > ?)")
            values.append(wanted.in_force_at)
        if wanted.after is not None:
            conditions.append("(list, subject) > (?, ?)")
            values += wanted.after
        text = " AND ".join(conditions) + " ORDER BY list, subject"
        if wanted.limit >= 0:
            text += " LIMIT ?"
            values.append(wanted.limit)
        return text, values

    # ---- Writing

    def add(self, listing: Listing) -> bool:
        there = f"SELECT 1 FROM {self.entries} WHERE list = ? AND subject = ? AND gone = 0 AND (until = 0 OR until > ?)"  # noqa: S608
        with self._changing() as (ask, number):
            if ask.execute(there, (listing.list, listing.subject, self._clock())).fetchone():
                return False
            ask.execute(self.put_query, _row(listing, number))
            return True

    def put(self, listings: Iterable[Listing], *, replacing: str = "") -> int:
        count = 0

        def rows(number: int) -> Iterator[Row]:
            nonlocal count
            for listing in listings:
                count += 1
                yield _row(listing, number)

        with self._changing() as (ask, number):
            ask.put_all(rows(number))
            if replacing:
                query = f"UPDATE {self.entries} SET gone = 1, change = ? WHERE author = ? AND gone = 0 AND change < ?"  # noqa: S608
                ask.execute(query, (number, replacing, number))
        return count

    def remove(self, name: ListName, subject: str) -> bool:
        with self._changing() as (ask, number):
            query = f"UPDATE {self.entries} SET gone = 1, change = ? WHERE list = ? AND subject = ? AND gone = 0"  # noqa: S608
            return ask.execute(query, (number, name, subject)).rowcount > 0

    def purge(self) -> None:
        if not self._is_there():
            return
        now = self._clock()
        with self._changing() as (ask, number):
            ended = f"UPDATE {self.entries} SET gone = 1, change = ? WHERE gone = 0 AND until > 0 AND until < ?"  # noqa: S608
            ask.execute(ended, (number, now - _KEPT_ENDED))
            old = ask.execute(f"SELECT max(number) FROM {self.changes} WHERE at < ?", (now - _HOUR,)).fetchone()[0]  # noqa: S608
            if old is not None:
                ask.execute(f"DELETE FROM {self.entries} WHERE gone = 1 AND change <= ?", (old,))  # noqa: S608
                ask.execute(f"DELETE FROM {self.changes} WHERE number <= ?", (old,))  # noqa: S608
                ask.execute(f"UPDATE {self.purged} SET number = ?", (old,))  # noqa: S608

    @contextmanager
    def _changing(self) -> Iterator[tuple[Asking, int]]:
        """A transaction and its number."""
        with self._asking() as ask:
            number = self.numbers(ask)[0] + 1
            ask.execute(f"INSERT INTO {self.changes} VALUES (?, ?)", (number, self._clock()))  # noqa: S608
            yield ask, number

    # ---- Reading along

    def numbers(self, ask: Asking) -> tuple[int, int]:
        """The number of the last change, and up to which one removals are no longer told."""
        query = f"SELECT coalesce((SELECT max(number) FROM {self.changes}), 0), number FROM {self.purged}"  # noqa: S608
        newest, purged = ask.execute(query).fetchone()
        return max(newest, purged), purged

    def changes_since(
        self, seen: int, ask: Asking, rows: Callable[[str, Sequence[object]], Iterator[Sequence[Any]]]
    ) -> ListChanges:
        """What has changed behind *seen*, by *rows*, which must see what *ask* sees."""
        newest, purged = self.numbers(ask)
        # Asleep for an hour: what was removed meanwhile is no longer told.
        anew = 0 < seen < purged
        query = f"SELECT {_COLUMNS}, gone FROM {self.entries} WHERE change > ?"  # noqa: S608
        return ListChanges(newest, anew, rows(query, (0 if anew else seen,)))


def _row(listing: Listing, number: int) -> Row:
    return (
        listing.list, listing.subject, parse_subject(listing.subject).sort, listing.reason, listing.author,
        listing.since, listing.until, number,
    )  # fmt: skip


def _holding(address: str) -> Sequence[str]:
    """Every network that holds an address or network, as one writes it."""
    subject = parse_subject(address)
    if not subject.version:
        return [subject.text]
    bits = 32 if subject.version == 4 else 128  # noqa: PLR2004 - IPv4
    return [
        network_text(subject.version, subject.start >> shift << shift, shift)
        for shift in range(subject.shift, bits + 1)
    ]

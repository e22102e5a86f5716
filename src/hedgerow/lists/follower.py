"""
The follower: a thread that keeps a server's lists in memory equal to the store.

Twice a second it asks the store for the changes after the last number it has seen. So the cost depends on the changes
and not on the size of the lists, and no request waits for SQL. If the store is on another machine, the server keeps a
copy on disk and starts with it while the store is unreachable.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import maxminddb
import msgspec

from hedgerow.errors import DECODE_ERRORS, StoreAwayError, StoreCorruptError, StoreError
from hedgerow.lists.model import Listing, Lists
from hedgerow.lists.sql_store import ListFeed, ListStore

log = logging.getLogger(__name__)

_INTERVAL = 0.5
_YIELD = 0.001
_HOUR = 3600.0
_COPY_INTERVAL = 60.0
_COPY_SHARE = 0.05
"""The share of its time that the thread may spend on copies."""
_PAUSE_AFTER = 200
_ASN_FIELD = "autonomous_system_number"

T = TypeVar("T")


class MaxMindFile(Generic[T]):
    """A MaxMind file (`.mmdb`) with *what* of networks. *read* returns it from a record, *unknown* stands for none."""

    def __init__(self, path: Path, what: str, read: Callable[[dict[str, Any]], T | None], unknown: T) -> None:
        self._path = path
        self._what = what
        self._read = read
        self._unknown = unknown
        self._known: tuple[int, int, int] | None = None

    def changed(self) -> Callable[[str], T] | None:
        """Return the lookup function if the file is new or was replaced, else None."""
        try:
            status = self._path.stat()
            known = (status.st_ino, status.st_mtime_ns, status.st_size)
            if known == self._known:
                return None
            reader = maxminddb.open_database(self._path)
        except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
            raise StoreError(f"cannot read the file of {self._what} {self._path}: {error}") from None
        self._known = known

        def look_up(address: str) -> T:
            try:
                record = reader.get(address)
            except (ValueError, maxminddb.InvalidDatabaseError):
                # The file may hold IPv4 networks only.
                return self._unknown
            found = self._read(record) if isinstance(record, dict) else None
            return self._unknown if found is None else found

        return look_up


def _asn_in(record: dict[str, Any]) -> int | None:
    number = record.get(_ASN_FIELD)
    return number if isinstance(number, int) else None


def _country_in(record: dict[str, Any]) -> str | None:
    """Return the country in a record of MaxMind, DB-IP or IPinfo."""
    country = record.get("country")
    code = country.get("iso_code") if isinstance(country, dict) else record.get("country_code", country)
    return code if isinstance(code, str) else None


def asn_file(path: Path) -> MaxMindFile[int]:
    """Return a file of network operators (AS numbers), such as `GeoLite2-ASN.mmdb`."""
    return MaxMindFile(path, "network operators", _asn_in, 0)


def country_file(path: Path) -> MaxMindFile[str]:
    """Return a file of countries, such as `GeoLite2-Country.mmdb`."""
    return MaxMindFile(path, "countries", _country_in, "")


class _Head(msgspec.Struct, frozen=True):
    of: str
    entries: int


class ListsCopy:
    """
    The copy, in the file *path*, of the entries of the store at *url*.

    The file is written completely and then replaces the old one. Its first line says which store it is a copy of and
    how many entries follow, one per line. Of several processes that share the directory only one writes at a time.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        # Not the URL itself: it may contain a password.
        self._digest = blake2b(url.encode(), digest_size=16).hexdigest()

    @property
    def written_at(self) -> float:
        """The time of the last write in seconds since 1970, 0 if there is no copy."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0

    def write(self, listings: Iterable[Listing], pause: Callable[[], None]) -> None:
        """Replace the copy, unless another process is doing so. *pause* is called from time to time."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock() as acquired:
            if not acquired:
                return
            new = self.path.with_suffix(".new")
            new.touch(mode=0o600)
            with new.open("wb") as file:
                # The number of entries is known at the end: leave room for it.
                file.write(self._head(0))
                count = 0
                for count, listing in enumerate(listings, 1):
                    file.write(msgspec.json.encode(listing) + b"\n")
                    if not count % _PAUSE_AFTER:
                        pause()
                file.seek(0)
                file.write(self._head(count))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)

    def read(self) -> list[Listing] | None:
        """Return all entries, or None if there is no complete copy of this store."""
        try:
            with self.path.open("rb") as file:
                head = msgspec.json.decode(file.readline(), type=_Head)
                if head.of != self._digest:
                    return None
                decode = msgspec.json.Decoder(Listing).decode
                listings = [decode(line) for line in file]
        except FileNotFoundError:
            return None
        except (OSError, *DECODE_ERRORS) as error:
            log.error("cannot read the copy of the lists in %s: %s", self.path, error)  # noqa: TRY400 - one line
            return None
        return listings if len(listings) == head.entries else None

    def _head(self, entries: int) -> bytes:
        return msgspec.json.encode(_Head(self._digest, entries)).ljust(99) + b"\n"

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)


class Follower:
    """
    Keeps *lists* equal to the store in a thread, from `start` until `close`.

    *asn* is a MaxMind file of network operators, *countries* one of countries; both are reopened when replaced. *copy*
    is the copy on disk to start with while the store is unreachable.
    """

    def __init__(
        self,
        store: ListStore,
        lists: Lists,
        *,
        asn: MaxMindFile[int] | None = None,
        countries: MaxMindFile[str] | None = None,
        copy: ListsCopy | None = None,
    ) -> None:
        self.store = store
        self.lists = lists
        self._asn = asn
        self._countries = countries
        self._copy = copy
        self._is_copy = False
        self._changed_at: float | None = None
        self._copy_after = 0.0
        self._seen = 0
        self._feed: ListFeed | None = None
        self._failing = False
        self._failing_files: set[str] = set()
        self.errors = 0
        """How often the store could not be read."""
        self._purged_at = -math.inf
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hedgerow-lists", daemon=True)

    @property
    def failing(self) -> bool:
        """Whether the store cannot be read, so that the lists stay as they are."""
        return self._failing

    def start(self) -> None:
        """Load the lists, or their copy, and start the thread."""
        try:
            self.refresh(at_once=True)
        except StoreAwayError as error:
            self._failing = True
            log.warning("%s; until it is back %s", error, self._load_copy())
        except StoreCorruptError as error:
            log.error("there are no lists: %s", error)  # noqa: TRY400 - one line
            self._disconnect()
        self._thread.start()

    def _load_copy(self) -> str:
        """Load the copy if there is one, and return a message that says what was loaded."""
        listings = self._copy.read() if self._copy is not None else None
        if self._copy is None or listings is None:
            return "there are no lists"
        with self._lock:
            for listing in listings:
                self.lists.put(listing)
            self.lists.settle()
            self._is_copy = True
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._copy.written_at))
        return f"the lists are those of {when}: {len(listings):,} entries from {self._copy.path}"

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._disconnect()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            try:
                self._purge()
                self.refresh()
                self._update_copy()
            except Exception as error:  # noqa: BLE001 - keep the lists, and try again
                if not self._failing:
                    log.error("cannot read the lists, so they stay unchanged: %s", error)  # noqa: TRY400
                self._failing = True
                self.errors += 1
                self._disconnect()
            else:
                if self._failing:
                    log.info("the lists can be read again")
                self._failing = False

    def _purge(self) -> None:
        now = time.monotonic()
        if now - self._purged_at > _HOUR:
            self._purged_at = now
            self.store.purge()

    def _update_copy(self) -> None:
        """Write a copy after a change, but not so often that it takes more than the allowed share of time."""
        copy, changed_at, began = self._copy, self._changed_at, time.monotonic()
        if copy is None or changed_at is None or began < self._copy_after:
            return
        if copy.written_at <= changed_at:
            try:
                copy.write(self.store.read(), self._yield)
            except OSError as error:
                log.error("cannot copy the lists to %s: %s", copy.path, error)  # noqa: TRY400 - one line
        # Otherwise another process has written it since.
        if copy.written_at > changed_at:
            self._changed_at = None
        self._copy_after = time.monotonic() + max(_COPY_INTERVAL, (time.monotonic() - began) / _COPY_SHARE)

    def refresh(self, *, at_once: bool = False) -> None:
        """Apply the changes since the last call, unless *at_once* with pauses in which requests are served."""
        with self._lock:
            self._apply_changes((lambda: None) if at_once else self._yield)
            if (asn_of := self._read_file(self._asn, "entries and rules for operators such as AS64496")) is not None:
                self.lists.use(asn_of)
                self.lists.networks.use(asn_of=asn_of)
            if (country_of := self._read_file(self._countries, "rules for countries")) is not None:
                self.lists.networks.use(country_of=country_of)

    def _read_file(self, file: MaxMindFile[T] | None, what: str) -> Callable[[str], T] | None:
        """Return the lookup function of a file that was replaced. A file that cannot be read changes nothing."""
        if file is None:
            return None
        try:
            found = file.changed()
        except StoreError as error:
            if what not in self._failing_files:
                log.error("%s do not count: %s", what, error)  # noqa: TRY400 - one line
            self._failing_files.add(what)
            return None
        self._failing_files.discard(what)
        return found

    def _apply_changes(self, pause: Callable[[], None]) -> None:
        if self._feed is None:
            self._feed = self.store.follow()
        with self._feed.since(self._seen) as changes:
            if changes is None:
                return
            anew = changes.anew or self._is_copy
            if anew:
                self.lists.clear()
            applied = 0
            for rows in changes.rows:
                for *row, gone in rows:
                    if gone:
                        self.lists.drop(row[0], row[1])
                    else:
                        self.lists.put(Listing(*row))
                applied += len(rows)
                pause()
        if applied or anew:
            self.lists.settle(_every(50, pause))
            self._changed_at = time.time()
        self._is_copy = False
        self._seen = changes.newest

    def _yield(self) -> None:
        if not self._stop.is_set():
            time.sleep(_YIELD)

    def _disconnect(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


def _every(number: int, pause: Callable[[], None]) -> Callable[[], None]:
    calls = count(1)

    def paused() -> None:
        if not next(calls) % number:
            pause()

    return paused

"""
The limits of the budget where the settings say "auto", derived once a day from the days of people in the ledger.

A background thread counts each finished day once, in the database, and writes the result to a small file in the state
directory. All processes of the machine read the file; it survives a restart. One of them at a time counts. On several
machines with one ledger in PostgreSQL all come to the same numbers; where each machine has a ledger of its own, each
derives its own.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from hedgerow.core.daily_limits import K1, K2, DailyLimits
from hedgerow.corrupt_files import set_aside
from hedgerow.errors import StoreError
from hedgerow.ledger.people_days import PeopleDay, count_people, derived
from hedgerow.ledger.reader import open_ledger_reader
from hedgerow.settings import Settings
from hedgerow.web.paths import ledger_path, limits_path, temporary_file

log = logging.getLogger(__name__)

MOST_K1, MOST_K2 = 100, 1_000
"""PubCrawl's own largest numbers: whatever people do, and whoever poses as people, a limit does not get higher."""
_DAYS = 30
"""Days that are remembered."""
_INTERVAL = 60.0
_WORK_EVERY = 6 * 3600.0
_AFTER_MIDNIGHT = 600.0
"""Seconds after the end of a day until it is counted, when all of its visits are written."""


class StoredLimits(msgspec.Struct, frozen=True):
    """The file: what was derived, the number of people's days that it comes from, and the counts of the last days."""

    k1: int = K1
    k2: int = K2
    k1_days: int = 0
    k2_days: int = 0
    days: dict[int, PeopleDay] = {}


def read_limits(path: Path) -> StoredLimits:
    """Return what is stored. Without a file, or with a corrupt one, which is set aside, nothing was derived."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredLimits)
    except OSError:
        pass
    except msgspec.MsgspecError as error:
        with suppress(StoreError):
            set_aside(path, "the file of the limits", error)
    return StoredLimits()


Source = Literal["set", "shipped", "derived"]
"""Why a limit is what it is: set by the operator, as shipped, or derived from the days of people."""


class Limit(NamedTuple):
    """A limit in force, why it is that, and the number of people's days from which it was derived."""

    pages: int
    source: Source
    days: int

    @property
    def why(self) -> str:
        if self.source == "set":
            return "set by you"
        return f"derived from {self.days:,} days of people" if self.source == "derived" else "as shipped"


def limits_of(settings: Settings) -> tuple[Limit, Limit]:
    """Return k1 and k2 as a server with these settings has them."""
    own, stored = settings.containment, read_limits(limits_path(settings))

    def limit(value: int | Literal["auto"], pages: int, days: int) -> Limit:
        return Limit(pages, "derived" if days else "shipped", days) if value == "auto" else Limit(value, "set", 0)

    return limit(own.k1, stored.k1, stored.k1_days), limit(own.k2, stored.k2, stored.k2_days)


def with_day(stored: StoredLimits, number: int, day: PeopleDay) -> StoredLimits:
    """Return what follows from one more day."""
    days = dict(sorted({**stored.days, number: day}.items())[-_DAYS:])
    k1, k1_days = derived([one.others for one in days.values()], K1, MOST_K1)
    k2, k2_days = derived([one.holders for one in days.values()], K2, MOST_K2)
    return StoredLimits(k1, k2, k1_days, k2_days, days)


class DailyLimitsThread:
    """
    Keeps *limits* equal to the file of the site, and counts a day that is missing there if this process *counts*.

    What is in the file is in force when the constructor returns. A process that counts also calls *also*, with the
    settings and the time, every few hours: other work that has to be done once in a while.
    """

    def __init__(
        self,
        settings: Settings,
        limits: DailyLimits,
        *,
        counts: bool,
        also: Callable[[Settings, float], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._counts = counts
        self._also = also
        self._clock = clock
        self._next_work = clock() + _INTERVAL
        self._path = limits_path(settings)
        self._zone = ZoneInfo(settings.policy.timezone)
        self._seen = 0
        self._is_failing = False
        self._stop = threading.Event()
        self._load()
        self._thread = threading.Thread(target=self._run, name="hedgerow-limits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self.step()

    def step(self) -> bool:
        """Read the file if it has changed, and count one day if one is missing. Return whether there was one."""
        try:
            counted = self._counts and self._count_one()
            if self._counts and self._also is not None and self._clock() >= self._next_work:
                self._next_work = self._clock() + _WORK_EVERY
                self._also(self._settings, self._clock())
            self._is_failing = False
        except Exception as error:  # noqa: BLE001 - a ledger may be corrupt in any way, and the thread must go on
            if not self._is_failing:
                log.warning("cannot derive the limits of the budget, or review the lists: %s", error)
            self._is_failing, counted = True, False
        self._load()
        return counted

    def _load(self) -> None:
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError:
            return
        if changed == self._seen:
            return
        self._seen = changed
        stored, limits = read_limits(self._path), self._limits
        if (stored.k1, stored.k2) != (limits.k1, limits.k2):
            log.info("the budget of this site: k1 = %d, k2 = %d", stored.k1, stored.k2)
            # Whatever is in the file, a limit stays within its bounds.
            limits.k1 = min(MOST_K1, max(K1, stored.k1))
            limits.k2 = min(MOST_K2, max(K2, stored.k2))

    def _count_one(self) -> bool:
        """Count the latest finished day that the file lacks, in the database."""
        ledger = self._settings.ledger.url or str(ledger_path(self._settings))
        if not self._settings.ledger.url and not ledger_path(self._settings).is_file():
            return False
        with self._alone() as is_alone:
            if not is_alone:
                return False
            stored = read_limits(self._path)
            today = datetime.fromtimestamp(self._clock() - _AFTER_MIDNIGHT, self._zone).toordinal()
            missing = [day for day in range(today - 1, today - 1 - _DAYS, -1) if day not in stored.days]
            if not missing:
                return False
            with closing(open_ledger_reader(ledger)) as reader:
                oldest = reader.oldest()
                start, end = self._starts(missing[0]), self._starts(missing[0] + 1)
                if oldest is None or end <= oldest:
                    return False
                day = count_people(reader.pages_of_visitors(start, end))
            self._write(with_day(stored, missing[0], day))
            return True

    def _starts(self, day: int) -> float:
        return datetime.fromordinal(day).replace(tzinfo=self._zone).timestamp()

    def _write(self, stored: StoredLimits) -> None:
        with temporary_file(self._path, msgspec.json.encode(stored)) as written:
            written.replace(self._path)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Give whether no other process is counting."""
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

"""
A copy of the lists on disk, for a server that starts while their remote store is unreachable.

The file is written completely and then replaces the old one. Its first line says which store it is a copy of and how
many entries follow, one per line. Of several processes that share the directory only one writes at a time.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from hedgerow.lists.model import Listing

log = logging.getLogger(__name__)

_PAUSE_AFTER = 200


class _Head(msgspec.Struct, frozen=True):
    of: str
    entries: int


class ListsCopy:
    """The copy, in the file *path*, of the entries of the store at *url*."""

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
        except (OSError, msgspec.DecodeError) as error:
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

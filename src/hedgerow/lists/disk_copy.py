"""
A copy of the lists on disk, for a gate that starts while their store on another machine is away.

One file, written whole beside the old and put in its place: first what it is a copy of and how many entries follow,
then one entry on each line. Processes that share the directory write one after the other, and not all of them.
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

_AT_ONCE = 200


class _Head(msgspec.Struct, frozen=True):
    of: str
    entries: int


class ListsCopy:
    """The entries of the store at *url*, as they were when it was last read, in the file at *path*."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        # Not the address itself: there may be a password in it.
        self._of = blake2b(url.encode(), digest_size=16).hexdigest()

    @property
    def written_at(self) -> float:
        """When it was written, in seconds since 1970; 0 where there is none."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0

    def write(self, listings: Iterable[Listing], pause: Callable[[], None]) -> None:
        """Put another copy in this one's place, unless somebody does so just now. *pause* is called now and then."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone() as alone:
            if not alone:
                return
            beside = self.path.with_suffix(".new")
            beside.touch(mode=0o600)
            with beside.open("wb") as file:
                # The number is known at the end: room is left for it.
                file.write(self._head(0))
                count = 0
                for count, listing in enumerate(listings, 1):
                    file.write(msgspec.json.encode(listing) + b"\n")
                    if not count % _AT_ONCE:
                        pause()
                file.seek(0)
                file.write(self._head(count))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)

    def read(self) -> list[Listing] | None:
        """All entries, or None where there is no whole copy of this store."""
        try:
            with self.path.open("rb") as file:
                head = msgspec.json.decode(file.readline(), type=_Head)
                if head.of != self._of:
                    return None
                decode = msgspec.json.Decoder(Listing).decode
                listings = [decode(line) for line in file]
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.error("the copy of the lists in %s cannot be read: %s", self.path, error)  # noqa: TRY400 - one line
            return None
        return listings if len(listings) == head.entries else None

    def _head(self, entries: int) -> bytes:
        return msgspec.json.encode(_Head(self._of, entries)).ljust(99) + b"\n"

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether nobody else writes it; nobody begins to meanwhile."""
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

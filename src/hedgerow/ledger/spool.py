"""
The spool: a bounded directory of row batches for a ledger that is unreachable.

Each batch has a unique name, which is stored in the ledger with its rows. So a batch that is written again, after a
crash or by two processes, is in the ledger once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

Row = tuple[object, ...]
_SUFFIX = ".batch"


class Spool:
    """Batches in *folder*, at most *max_bytes* in total."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self.size = sum(path.stat().st_size for path in self._paths())

    def __bool__(self) -> bool:
        return any(self._paths())

    def put(self, name: str, rows: Sequence[Row]) -> bool:
        """Store a batch. Return False if it does not fit or cannot be written."""
        data = msgspec.msgpack.encode(rows)
        if self.size + len(data) > self._max_bytes:
            return False
        # The file name starts with the time, so that batches are read in order.
        path = self._folder / f"{time.time_ns():020d}-{name}{_SUFFIX}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = path.with_suffix(".half")
            partial.write_bytes(data)
            partial.replace(path)
        except OSError as error:
            log.error("cannot spool rows of the ledger to %s: %s", self._folder, error)  # noqa: TRY400
            return False
        self.size += len(data)
        return True

    def batches(self) -> Iterator[tuple[str, list[Row], Path]]:
        """Yield all batches, oldest first: name, rows, and the path for `drop`."""
        for path in sorted(self._paths()):
            try:
                rows = msgspec.msgpack.decode(path.read_bytes(), type=list[Row])
            except FileNotFoundError:
                # Another process has written it.
                continue
            except (OSError, msgspec.MsgspecError) as error:
                log.error("skipping %s, which cannot be read: %s", path, error)  # noqa: TRY400
                continue
            yield path.stem.partition("-")[2], rows, path

    def drop(self, path: Path) -> None:
        try:
            self.size = max(0, self.size - path.stat().st_size)
            path.unlink()
        except FileNotFoundError:
            pass

    def _paths(self) -> list[Path]:
        return list(self._folder.glob("*" + _SUFFIX)) if self._folder.is_dir() else []

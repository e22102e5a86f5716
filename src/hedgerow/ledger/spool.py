"""
Rows that wait on disk for a ledger that cannot take them now: a folder with a file for each batch, bounded.

A batch has a name of its own, and whoever writes it writes the name with it: a batch that was written and not yet
removed here, or that two processes have found, is in the ledger once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import msgspec

log = logging.getLogger(__name__)

Row = tuple[object, ...]
_ENDING = ".batch"


class Spool:
    """Keeps batches in *folder*, at most *most* bytes of them."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most
        self._size = sum(path.stat().st_size for path in self._paths())

    @property
    def size(self) -> int:
        """Bytes that wait, as far as this process knows."""
        return self._size

    def __bool__(self) -> bool:
        return any(self._paths())

    def put(self, name: str, rows: Sequence[Row]) -> bool:
        """Keep a batch; false where there is no room, or no disk."""
        data = msgspec.msgpack.encode(rows)
        if self._size + len(data) > self._most:
            return False
        # In the order in which they came: the name begins with the time.
        path = self._folder / f"{time.time_ns():020d}-{name}{_ENDING}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = path.with_suffix(".half")
            half.write_bytes(data)
            os.replace(half, path)  # noqa: PTH105 - one step
        except OSError as error:
            log.error("rows of the ledger cannot be kept in %s: %s", self._folder, error)  # noqa: TRY400
            return False
        self._size += len(data)
        return True

    def batches(self) -> Iterator[tuple[str, list[Row], Path]]:
        """All batches, the oldest first: name, rows, and what to give to `drop` once they are written."""
        for path in sorted(self._paths()):
            try:
                rows = msgspec.msgpack.decode(path.read_bytes(), type=list[Row])
            except FileNotFoundError:
                # Another process was faster.
                continue
            except (OSError, msgspec.MsgspecError) as error:
                log.error("%s cannot be read, and is left alone: %s", path, error)  # noqa: TRY400
                continue
            yield path.stem.partition("-")[2], rows, path

    def drop(self, path: Path) -> None:
        """A batch is in the ledger."""
        try:
            self._size = max(0, self._size - path.stat().st_size)
            path.unlink()
        except FileNotFoundError:
            pass

    def _paths(self) -> list[Path]:
        return list(self._folder.glob("*" + _ENDING)) if self._folder.is_dir() else []


def new_name() -> str:
    """A name for a batch that no other has."""
    return uuid4().hex

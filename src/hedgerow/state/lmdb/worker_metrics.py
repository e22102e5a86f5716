"""
Counters that each worker publishes, so that the admin listener can add them up.
"""

from __future__ import annotations

import os

from hedgerow.state.lmdb.state import LmdbState, entries_with_prefix

_TALLY = b"tally:"


class LmdbWorkerMetrics:
    """What each worker has counted, under its process id; those of workers that have ended stay."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state

    def put(self, tally: bytes) -> None:
        with self._state.writing() as txn:
            txn.put(_TALLY + b"%d" % os.getpid(), tally, db=self._state.more)

    def all(self) -> dict[int, bytes]:
        """Tallies by process id."""
        with self._state.reading() as txn:
            return {
                int(name[len(_TALLY) :]): tally for name, tally in entries_with_prefix(txn, self._state.more, _TALLY)
            }

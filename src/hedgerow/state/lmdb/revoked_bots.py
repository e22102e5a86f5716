"""
Bots whose good-bot status is revoked, shared by the workers of one machine.
"""

from __future__ import annotations

import struct

from hedgerow.state.lmdb.state import LmdbState

_UNWELCOME = b"unwelcome:"
_UNTIL = struct.Struct("<d")


class LmdbRevokedBots:
    """Which bots have lost their welcome, in whatever worker."""

    def __init__(self, state: LmdbState) -> None:
        self._state = state

    def get(self, bot: str, /) -> float | None:
        with self._state.reading() as txn:
            data = txn.get(_UNWELCOME + bot.encode(), db=self._state.more)
        return float(_UNTIL.unpack(data)[0]) if data is not None else None

    def __setitem__(self, bot: str, until: float, /) -> None:
        with self._state.writing() as txn:
            txn.put(_UNWELCOME + bot.encode(), _UNTIL.pack(until), db=self._state.more)

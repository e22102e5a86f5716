"""
A watch that several processes share, on however many machines: visits come through streams of Redis.

Gates put visits into one of 16 streams, by visitor (`Streams`), and those by marked links into one more, in which
sharing is looked for: who lends and who borrows may be in different ones of the 16. Each stream has one watch at a
time, which holds a lease on it. What a watch has found and the sessions that it has seen are written in the same step
that takes the visits off the stream, and only as long as the lease is its own: whoever takes over begins exactly where
that ended, and no visit counts twice.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any
from zlib import crc32

import msgspec

from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.errors import HedgerowError
from hedgerow.state.redis.address import RedisAddress, RedisUnavailable
from hedgerow.state.redis.scripts import Command, Scripts, text
from hedgerow.state.redis.thread_connection import ThreadConnection
from hedgerow.watch.relay import Seen, decode, encode
from hedgerow.watch.snapshot import WatchSnapshot
from hedgerow.watch.watch import Watch

log = logging.getLogger(__name__)

PARTS = 16
SHARING = PARTS
"""The number of the stream in which sharing is looked for."""
_ALL = PARTS + 1
_GROUP = "watch"
_PATIENCE = 5.0
_LEASE = 3.0
_RENEW = 0.5
_PAUSE = 0.05
_AGAIN = 1.0
_MOST_WAITING = 10_000
_AT_ONCE = 50
_DAY = 86_400
_WEEK = 7 * _DAY
_LUA_TAKE = (
    "local owner = redis.call('GET', ARGV[1]) if owner and owner ~= ARGV[2] then return 0 end "
    "redis.call('SET', ARGV[1], ARGV[2], 'PX', ARGV[3]) return 1"
)
_LUA_RENEW = "if redis.call('GET', ARGV[1]) == ARGV[2] then return redis.call('PEXPIRE', ARGV[1], ARGV[3]) end return 0"
_LUA_LEAVE = "if redis.call('GET', ARGV[1]) == ARGV[2] then return redis.call('DEL', ARGV[1]) end return 0"


def part_of(visitor: str) -> int:
    """The stream of a visitor: the same for all gates."""
    return crc32(text(visitor)) % PARTS


class Streams:
    """Puts visits into the streams; `deliver` is for a `Relay`."""

    def __init__(self, address: RedisAddress, prefix: str, *, most: int = _MOST_WAITING) -> None:
        self._prefix = prefix
        self._most = most
        self._link = ThreadConnection(address, lambda: (), patience=_PATIENCE)

    def deliver(self, seen: Sequence[Seen], missed: Sequence[str]) -> bool:
        """Into the streams; false where Redis is away. Of too many in a stream the oldest go."""
        parts: dict[int, tuple[list[Seen], list[str]]] = {}
        for one in seen:
            visit = one[0]
            if visit.bot or not visit.visitor:
                continue
            parts.setdefault(part_of(visit.visitor), ([], []))[0].append(one)
            if visit.marker is not None and visit.kind == "page":
                parts.setdefault(SHARING, ([], []))[0].append(one)
        for visitor in missed:
            parts.setdefault(part_of(visitor), ([], []))[1].append(visitor)
        commands: list[Command] = []
        for part, (visits, left_out) in parts.items():
            key = f"{self._prefix}visits:{part}"
            commands.append(("XADD", key, "MAXLEN", "~", self._most, "*", "b", encode(visits, left_out)))
            commands.append(("EXPIRE", key, _DAY))
        if not commands:
            return True
        try:
            self._link.ask_all([("MULTI",), *commands, ("EXEC",)])
        except RedisUnavailable:
            return False
        return True

    def close(self) -> None:
        self._link.close()


Make = Callable[[Callable[[ScoreUpdate], None]], tuple[Watch, Watch]]
"""Makes a watch for paths and one for sharing, which tell what they find to its argument."""


class Lost(Exception):  # noqa: N818 - part of how it works
    """A lease has gone to another: what was not written is the other's to do."""


class SharedWatch:
    """
    Watches the streams that it gets a lease on, with watches that *make* makes: one for paths, one for sharing.

    *scripts* are those of the state, for what is found.
    """

    def __init__(self, address: RedisAddress, scripts: Scripts, make: Make) -> None:
        self._prefix = scripts.prefix
        self._scripts = scripts
        self._make = make
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._link = ThreadConnection(
            address, lambda: [("SCRIPT", "LOAD", scripts.amend_script.text)], patience=_PATIENCE
        )
        self._renewed = 0.0
        self._next: Make | None = None
        self.seen = 0
        """Visits looked at."""
        self._begin()

    def _begin(self) -> None:
        """Know nothing, hold nothing. Where no watches can be made, all stays as it is."""
        found: list[ScoreUpdate] = []
        paths, sharing = self._make(found.append)
        self.held: set[int] = set()
        # Streams of which some was claimed from another, and is to be read before anything new.
        self._unfinished: set[int] = set()
        self._found = found
        self._told: dict[str, Campaign | None] = {}
        self.paths, self.sharing = paths, sharing
        self.sharing.note = self._told.__setitem__
        for watch in (self.paths, self.sharing):
            watch.keep()

    def use(self, make: Make) -> None:
        """Go on with other watches: settings were read again. Nothing is lost, all that is known is in Redis."""
        self._next = make

    def run(self, stop: Event) -> None:
        """Watch until *stop* is set. While Redis is away visits wait in the streams, or with the gates."""
        while not stop.is_set():
            try:
                busy = self.turn()
            except (RedisUnavailable, Lost) as error:
                if isinstance(error, Lost):
                    log.warning("another watch has taken over; begins anew")
                self._begin_anew(stop)
                busy = False
            if not busy:
                stop.wait(_PAUSE)
        self.close()

    def _begin_anew(self, stop: Event) -> None:
        """Begin anew, as soon as that is possible: a bundle may have been spoilt since the last time."""
        self._renewed = 0.0
        while True:
            try:
                self._begin()
            except HedgerowError as error:
                log.error("the watch cannot go on, tries again: %s", error)  # noqa: TRY400 - the operator's fault
                if stop.wait(_AGAIN):
                    return
            else:
                return

    def _take_up(self, make: Make) -> None:
        """Go on with the watches of *make*; with those there are where it makes none."""
        before, self._make, self._next = self._make, make, None
        try:
            self._begin()
        except HedgerowError as error:
            self._make = before
            log.error("not reloaded: %s", error)  # noqa: TRY400 - the fault is the operator's, not ours
            return
        # The leases are ours still: all streams are taken anew, with all that is known of them.
        self._renewed = 0.0
        log.info("the watch has reloaded the settings and the bundles")

    def turn(self) -> bool:
        """Look at what is there; whether there was anything."""
        if self._next is not None:
            self._take_up(self._next)
        now = time.monotonic()
        if now - self._renewed > _RENEW:
            self._lease()
            self._renewed = now
        if not self.held:
            return False
        taken: list[tuple[int, bytes]] = []
        for part, entries in self._read():
            watch = self.sharing if part == SHARING else self.paths
            batches = [decode(data) for _, data in entries]
            if part != SHARING:
                self._fetch({visit.visitor for batch in batches for visit, _ in batch.seen})
            for batch in batches:
                for visitor in batch.missed:
                    watch.miss(visitor)
                for visit, decision in batch.seen:
                    watch.see(visit, decision)
                    self.seen += 1
            taken += [(part, number) for number, _ in entries]
        if taken:
            self._write(taken)
        return bool(taken)

    def close(self) -> None:
        """Let others have the streams at once."""
        try:
            for part in self.held:
                self._link.ask(("EVAL", _LUA_LEAVE, "0", self._key(part), self.name))
            self._link.ask(("ZREM", self._prefix + "watches", self.name))
        except RedisUnavailable:
            pass
        self._link.close()

    # ---- Leases

    def _key(self, part: int) -> str:
        return f"{self._prefix}lease:{part}"

    def _stream(self, part: int) -> str:
        return f"{self._prefix}visits:{part}"

    def _lease(self) -> None:
        """Keep what is held, get what is free, and leave what is more than a fair share of all watches that live."""
        lease = int(_LEASE * 1000)
        seconds, _ = self._link.ask(("TIME",))
        now = int(seconds)
        _, _, _, others = self._link.ask_all(
            [
                ("ZADD", self._prefix + "watches", now, self.name),
                ("ZREMRANGEBYSCORE", self._prefix + "watches", "-inf", now - int(_LEASE)),
                ("EXPIRE", self._prefix + "watches", _DAY),
                ("ZCARD", self._prefix + "watches"),
            ]
        )
        fair = -(-_ALL // max(1, int(others)))
        kept = self._link.ask_all(
            [("EVAL", _LUA_RENEW, "0", self._key(p), self.name, lease) for p in sorted(self.held)]
        )
        if not all(kept):
            raise Lost
        for part in sorted(self.held)[fair:]:
            # Everything of it is written: that is done at the end of each turn.
            self._forget(part)
            self._link.ask(("EVAL", _LUA_LEAVE, "0", self._key(part), self.name))
        first = crc32(self.name.encode()) % _ALL
        for part in [(first + n) % _ALL for n in range(_ALL)]:
            if len(self.held) >= fair:
                return
            if part not in self.held and self._link.ask(("EVAL", _LUA_TAKE, "0", self._key(part), self.name, lease)):
                self._take_over(part)

    def _take_over(self, part: int) -> None:
        """This stream is ours: what another has read and not finished is read again, by us."""
        stream = self._stream(part)
        replies = self._link.ask_all([("XGROUP", "CREATE", stream, _GROUP, "0", "MKSTREAM"), ("EXPIRE", stream, _DAY)])
        if isinstance(replies[0], Exception) and not str(replies[0]).startswith("BUSYGROUP"):
            raise RedisUnavailable
        start: Any = "0-0"
        while True:
            start, *_ = self._link.ask(("XAUTOCLAIM", stream, _GROUP, self.name, 0, start, "COUNT", 1000, "JUSTID"))
            if start == b"0-0":
                break
        if part == SHARING:
            kept = self._link.ask(("HVALS", self._prefix + "campaigns"))
            ties = self._link.ask(("HGETALL", self._prefix + "ties"))
            campaigns = [msgspec.json.decode(one, type=Campaign) for one in kept]
            self.sharing.restore(WatchSnapshot(ties=list(zip(ties[::2], ties[1::2], strict=True))), campaigns)
        self._unfinished.add(part)
        self.held.add(part)

    def _forget(self, part: int) -> None:
        self.held.discard(part)
        self._unfinished.discard(part)
        if part != SHARING:
            # It is all written: forgotten here, and fetched again should it come back.
            self.paths.forget(lambda visitor: part_of(visitor) == part)

    # ---- Visits

    def _read(self) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
        """The next entries of each stream that is held: first those that were claimed, then new ones."""
        parts = sorted(self.held)
        commands: list[Command] = [
            (
                "XREADGROUP", "GROUP", _GROUP, self.name, "COUNT", _AT_ONCE,
                "STREAMS", self._stream(part), "0" if part in self._unfinished else ">",
            )
            for part in parts
        ]  # fmt: skip
        for part, reply in zip(parts, self._link.ask_all(commands), strict=True):
            if isinstance(reply, Exception):
                raise Lost
            entries = reply[0][1] if reply else []
            if not entries:
                self._unfinished.discard(part)
            # What was trimmed meanwhile has a number, and nothing in it.
            yield part, [(number, fields[1]) for number, fields in entries if fields]

    def _fetch(self, visitors: set[str]) -> None:
        """Have the sessions of these here, where somebody has seen them before."""
        wanted = [visitor for visitor in visitors if not self.paths.holds(visitor)]
        if not wanted:
            return
        kept = self._link.ask(("MGET", *(self._session(visitor) for visitor in wanted)))
        found = [(visitor, data) for visitor, data in zip(wanted, kept, strict=True) if data is not None]
        self.paths.restore(WatchSnapshot(sessions=found))

    def _session(self, visitor: str) -> bytes:
        return self._prefix.encode() + b"session:" + text(visitor)

    def _write(self, taken: Sequence[tuple[int, bytes]]) -> None:
        """Sessions, what was found, and that these visits are done with: all of it, or, without the lease, nothing."""
        self.sharing.note_campaigns()
        parts = sorted({part for part, _ in taken})
        owners = self._link.ask_all([("WATCH", *map(self._key, parts)), ("MGET", *map(self._key, parts))])[1]
        if any(owner != self.name.encode() for owner in owners):
            raise Lost
        commands: list[Command] = []
        for visitor, session in self.paths.changed(least=1).sessions.items():
            key = self._session(visitor)
            commands.append(("DEL", key) if session is None else ("SET", key, session[1], "EX", _DAY))
        table = self._prefix + "ties"
        for who, tie in self.sharing.changed().ties.items():
            commands.append(("HDEL", table, who) if tie is None else ("HSET", table, who, tie[1]))
        commands.append(("EXPIRE", table, _DAY))
        commands += [self._scripts.update_score(change) for change in self._found]
        for name, campaign in self._told.items():
            kept = msgspec.json.encode(campaign) if campaign is not None else None
            table = self._prefix + "campaigns"
            commands.append(("HDEL", table, name) if kept is None else ("HSET", table, name, kept))
            commands.append(("EXPIRE", table, _WEEK))
        for part in parts:
            numbers = [number for of, number in taken if of == part]
            commands += [("XACK", self._stream(part), _GROUP, *numbers), ("XDEL", self._stream(part), *numbers)]
        replies = self._link.ask_all([("MULTI",), *commands, ("EXEC",)])
        if replies[-1] is None or isinstance(replies[-1], Exception):
            raise Lost
        self._found.clear()
        self._told.clear()

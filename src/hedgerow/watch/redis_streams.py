"""
A watch shared by several processes on any number of machines, fed by Redis streams.

`Streams` puts visits into one of 16 streams by visitor. Visits by marked links also go into a further stream for link
sharing, because issuer and user of a link may be in different streams. Each stream has one watch at a time, which holds
a lease on it. Findings, sessions and the acknowledgement of visits are written in one transaction, and only while the
lease is held. A successor therefore continues exactly there, and no visit counts twice.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from zlib import crc32

import msgspec

from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.errors import HedgerowError
from hedgerow.state.redis.address import RedisAddress, RedisUnavailable
from hedgerow.state.redis.scripts import Command, Scripts, text
from hedgerow.state.redis.thread_connection import ThreadConnection
from hedgerow.watch.relay import Seen, decode, encode
from hedgerow.watch.session_store import WatchSnapshot
from hedgerow.watch.watch import Watch

log = logging.getLogger(__name__)

PARTS = 16
SHARING = PARTS
"""The number of the stream for link sharing."""
_STREAMS = PARTS + 1
_GROUP = "watch"
_TIMEOUT = 5.0
_LEASE = 3.0
_RENEW_EVERY = 0.5
_PAUSE = 0.05
_RETRY_AFTER = 1.0
_MAX_WAITING = 10_000
_READ_COUNT = 50
_DAY = 86_400
_WEEK = 7 * _DAY
_LUA_TAKE = (
    "local owner = redis.call('GET', ARGV[1]) if owner and owner ~= ARGV[2] then return 0 end "
    "redis.call('SET', ARGV[1], ARGV[2], 'PX', ARGV[3]) return 1"
)
_LUA_RENEW = "if redis.call('GET', ARGV[1]) == ARGV[2] then return redis.call('PEXPIRE', ARGV[1], ARGV[3]) end return 0"
_LUA_LEAVE = "if redis.call('GET', ARGV[1]) == ARGV[2] then return redis.call('DEL', ARGV[1]) end return 0"


def part_of(visitor: str) -> int:
    """Return the number of a visitor's stream. It is the same in all gates."""
    return crc32(text(visitor)) % PARTS


class Streams:
    """Puts visits into the streams; `deliver` is the delivery function of a `Relay`."""

    def __init__(self, address: RedisAddress, prefix: str) -> None:
        self._prefix = prefix
        self._redis = ThreadConnection(address, lambda: (), timeout=_TIMEOUT)

    def deliver(self, seen: Sequence[Seen], missed: Sequence[str]) -> bool:
        """Add visits to the streams. Return false if Redis is unavailable. A full stream drops its oldest."""
        parts: defaultdict[int, tuple[list[Seen], list[str]]] = defaultdict(lambda: ([], []))
        for one in seen:
            visit = one[0]
            if visit.bot or not visit.visitor:
                continue
            parts[part_of(visit.visitor)][0].append(one)
            is_marked_page = visit.marker is not None and visit.kind == "page"
            if is_marked_page or one[1].action == "challenge":
                parts[SHARING][0].append(one)
        for visitor in missed:
            parts[part_of(visitor)][1].append(visitor)
        commands: list[Command] = []
        for part, (visits, missed_visitors) in parts.items():
            key = f"{self._prefix}visits:{part}"
            commands.append(("XADD", key, "MAXLEN", "~", _MAX_WAITING, "*", "b", encode(visits, missed_visitors)))
            commands.append(("EXPIRE", key, _DAY))
        if not commands:
            return True
        try:
            self._redis.ask_all([("MULTI",), *commands, ("EXEC",)])
        except RedisUnavailable:
            return False
        return True

    def close(self) -> None:
        self._redis.close()


WatchFactory = Callable[[Callable[[ScoreUpdate], None]], tuple[Watch, Watch]]
"""Makes a watch for paths and one for link sharing, which pass their score updates to the argument."""


class LeaseLostError(Exception):
    """Another watch holds the lease of a stream; it will process the visits that were not acknowledged."""


class SharedWatch:
    """Watches the streams that it holds leases on. *scripts* are those of the state; they apply score updates."""

    def __init__(self, address: RedisAddress, scripts: Scripts, factory: WatchFactory) -> None:
        self._prefix = scripts.prefix
        self._scripts = scripts
        self._factory = factory
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._redis = ThreadConnection(
            address, lambda: [("SCRIPT", "LOAD", scripts.amend_script.text)], timeout=_TIMEOUT
        )
        self._renewed = 0.0
        self._next_factory: WatchFactory | None = None
        self.seen = 0
        """Visits processed."""
        self._reset()

    def _reset(self) -> None:
        """Start with empty watches and no leases. If the watches cannot be made, nothing changes."""
        updates: list[ScoreUpdate] = []
        self.paths, self.sharing = self._factory(updates.append)
        self.held: set[int] = set()
        # Streams with entries claimed from another watch. These are read before new entries.
        self._unfinished: set[int] = set()
        self._updates = updates
        self._campaigns: dict[str, Campaign | None] = {}
        self.sharing.note = self._campaigns.__setitem__
        for watch in (self.paths, self.sharing):
            watch.record_changes()

    def use(self, factory: WatchFactory) -> None:
        """Continue with watches of a new factory, after a reload of the settings. All data is in Redis."""
        self._next_factory = factory

    def run(self, stop: Event) -> None:
        """Watch until *stop* is set. While Redis is unavailable, visits wait in the streams or in the gates."""
        while not stop.is_set():
            try:
                busy = self.process()
            except (RedisUnavailable, LeaseLostError) as error:
                if isinstance(error, LeaseLostError):
                    log.warning("another watch has taken over a stream; starting again")
                self._restart(stop)
                busy = False
            if not busy:
                stop.wait(_PAUSE)
        self.close()

    def _restart(self, stop: Event) -> None:
        """Reset as soon as that is possible: a model bundle may be broken at the moment."""
        self._renewed = 0.0
        while not stop.is_set():
            try:
                self._reset()
            except HedgerowError as error:
                log.error("the watch cannot start, will retry: %s", error)  # noqa: TRY400 - a fault of the operator
                stop.wait(_RETRY_AFTER)
            else:
                return

    def _reload(self, factory: WatchFactory) -> None:
        """Switch to the watches of *factory*; keep the current ones if it fails."""
        previous, self._factory, self._next_factory = self._factory, factory, None
        try:
            self._reset()
        except HedgerowError as error:
            self._factory = previous
            log.error("not reloaded: %s", error)  # noqa: TRY400 - a fault of the operator
            return
        # The leases are still held. The next renewal takes all streams again, with their stored data.
        self._renewed = 0.0
        log.info("the watch has reloaded the settings and the bundles")

    def process(self) -> bool:
        """Process the visits that have arrived. Return whether there were any."""
        if self._next_factory is not None:
            self._reload(self._next_factory)
        now = time.monotonic()
        if now - self._renewed > _RENEW_EVERY:
            self._renew_leases()
            self._renewed = now
        if not self.held:
            return False
        processed: list[tuple[int, bytes]] = []
        for part, entries in self._read_entries():
            watch = self.sharing if part == SHARING else self.paths
            batches = [decode(data) for _, data in entries]
            if part != SHARING:
                self._fetch_sessions({visit.visitor for batch in batches for visit, _ in batch.seen})
            for batch in batches:
                for visitor in batch.missed:
                    watch.miss(visitor)
                for visit, decision in batch.seen:
                    watch.see(visit, decision)
                    self.seen += 1
            processed += [(part, entry_id) for entry_id, _ in entries]
        if processed:
            self._commit(processed)
        return bool(processed)

    def close(self) -> None:
        """Release all streams, so that other watches can take them at once."""
        try:
            for part in self.held:
                self._redis.ask(self._lease_command(_LUA_LEAVE, part))
            self._redis.ask(("ZREM", self._prefix + "watches", self.name))
        except RedisUnavailable:
            pass
        self._redis.close()

    # ---- Leases

    def _lease_key(self, part: int) -> str:
        return f"{self._prefix}lease:{part}"

    def _lease_command(self, script: str, part: int) -> Command:
        return ("EVAL", script, "0", self._lease_key(part), self.name, int(_LEASE * 1000))

    def _stream_key(self, part: int) -> str:
        return f"{self._prefix}visits:{part}"

    def _renew_leases(self) -> None:
        """Renew held leases, take free streams, and release those above a fair share of live watches."""
        now, names = int(self._redis.ask(("TIME",))[0]), self._prefix + "watches"
        expired: Command = ("ZREMRANGEBYSCORE", names, "-inf", now - int(_LEASE))
        *_, watches = self._redis.ask_all(
            [("ZADD", names, now, self.name), expired, ("EXPIRE", names, _DAY), ("ZCARD", names)]
        )
        fair = -(-_STREAMS // max(1, int(watches)))
        if not all(self._redis.ask_all([self._lease_command(_LUA_RENEW, part) for part in sorted(self.held)])):
            raise LeaseLostError
        for part in sorted(self.held)[fair:]:
            # All its data is committed: that happens at the end of each `process`.
            self._release(part)
            self._redis.ask(self._lease_command(_LUA_LEAVE, part))
        first = crc32(self.name.encode()) % _STREAMS
        for part in [(first + n) % _STREAMS for n in range(_STREAMS)]:
            if len(self.held) >= fair:
                return
            if part not in self.held and self._redis.ask(self._lease_command(_LUA_TAKE, part)):
                self._take_over(part)

    def _take_over(self, part: int) -> None:
        """Take a stream over: claim the entries that another watch read and did not finish."""
        stream = self._stream_key(part)
        replies = self._redis.ask_all([("XGROUP", "CREATE", stream, _GROUP, "0", "MKSTREAM"), ("EXPIRE", stream, _DAY)])
        if isinstance(replies[0], Exception) and not str(replies[0]).startswith("BUSYGROUP"):
            raise RedisUnavailable
        start: bytes | None = None
        while start != b"0-0":
            claim = ("XAUTOCLAIM", stream, _GROUP, self.name, 0, start or b"0-0", "COUNT", 1000, "JUSTID")
            start, *_ = self._redis.ask(claim)
        if part == SHARING:
            stored = self._redis.ask(("HVALS", self._prefix + "campaigns"))
            nodes = self._redis.ask(("HGETALL", self._prefix + "ties"))
            campaigns = [msgspec.json.decode(one, type=Campaign) for one in stored]
            self.sharing.restore(WatchSnapshot(ties=list(zip(nodes[::2], nodes[1::2], strict=True))), campaigns)
        self._unfinished.add(part)
        self.held.add(part)

    def _release(self, part: int) -> None:
        self.held.discard(part)
        self._unfinished.discard(part)
        if part != SHARING:
            # All its data is committed. It is fetched again if the stream comes back.
            self.paths.forget(lambda visitor: part_of(visitor) == part)

    # ---- Visits

    def _read_entries(self) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
        """Yield the next entries of each held stream: claimed ones first, then new ones."""
        parts = sorted(self.held)
        commands: list[Command] = [
            (
                "XREADGROUP", "GROUP", _GROUP, self.name, "COUNT", _READ_COUNT,
                "STREAMS", self._stream_key(part), "0" if part in self._unfinished else ">",
            )
            for part in parts
        ]  # fmt: skip
        for part, reply in zip(parts, self._redis.ask_all(commands), strict=True):
            if isinstance(reply, Exception):
                raise LeaseLostError
            entries = reply[0][1] if reply else []
            if not entries:
                self._unfinished.discard(part)
            # An entry that was trimmed meanwhile has an id and no fields.
            yield part, [(entry_id, fields[1]) for entry_id, fields in entries if fields]

    def _fetch_sessions(self, visitors: set[str]) -> None:
        missing = [visitor for visitor in visitors if not self.paths.holds(visitor)]
        if not missing:
            return
        stored = self._redis.ask(("MGET", *(self._session_key(visitor) for visitor in missing)))
        sessions = [(visitor, data) for visitor, data in zip(missing, stored, strict=True) if data is not None]
        self.paths.restore(WatchSnapshot(sessions))

    def _session_key(self, visitor: str) -> bytes:
        return self._prefix.encode() + b"session:" + text(visitor)

    def _commit(self, processed: Sequence[tuple[int, bytes]]) -> None:
        """Write sessions, findings and acknowledgements in one transaction, or nothing if the lease is lost."""
        self.sharing.note_campaigns()
        parts = sorted({part for part, _ in processed})
        owners = self._redis.ask_all([("WATCH", *map(self._lease_key, parts)), ("MGET", *map(self._lease_key, parts))])[
            1
        ]
        if any(owner != self.name.encode() for owner in owners):
            raise LeaseLostError
        commands: list[Command] = []
        for visitor, session in self.paths.changed(min_steps=1).sessions.items():
            key = self._session_key(visitor)
            commands.append(("DEL", key) if session is None else ("SET", key, session[1], "EX", _DAY))
        table = self._prefix + "ties"
        for user, node in self.sharing.changed().ties.items():
            commands.append(("HDEL", table, user) if node is None else ("HSET", table, user, node[1]))
        commands.append(("EXPIRE", table, _DAY))
        commands += [self._scripts.update_score(change) for change in self._updates]
        table = self._prefix + "campaigns"
        for name, campaign in self._campaigns.items():
            stored = ("HDEL", table, name) if campaign is None else ("HSET", table, name, msgspec.json.encode(campaign))
            commands += [stored, ("EXPIRE", table, _WEEK)]
        for part in parts:
            stream, ids = self._stream_key(part), [entry_id for of, entry_id in processed if of == part]
            commands += [("XACK", stream, _GROUP, *ids), ("XDEL", stream, *ids)]
        replies = self._redis.ask_all([("MULTI",), *commands, ("EXEC",)])
        if replies[-1] is None or isinstance(replies[-1], Exception):
            raise LeaseLostError
        self._updates.clear()
        self._campaigns.clear()

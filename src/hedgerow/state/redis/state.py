"""
The state of all servers of a site, on any number of machines, in Redis or Valkey: one script per visit.

While Redis is unavailable, a server continues with its own counters and blocks in memory, and with all blocks that it
has seen before. Its own changes are sent when Redis is back. If the settings say so, it raises `StateUnavailable`
instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from hedgerow.core.decision import Block, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateQuery, StateReply, StateUnavailable
from hedgerow.core.visit import Kind
from hedgerow.errors import StoreError
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.redis.address import TIMEOUT, RedisAddress, RedisUnavailable
from hedgerow.state.redis.loop_connection import LoopConnection
from hedgerow.state.redis.scripts import Command, RedisRecord, Script, Scripts, decode_record, text
from hedgerow.state.redis.thread_connection import ThreadConnection
from hedgerow.state.sqlite.journal import SqliteJournal
from hedgerow.state.store import RunBlocking

log = logging.getLogger(__name__)

_MAX_UNDELIVERED = 100_000
_MAX_SEEN_BLOCKS = 10_000
_MAX_REPEATED = 1_000
_RECORDS_AT_ONCE = 500
_ALONE = "Redis does not answer; this gate decides alone"


class RedisState:
    """
    Counters, scores and blocks in Redis at *address*, under keys that start with *prefix*.

    *memory*, *most_blocks* and *remember* are as for `MemoryState`, which stands in while Redis is unavailable. In
    Redis everything expires, and *memory* limits only the scores. If *closed*, `StateUnavailable` is raised instead.
    *clock* tells when a visitor is forgiven.
    """

    def __init__(
        self,
        address: RedisAddress,
        windows: Sequence[RateLimit],
        *,
        prefix: str = "hedgerow:",
        memory: int = 300_000_000,
        most_blocks: int = 100_000,
        remember: float = 0.0,
        closed: bool = False,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._clock = clock
        self._timeout = timeout
        self._closed = closed
        self.scripts = Scripts(prefix, windows, memory=memory, most_blocks=most_blocks, remember=remember)
        self._local = MemoryState(windows, memory=memory // 4, most_blocks=most_blocks, remember=remember)
        self._seen: OrderedDict[bytes, StateReply] = OrderedDict()
        self._undelivered: deque[Command] = deque(maxlen=_MAX_UNDELIVERED)
        self._loaded: list[Script] = []
        self._on_loop: LoopConnection | None = None
        self._opening: tuple[LoopConnection, asyncio.Task[None]] | None = None
        self._loop_thread = 0
        self._run: RunBlocking | None = None
        self.alone = 0
        self._connection = ThreadConnection(
            address, self._first_commands, timeout=timeout, on_undelivered=self._deliver_later,
            on_connected=self._deliver,
        )  # fmt: skip

    def _first_commands(self) -> list[Command]:
        """Return the commands that load all scripts, and those that were not delivered before."""
        undelivered = []
        while self._undelivered:
            undelivered.append(self._undelivered.popleft())
        scripts = (*self.scripts.all(), *self._loaded)
        # Redis may have been restarted, and be empty.
        known = [self.scripts.commit(block, again=True) for block in self._local.blocks(self._clock())[-_MAX_REPEATED:]]
        return [*(("SCRIPT", "LOAD", script.text) for script in scripts), *known, *undelivered]

    def _deliver_later(self, commands: Sequence[Command]) -> None:
        """Send *commands* before all others when Redis is back, but not what each connection begins with anyway."""
        is_again = self.scripts.is_again
        self._undelivered.extendleft(one for one in reversed(commands) if one[:1] != ("SCRIPT",) and not is_again(one))

    def _deliver(self, send: Callable[[Command], bool]) -> None:
        """Send what had to wait while a connection was opening and its first commands were on the way."""
        while self._undelivered:
            command = self._undelivered.popleft()
            try:
                is_sent = send(command)
            except StoreError as error:
                log.error("%s", error)  # noqa: TRY400 - the message says it all
                continue
            if not is_sent:
                self._undelivered.appendleft(command)
                return

    def key(self, name: str) -> str:
        """Return the key of something else that servers share."""
        return self.scripts.prefix + name

    def load(self, script: Script) -> None:
        """Load another script, now and whenever Redis was restarted."""
        self._loaded.append(script)
        self._load(script)

    def _load(self, script: Script) -> None:
        with contextlib.suppress(RedisUnavailable):
            self.ask(("SCRIPT", "LOAD", script.text))

    def ask(self, command: Command) -> Any:
        """Wait for the reply to *command*, and return it, or raise `RedisUnavailable`."""
        return self._connection.ask(command)

    def ask_soon(self, command: Command, then: Callable[[Any], None]) -> None:
        """Call *then* with the reply to *command*: at once in a thread, later in an event loop."""
        connection = self._loop_connection()
        if connection is None:
            with contextlib.suppress(RedisUnavailable):
                then(self.ask(command))
            return

        def done(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                then(future.result())

        connection.ask(command).add_done_callback(done)

    def _loop_connection(self) -> LoopConnection | None:
        """Return the connection of the event loop that runs in this thread, if any."""
        return self._on_loop if threading.get_ident() == self._loop_thread else None

    def use_limits(self, windows: Sequence[RateLimit]) -> None:
        self.scripts.use_limits(windows)
        self._local.use_limits(windows)
        self._load(self.scripts.recall_script)

    @property
    def unavailable(self) -> bool:
        return (self._on_loop or self._connection).unavailable

    def check(self) -> str:
        try:
            self.ask(("PING",))
        except RedisUnavailable:
            return _ALONE
        except StoreError as error:
            return str(error)
        return _ALONE if self.unavailable else ""

    @property
    def errors(self) -> int:
        return self._connection.failures + (self._on_loop.failures if self._on_loop is not None else 0)

    @property
    def connect_error(self) -> str:
        return self._connection.connect_error

    @property
    def bytes_used(self) -> int:
        return self._local.bytes_used

    @property
    def forgotten(self) -> int:
        return self._local.forgotten

    def __len__(self) -> int:
        return len(self._local)

    def use_journal(self, journal: SqliteJournal) -> None:
        """Do nothing: the data in Redis survives a restart of this process."""

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        """Do nothing, as there is no journal."""

    def close(self) -> None:
        self._connection.close()

    # ---- Visits

    def use_threads(self, run: RunBlocking) -> None:
        self._run = run

    async def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        command = self.scripts.record_visit(query, counted_as)
        try:
            if self._run is not None:
                reply = await self._run(partial(self.ask, command), self._timeout)
            else:
                reply = await (self._on_loop or await self._open()).ask(command)
        except RedisUnavailable:
            if self._closed:
                raise StateUnavailable from None
            self.alone += 1
            return self._local.record_visit(query, counted_as)
        return self._decode(query, reply)

    async def _open(self) -> LoopConnection:
        """Return the connection of this loop. Callers wait while it opens, as long as for a reply."""
        if self._opening is None:
            connection = LoopConnection(
                self._address, self._first_commands, timeout=self._timeout, on_undelivered=self._deliver_later,
                on_connected=self._deliver,
            )  # fmt: skip
            self._opening = (connection, asyncio.ensure_future(connection.open()))
        connection, opening = self._opening
        await asyncio.wait([opening], timeout=self._timeout)
        if opening.done() and self._on_loop is None:
            self._on_loop, self._loop_thread = connection, threading.get_ident()
        return connection

    async def disconnect(self) -> None:
        if self._opening is not None:
            connection, opening = self._opening
            await asyncio.wait([opening])
            await connection.close()
            self._on_loop = self._opening = None

    def _decode(self, query: StateQuery, reply: Any) -> StateReply:
        """Decode a reply. A block is decoded once and stays known if Redis becomes unavailable."""
        if type(reply) is not bytes:
            # Another server may have forgiven the visitor: the copy must not block it when Redis is away.
            self._local.forget_blocks(query)
            return self.scripts.reply(query, reply)
        known = self._seen.get(reply)
        if known is None:
            known = self._seen[reply] = self.scripts.reply(query, reply)
            if len(self._seen) > _MAX_SEEN_BLOCKS:
                self._seen.popitem(last=False)
        if known.block is not None and not self._local.has_block(known.block.key):
            self._local.commit(known.block)
        return known

    # ---- Changes

    def commit(self, block: Block) -> None:
        self._local.commit(block)
        self._send(self.scripts.commit(block))

    def update_score(self, change: ScoreUpdate) -> None:
        if not self._send(self.scripts.update_score(change)):
            self._local.update_score(change)

    def forgive(self, key: str) -> bool | None:
        known = self._local.forgive(key)
        self._seen.clear()
        command = self.scripts.forgive(key, self._clock())
        try:
            return bool(self.ask(command))
        except RedisUnavailable:
            self._undelivered.append(command)
            return known or None

    def blocks(self, at: float) -> Sequence[Block]:
        try:
            found = [record.block for record in self._records("b")]
        except RedisUnavailable:
            return self._local.blocks(at)
        return [block for block in found if block is not None and block.until > at]

    def scores(self) -> Sequence[tuple[str, VisitorScore]]:
        try:
            return [(record.k, score) for record in self._records("s") if (score := record.score) is not None]
        except RedisUnavailable:
            return self._local.scores()

    def look_up(self, keys: Sequence[str], at: float) -> tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]:
        names = (self.key("m:").encode() + text(key) for key in keys)
        try:
            found = [decode_record(reply) for reply in self.ask(("MGET", *names)) if reply is not None]
        except RedisUnavailable:
            return self._local.look_up(keys, at)
        blocks = [block for record in found if (block := record.block) is not None and block.until > at]
        return blocks, [(record.k, score) for record in found if (score := record.score) is not None]

    def _records(self, part: Literal["b", "s"]) -> list[RedisRecord]:
        """Return the records of all keys with a block, or with a score or entries, by their last change."""
        keys, records = self.ask(("ZRANGE", self.key(f"o:{part}"), "0", "-1")), list[RedisRecord]()
        for start in range(0, len(keys), _RECORDS_AT_ONCE):
            names = (self.key("m:").encode() + key for key in keys[start : start + _RECORDS_AT_ONCE])
            records += [decode_record(reply) for reply in self.ask(("MGET", *names)) if reply is not None]
        return records

    def _send(self, command: Command) -> bool:
        """Send *command*, in the order of this process. Return False if it has to wait until Redis is back."""
        connection = self._loop_connection() or self._connection
        if connection.send(command):
            return True
        self._undelivered.append(command)
        return False

"""
The state of all gates of a site, on however many machines: Redis or Valkey, one script a visit.

While Redis does not answer the gate goes on by itself: counters and blocks of its own, in memory, with all blocks that
it has seen before; what it blocks and finds out meanwhile is told to Redis when that is back. Or it says so, where the
settings want it closed (`StateUnavailable`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hedgerow.core.decision import Block, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateQuery, StateReply, StateUnavailable
from hedgerow.core.visit import Kind
from hedgerow.state.memory.state import MemoryState
from hedgerow.state.redis.address import PATIENCE, RedisAddress, RedisUnavailable
from hedgerow.state.redis.loop_connection import LoopConnection
from hedgerow.state.redis.scripts import Command, Script, Scripts
from hedgerow.state.redis.thread_connection import ThreadConnection
from hedgerow.state.sqlite.journal import SqliteJournal
from hedgerow.state.store import RunBlocking

_MOST_OWED = 100_000
_MOST_SEEN = 10_000
_AT_ONCE = 500


class RedisState:
    """
    Counters, blocks and standings in Redis at *address*, under keys that start with *prefix*.

    *memory*, *most_blocks* and *remember* as of `MemoryState`, of which one stands in while Redis is away; in Redis all
    that has an end has a time to live, and *memory* bounds standings alone. *closed*: raise StateAway instead.
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
        patience: float = PATIENCE,
    ) -> None:
        self._address = address
        self._patience = patience
        self._closed = closed
        self.scripts = Scripts(prefix, windows, memory=memory, most_blocks=most_blocks, remember=remember)
        self._local = MemoryState(windows, memory=memory // 4, most_blocks=most_blocks, remember=remember)
        self._seen: OrderedDict[bytes, StateReply] = OrderedDict()
        self._owed: deque[Command] = deque(maxlen=_MOST_OWED)
        self._loaded: list[Script] = []
        self._loop_link: LoopConnection | None = None
        self._opening: tuple[LoopConnection, asyncio.Task[None]] | None = None
        self._loop_thread = 0
        self._run: RunBlocking | None = None
        self.alone = 0
        """Visits decided without Redis."""
        self._link = ThreadConnection(address, self.greeting, patience=patience, owe=self.owe)

    def greeting(self) -> list[Command]:
        """What a connection begins with: all scripts, and what Redis has not been told yet."""
        owed = []
        while self._owed:
            owed.append(self._owed.popleft())
        scripts = (*self.scripts.all(), *self._loaded)
        return [*(("SCRIPT", "LOAD", script.text) for script in scripts), *owed]

    def owe(self, commands: Sequence[Command]) -> None:
        """These may not have reached Redis: told again when it is back, before all others."""
        self._owed.extendleft(command for command in reversed(commands) if command[:1] != ("SCRIPT",))

    def key(self, name: str) -> str:
        """The key of something else that gates share."""
        return self.scripts.prefix + name

    def load(self, script: Script) -> None:
        """Have a script that others call known to Redis from now on."""
        self._loaded.append(script)
        self._load(script)

    def _load(self, script: Script) -> None:
        """Redis knows it from then on, whichever connection calls it; one that is away begins with it."""
        with contextlib.suppress(RedisUnavailable):
            self._link.ask(("SCRIPT", "LOAD", script.text))

    def ask(self, command: Command) -> Any:
        """The reply to *command*, waited for; or Away."""
        return self._link.ask(command)

    def ask_soon(self, command: Command, then: Callable[[Any], None]) -> None:
        """Have *then* called with the reply to *command*: at once in a thread, in an event loop when it is there."""
        link = self._loop_link
        if link is None or threading.get_ident() != self._loop_thread:
            with contextlib.suppress(RedisUnavailable):
                then(self._link.ask(command))
            return

        def answered(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                then(future.result())

        link.ask(command).add_done_callback(answered)

    def use(self, windows: Sequence[RateLimit]) -> None:
        """Count for these windows from now on: settings were read again. What is remembered stays."""
        self.scripts.use(windows)
        self._local.use(windows)
        self._load(self.scripts.recall_script)

    @property
    def away(self) -> bool:
        link = self._loop_link or self._link
        return link.away

    @property
    def why(self) -> str:
        """Why Redis could not be reached at the start."""
        return self._link.why

    @property
    def spent(self) -> int:
        """Bytes that the counters take in this process, not in Redis."""
        return self._local.spent

    @property
    def forgotten(self) -> int:
        return self._local.forgotten

    def __len__(self) -> int:
        return len(self._local)

    def keep_in(self, journal: SqliteJournal) -> None:
        """Redis outlives a restart by itself."""

    def restore(self, blocks: Sequence[Block], scores: Sequence[tuple[str, VisitorScore]]) -> None:
        """Likewise: nothing was kept elsewhere."""

    def close(self) -> None:
        self._link.close()

    # ---- Visits

    def use_threads(self, run: RunBlocking) -> None:
        """Answer threads that have no event loop: *run* makes what blocks them awaitable."""
        self._run = run

    async def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> StateReply:
        """Queries of one turn of the event loop, or of threads at the same time, go out together."""
        command = self.scripts.record_visit(query, counted_as)
        try:
            if self._run is not None:
                reply = await self._run(partial(self._link.ask, command), self._patience)
            else:
                reply = await (self._loop_link or await self._open()).ask(command)
        except RedisUnavailable:
            return self._by_itself(query, counted_as)
        return self._understood(query, reply)

    async def _open(self) -> LoopConnection:
        """The connection of this loop. Whoever comes while it is being made waits for it, as long as for an answer."""
        if self._opening is None:
            link = LoopConnection(self._address, self.greeting, patience=self._patience, owe=self.owe)
            self._opening = (link, asyncio.ensure_future(link.open()))
        link, opening = self._opening
        await asyncio.wait([opening], timeout=self._patience)
        if opening.done() and self._loop_link is None:
            self._loop_link, self._loop_thread = link, threading.get_ident()
        return link

    async def disconnect(self) -> None:
        """Close the connection of this event loop."""
        if self._opening is not None:
            link, opening = self._opening
            await asyncio.wait([opening])
            await link.close()
            self._loop_link = self._opening = None

    # ---- What changes

    def commit(self, block: Block) -> None:
        self._local.commit(block)
        self._tell(self.scripts.commit(block))

    def update_score(self, change: ScoreUpdate) -> None:
        if not self._tell(self.scripts.update_score(change)):
            self._local.update_score(change)

    def forgive(self, key: str) -> bool | None:
        known = self._local.forgive(key)
        self._seen.clear()
        try:
            return bool(self._link.ask(self.scripts.forgive(key)))
        except RedisUnavailable:
            self._owed.append(self.scripts.forgive(key))
            return known or None

    def blocks(self, at: float) -> Sequence[Block]:
        try:
            found = [record.block for record in self._records("b")]
        except RedisUnavailable:
            return self._local.blocks(at)
        return [block for block in found if block is not None and block.until > at]

    def scores(self) -> Sequence[tuple[str, VisitorScore]]:
        try:
            return [(record.k, record.score) for record in self._records("s") if record.score is not None]
        except RedisUnavailable:
            return self._local.scores()

    def _records(self, sort: Any) -> list[Any]:
        keys = self._link.ask(self.scripts.in_order(sort))
        records = []
        for start in range(0, len(keys), _AT_ONCE):
            replies = self._link.ask(self.scripts.records(keys[start : start + _AT_ONCE]))
            records += [self.scripts.record(reply) for reply in replies if reply is not None]
        return records

    def _tell(self, command: Command) -> bool:
        """Have *command* carried out, in the order of this process; later, where Redis is away."""
        link = self._loop_link
        if link is not None and threading.get_ident() == self._loop_thread:
            if link.tell(command):
                return True
        else:
            try:
                self._link.ask(command)
            except RedisUnavailable:
                pass
            else:
                return True
        self._owed.append(command)
        return False

    # ---- What is answered

    def _understood(self, query: StateQuery, reply: Any) -> StateReply:
        """A block is understood once, and known from then on should Redis go away."""
        if type(reply) is not bytes:
            return self.scripts.memory(query, reply)
        memory = self._seen.get(reply)
        if memory is None:
            memory = self._seen[reply] = self.scripts.memory(query, reply)
            if memory.block is not None:
                self._local.commit(memory.block)
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
        return memory

    def _by_itself(self, query: StateQuery, counted_as: Kind | None) -> StateReply:
        if self._closed:
            raise StateUnavailable
        self.alone += 1
        return self._local.record_visit(query, counted_as)

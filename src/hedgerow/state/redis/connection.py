"""
Connections to Redis that nobody waits for long.

`ThreadConnection` is for threads: what several of them ask at once goes out together, sent by the first of them.
`LoopConnection` is for an event loop: what is asked within one turn of the loop goes out together at its end. Both
answer within *patience* seconds or raise `RedisUnavailable`; from then on they raise it at once, until a connection is
made again beside the requests. A connection begins with what *greet* says: the scripts, and what is owed. What was
sent, and perhaps not carried out, goes back to *owe*.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import hiredis
import msgspec

from hedgerow.errors import StoreError
from hedgerow.state.redis.scripts import Command

log = logging.getLogger(__name__)

Greet = Callable[[], Sequence[Command]]
Owe = Callable[[Sequence[Command]], None]

PATIENCE = 0.03
"""Seconds that a request waits for an answer."""
_CONNECT = 1.0
_AGAIN = 0.2
_TICK = 0.005
_MOST_OWED = 100_000
_PORT = 6379


def _packed(command: Command) -> bytes:
    # What says that it takes a tuple of one takes any.
    return command if type(command) is bytes else hiredis.pack_command(command)  # type: ignore[arg-type]


class RedisUnavailable(Exception):  # noqa: N818 - not an error here: Redis cannot be asked now
    """Redis does not answer."""


class RedisAddress(msgspec.Struct, frozen=True):
    """Where Redis is: `redis://user:password@host:port/database`, `rediss://` for TLS, or `unix:///path`."""

    host: str
    port: int
    path: str = ""
    database: int = 0
    user: str = ""
    password: str = ""
    tls: bool = False
    ca_file: str = ""

    def context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.ca_file or None) if self.tls else None

    def first_words(self) -> list[Command]:
        words: list[Command] = []
        if self.password:
            words.append(("AUTH", self.user, self.password) if self.user else ("AUTH", self.password))
        if self.database:
            words.append(("SELECT", self.database))
        return words


def parse_redis_address(url: str, *, password: str = "", ca_file: str = "") -> RedisAddress:
    """An address from its URL; ValueError with a sentence where it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
        database = int(parts.path.strip("/") or 0) if parts.scheme != "unix" else 0
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in {"redis", "rediss", "unix"} or not (parts.hostname or parts.path):
        raise ValueError(f"{url!r} is not an address such as redis://127.0.0.1:6379/0, rediss://... or unix:///path")
    return RedisAddress(
        parts.hostname or "", port, parts.path if parts.scheme == "unix" else "", database,
        unquote(parts.username or ""), password or unquote(parts.password or ""), parts.scheme == "rediss", ca_file,
    )  # fmt: skip


class _Slot:
    """The commands of one thread, and their replies."""

    __slots__ = ("commands", "done", "leads", "reply")

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.done = threading.Event()
        self.leads = False
        self.reply: list[Any] | None = None


class ThreadConnection:
    """A connection that threads share."""

    def __init__(
        self, address: RedisAddress, greet: Greet, *, patience: float = PATIENCE, owe: Owe | None = None
    ) -> None:
        self._address = address
        self._greet = greet
        self._owe = owe
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: list[_Slot] = []
        self._led = False
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        self._stop = threading.Event()
        self._reconnecting: threading.Thread | None = None
        self.why = ""
        """Why it could not be reached at the start."""
        try:
            self._connect()
        except OSError as error:
            self.why = str(error)
            log.warning("Redis cannot be reached (%s); tried again", error)
            self._lose()

    @property
    def away(self) -> bool:
        return self._socket is None

    def ask(self, command: Command) -> Any:
        """The reply to *command*, or Away."""
        reply = self.ask_all((command,))[0]
        if isinstance(reply, hiredis.ReplyError):
            raise StoreError(f"Redis refused a command: {reply}")
        return reply

    def _wait_for(self, slot: _Slot) -> _Slot:
        with self._lock:
            if self._socket is None:
                raise RedisUnavailable
            self._waiting.append(slot)
            slot.leads = not self._led
            self._led = True
        if not slot.leads:
            slot.done.wait()
        if slot.leads:
            self._lead()
        if slot.reply is None:
            raise RedisUnavailable
        return slot

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to *commands*, sent together and carried out with nobody's of this link between them."""
        if not commands:
            return []
        slot = self._wait_for(_Slot(commands))
        return slot.reply or []

    def close(self) -> None:
        self._stop.set()
        if self._reconnecting is not None:
            self._reconnecting.join()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _lead(self) -> None:
        """Send what waits, read the answers, and let the next one lead where more has come meanwhile."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            replies = iter(self._exchange([command for slot in batch for command in slot.commands]))
            for slot in batch:
                slot.reply = [next(replies) for _ in slot.commands]
        except (OSError, hiredis.HiredisError, RedisUnavailable) as error:
            self._lose(error)
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._led = following is not None
            if following is not None:
                following.leads = True
        if following is not None:
            following.done.set()
        for slot in batch:
            slot.done.set()

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        connected = self._socket
        if connected is None:
            raise RedisUnavailable
        end = time.monotonic() + self._patience
        connected.settimeout(self._patience)
        connected.sendall(b"".join(_packed(command) for command in commands))
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is not False:
                replies.append(reply)
                continue
            left = end - time.monotonic()
            if left <= 0:
                raise RedisUnavailable
            connected.settimeout(left)
            data = connected.recv(65536)
            if not data:
                raise RedisUnavailable
            self._reader.feed(data)
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError) and str(reply).startswith(("NOSCRIPT", "LOADING", "READONLY")):
                raise RedisUnavailable
        return replies

    def _connect(self) -> None:
        """Connect and greet; what was begun and failed is closed again."""
        with contextlib.ExitStack() as undo:
            connected = undo.enter_context(self._connected())
            context = self._address.context()
            if context is not None:
                connected = undo.enter_context(context.wrap_socket(connected, server_hostname=self._address.host))
            reader = self._greeted(connected)
            undo.pop_all()
        self._reader = reader
        self._socket = connected

    def _connected(self) -> socket.socket:
        address = self._address
        if address.path:
            with contextlib.ExitStack() as undo:
                connected = undo.enter_context(socket.socket(socket.AF_UNIX))
                connected.settimeout(_CONNECT)
                connected.connect(address.path)
                undo.pop_all()
            return connected
        connected = socket.create_connection((address.host, address.port), timeout=_CONNECT)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _greeted(self, connected: socket.socket) -> hiredis.Reader:
        """Say the first words, and hear that they are understood."""
        reader, greeting = hiredis.Reader(), self._greet()
        commands = [*self._address.first_words(), *greeting]
        try:
            connected.sendall(b"".join(_packed(command) for command in commands))
            for _ in commands:
                while (reply := reader.gets()) is False:
                    data = connected.recv(65536)
                    if not data:
                        raise ConnectionResetError("closed by Redis")
                    reader.feed(data)
                if isinstance(reply, hiredis.ReplyError):
                    raise ConnectionError(str(reply))
        except OSError:
            if self._owe is not None:
                self._owe(greeting)
            raise
        return reader

    def _lose(self, error: Exception | None = None) -> None:
        """Away from now on, until a thread has connected again."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
                log.warning("Redis does not answer (%s); tried again", str(error or "") or "the connection was closed")
            if (self._reconnecting is None or not self._reconnecting.is_alive()) and not self._stop.is_set():
                self._reconnecting = threading.Thread(target=self._come_back, name="hedgerow-redis", daemon=True)
                self._reconnecting.start()

    def _come_back(self) -> None:
        while not self._stop.wait(_AGAIN):
            with contextlib.suppress(OSError, hiredis.HiredisError):
                self._connect()
                log.info("Redis answers again")
                return


class _Wire(asyncio.Protocol):
    """One connection of a LoopLink; what comes in by one that it has given up is nobody's."""

    transport: asyncio.Transport

    def __init__(self, link: LoopConnection) -> None:
        self._link = link
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._link.receive(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.end(self, str(exc or "closed by Redis"))
        self.ended.set()


class LoopConnection:
    """A connection of one event loop; `ask` and `tell` are called in it."""

    def __init__(
        self, address: RedisAddress, greet: Greet, *, patience: float = PATIENCE, owe: Owe | None = None
    ) -> None:
        self._address = address
        self._greet = greet
        self._owe = owe
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._wire: _Wire | None = None
        self._reader = hiredis.Reader()
        self._out: list[bytes] = []
        self._pending: deque[tuple[float, asyncio.Future[Any] | Command]] = deque()
        self._ticking = False
        self._closed = False
        self._coming_back: asyncio.Task[None] | None = None
        self.away = True
        """Whether nobody answers."""

    async def open(self) -> None:
        """Connect, or begin to try."""
        try:
            async with asyncio.timeout(_CONNECT):
                await self._connect()
        except (OSError, RedisUnavailable) as error:
            log.warning("Redis cannot be reached (%s); tried again", error or "no answer")
            self._try_again()

    def ask(self, command: Command) -> asyncio.Future[Any]:
        """What will hold the reply to *command*, or raise Away. Goes out at the end of this turn."""
        future = self._loop.create_future()
        if self.away:
            future.set_exception(RedisUnavailable())
        else:
            self._put(command, future)
        return future

    def tell(self, command: Command) -> bool:
        """Send *command* and mind no reply; false where nobody is there."""
        if self.away:
            return False
        self._put(command, command)
        return True

    def _put(self, command: Command, future: asyncio.Future[Any] | Command) -> None:
        """Have *command* sent; its reply goes to *future*, or to nobody where that is the command itself."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(_packed(command))
        now = self._loop.time()
        self._pending.append((now, future))
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_TICK, self._tick, now + _TICK)

    def _flush(self) -> None:
        if self._out and self._wire is not None:
            self._wire.transport.write(b"".join(self._out))
        self._out.clear()

    def _tick(self, due: float) -> None:
        """Look whether the oldest query has waited too long."""
        now = self._loop.time()
        if not self._pending:
            self._ticking = False
            return
        # A loop that was held up itself has not read what is there: that is nobody's silence.
        if now - self._pending[0][0] > self._patience and now - due < self._patience / 2:
            self._ticking = False
            self._lose("no answer in time")
            return
        self._loop.call_later(_TICK, self._tick, now + _TICK)

    async def close(self) -> None:
        self._closed = True
        if self._coming_back is not None:
            self._coming_back.cancel()
            await asyncio.wait([self._coming_back])
        self._flush()
        wire, self._wire = self._wire, None
        if wire is not None:
            # What was told last still goes out.
            wire.transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await wire.ended.wait()
            wire.transport.abort()
        self._lose("")
        # A transport lets go of its socket in the next turn of the loop, which may be the last.
        await asyncio.sleep(0)

    # ---- The wire's side

    def end(self, wire: _Wire, why: str) -> None:
        """A connection has ended."""
        if wire is self._wire:
            self._lose(why)

    def receive(self, wire: _Wire, data: bytes) -> None:
        """Replies, or parts of some."""
        if wire is not self._wire:
            return
        reader, pending = self._reader, self._pending
        reader.feed(data)
        lost = ""
        while pending:
            reply = reader.gets()
            if reply is False:
                break
            _, future = pending.popleft()
            if isinstance(reply, hiredis.ReplyError):
                if str(reply).startswith(("NOSCRIPT", "LOADING", "READONLY", "NOAUTH")):
                    lost = str(reply)
                    reply = RedisUnavailable()
                if not isinstance(future, asyncio.Future):
                    log.error("Redis refused a command: %s", reply)
                elif not future.done():
                    future.set_exception(reply)
            elif isinstance(future, asyncio.Future) and not future.done():
                future.set_result(reply)
        if lost:
            self._lose(lost)

    # ---- Away and back

    async def _connect(self) -> None:
        address, wire = self._address, _Wire(self)
        if address.path:
            await self._loop.create_unix_connection(lambda: wire, address.path)
        else:
            await self._loop.create_connection(
                lambda: wire, address.host, address.port,
                ssl=address.context(), server_hostname=address.host if address.tls else None,
            )  # fmt: skip
        self._wire, self._reader = wire, hiredis.Reader()
        greeting = self._greet()
        commands = [*address.first_words(), *greeting]
        futures = [self._loop.create_future() for _ in commands]
        self._pending.extend((self._loop.time(), future) for future in futures)
        try:
            wire.transport.write(b"".join(_packed(command) for command in commands))
            await asyncio.gather(*futures)
        except BaseException as error:
            if self._owe is not None:
                self._owe(greeting)
            self._give_up(futures)
            if isinstance(error, hiredis.ReplyError):
                raise ConnectionError(str(error)) from None
            raise
        self.away = False

    def _give_up(self, futures: Sequence[asyncio.Future[Any]]) -> None:
        """What was begun comes to nothing."""
        for future in futures:
            if future.done() and not future.cancelled():
                # Looked at, so that nobody is told that it was not.
                future.exception()
            future.cancel()
        wire, self._wire = self._wire, None
        self._pending.clear()
        if wire is not None:
            wire.transport.abort()

    def _lose(self, why: str) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.transport.abort()
            if not self._closed and not self.away:
                log.warning("Redis does not answer (%s); tried again", why)
        self.away = True
        self._out.clear()
        pending, self._pending = self._pending, deque()
        told = []
        for _, future in pending:
            if not isinstance(future, asyncio.Future):
                told.append(future)
            elif not future.done():
                future.set_exception(RedisUnavailable())
        if told and self._owe is not None and not self._closed:
            self._owe(told)
        self._try_again()

    def _try_again(self) -> None:
        if not self._closed and (self._coming_back is None or self._coming_back.done()):
            self._coming_back = self._loop.create_task(self._come_back())

    async def _come_back(self) -> None:
        while not self._closed:
            await asyncio.sleep(_AGAIN)
            try:
                async with asyncio.timeout(_CONNECT):
                    await self._connect()
            except (OSError, RedisUnavailable):
                continue
            log.info("Redis answers again")
            return

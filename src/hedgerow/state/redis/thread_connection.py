"""
Connections to Redis for threads, by redis-py. Each thread uses one of its own while it asks.

If no reply comes within the timeout, `RedisUnavailable` is raised. From then on it is raised at once, until a
background thread has connected again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.retry import Retry

from hedgerow.errors import StoreError
from hedgerow.state.redis.address import (
    CONNECT_TIMEOUT,
    RETRY_AFTER,
    OnConnect,
    RedisAddress,
    RedisConnection,
    RedisUnavailable,
    packed,
)
from hedgerow.state.redis.scripts import Command

log = logging.getLogger(__name__)

_Connection = Any
"""A connection of redis-py, whose classes have no complete types."""
_NOT_READY = (NoScriptError, ReadOnlyError)
"""The errors of a server that was just started or replaced."""


class ThreadConnection(RedisConnection):
    def __init__(self, address: RedisAddress, on_connect: OnConnect, **options: Any) -> None:
        super().__init__(address, on_connect, **options)
        self._lock = threading.Lock()
        self._free: list[_Connection] = []
        self._generation = 0
        """Changes with each failure. Connections from before it are not used again."""
        self._stop = threading.Event()
        self._reconnecting: threading.Thread | None = None
        self.unavailable = False
        self.connect_error = ""
        """The reason why Redis could not be reached at the start."""
        try:
            self._connect()
        except (RedisError, OSError) as error:
            self.connect_error = str(error)
            log.warning("cannot reach Redis (%s); trying again", error)
            self.unavailable = True
            self._reconnect_later()

    def ask(self, command: Command) -> Any:
        reply = self.ask_all((command,))[0]
        if isinstance(reply, ResponseError):
            raise StoreError(f"Redis refused a command: {reply}")
        return reply

    def send(self, command: Command) -> bool:
        """Send *command*. Return False if Redis is unavailable."""
        try:
            self.ask(command)
        except RedisUnavailable:
            return False
        return True

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send *commands* together, and return their replies. A refused command has a `ResponseError`."""
        if not commands:
            return []
        if self.unavailable:
            raise RedisUnavailable
        generation = self._generation
        try:
            connection = self._free.pop()
        except IndexError:
            connection = self._new()
        try:
            replies = _exchange(connection, commands)
        except (RedisError, OSError) as error:
            connection.disconnect()
            self._give_up(generation, error)
            raise RedisUnavailable from None
        with self._lock:
            if generation == self._generation and not self._stop.is_set():
                self._free.append(connection)
                return replies
        connection.disconnect()
        return replies

    def close(self) -> None:
        self._stop.set()
        if self._reconnecting is not None:
            self._reconnecting.join()
        with self._lock:
            self.unavailable = True
            self._disconnect_free()

    def _new(self, timeout: float | None = None) -> _Connection:
        address = self._address
        options: dict[str, Any] = {
            "db": address.database,
            "username": address.user or None,
            "password": address.password or None,
            "socket_timeout": self._timeout if timeout is None else timeout,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        kind: _Connection = redis.Connection
        if address.path:
            kind = redis.UnixDomainSocketConnection
            options["path"] = address.path
        else:
            options |= {"host": address.host, "port": address.port}
        if address.tls:
            kind = redis.SSLConnection
            options |= {"ssl_ca_certs": address.ca_file or None, "ssl_check_hostname": True}
        return kind(**options)

    def _connect(self) -> None:
        """Connect, and send the first commands. Redis keeps scripts, so that one connection loads them for all."""
        connection, first = self._new(CONNECT_TIMEOUT), self._on_connect()
        try:
            connection.connect()
            for reply in _exchange(connection, first):
                if isinstance(reply, ResponseError):
                    raise reply
        except (RedisError, OSError):
            self._on_undelivered(first)
            raise
        finally:
            connection.disconnect()

    def _give_up(self, generation: int, error: Exception) -> None:
        with self._lock:
            if generation != self._generation or self._stop.is_set():
                return
            self._generation += 1
            self.failures += 1
            self.unavailable = True
            self._disconnect_free()
        log.warning("Redis does not answer (%s); trying again", str(error) or "the connection was closed")
        self._reconnect_later()

    def _disconnect_free(self) -> None:
        while self._free:
            self._free.pop().disconnect()

    def _reconnect_later(self) -> None:
        with self._lock:
            if self._stop.is_set() or (self._reconnecting is not None and self._reconnecting.is_alive()):
                return
            self._reconnecting = threading.Thread(target=self._reconnect, name="hedgerow-redis", daemon=True)
            self._reconnecting.start()

    def _reconnect(self) -> None:
        while not self._stop.wait(RETRY_AFTER):
            with contextlib.suppress(RedisError, OSError):
                self._connect()
                log.info("Redis answers again")
                with self._lock:
                    self._reconnecting = None
                    self.unavailable = False
                self._on_connected(self.send)
                return


def _exchange(connection: _Connection, commands: Sequence[Command]) -> list[Any]:
    replies: list[Any] = []
    if commands:
        connection.send_packed_command([b"".join(packed(command) for command in commands)])
    for _ in commands:
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except _NOT_READY:
            raise
        except ResponseError as refused:
            replies.append(refused)
    return replies

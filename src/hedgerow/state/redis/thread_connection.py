"""
Connections to Redis for threads, by redis-py: each thread that asks has one of its own meanwhile.

An answer comes within *patience* seconds, or `RedisUnavailable` is raised; from then on it is raised at once, until a
background thread has connected again. It then sends the commands of *greet*; those that may not have been carried out
go back to *owe*.
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
    PATIENCE,
    RETRY_AFTER,
    Greet,
    Owe,
    RedisAddress,
    RedisUnavailable,
    packed,
)
from hedgerow.state.redis.scripts import Command

log = logging.getLogger(__name__)

_Connection = Any
"""A connection of redis-py, whose classes have no complete types."""
# A server that has just been started or replaced: it must be greeted again.
_UNGREETED = (NoScriptError, ReadOnlyError)


class ThreadConnection:
    """What threads ask Redis through."""

    def __init__(
        self, address: RedisAddress, greet: Greet, *, patience: float = PATIENCE, owe: Owe | None = None
    ) -> None:
        self._address = address
        self._greet = greet
        self._owe = owe
        self._patience = patience
        self._lock = threading.Lock()
        self._free: list[_Connection] = []
        self._generation = 0
        """Changes with each loss: connections from before it are not used again."""
        self._stop = threading.Event()
        self._reconnecting: threading.Thread | None = None
        self.away = False
        """Whether Redis does not answer."""
        self.why = ""
        """Why it could not be reached at the start."""
        try:
            self._connect()
        except (RedisError, OSError) as error:
            self.why = str(error)
            log.warning("Redis cannot be reached (%s); tried again", error)
            self.away = True
            self._reconnect_later()

    def ask(self, command: Command) -> Any:
        """Return the reply to *command*."""
        reply = self.ask_all((command,))[0]
        if isinstance(reply, ResponseError):
            raise StoreError(f"Redis refused a command: {reply}")
        return reply

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies to *commands*, which are sent together; one that was refused is a `ResponseError`."""
        if not commands:
            return []
        if self.away:
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
            self._lose(generation, error)
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
            self.away = True
            self._disconnect_free()

    def _new(self, timeout: float | None = None) -> _Connection:
        address = self._address
        options: dict[str, Any] = {
            "db": address.database,
            "username": address.user or None,
            "password": address.password or None,
            "socket_timeout": self._patience if timeout is None else timeout,
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
        """Connect and greet. The scripts stay in the server, so that one connection greets for all."""
        connection, greeting = self._new(CONNECT_TIMEOUT), self._greet()
        try:
            connection.connect()
            for reply in _exchange(connection, greeting):
                if isinstance(reply, ResponseError):
                    raise reply
        except (RedisError, OSError):
            if self._owe is not None:
                self._owe(greeting)
            raise
        finally:
            connection.disconnect()

    def _lose(self, generation: int, error: Exception) -> None:
        """Raise `RedisUnavailable` from now on, until a thread has connected again."""
        with self._lock:
            if generation != self._generation or self._stop.is_set():
                return
            self._generation += 1
            self.away = True
            self._disconnect_free()
        log.warning("Redis does not answer (%s); tried again", str(error) or "the connection was closed")
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
                    self.away = False
                return


def _exchange(connection: _Connection, commands: Sequence[Command]) -> list[Any]:
    replies: list[Any] = []
    if commands:
        connection.send_packed_command([b"".join(packed(command) for command in commands)])
    for _ in commands:
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except _UNGREETED:
            raise
        except ResponseError as refused:
            replies.append(refused)
    return replies

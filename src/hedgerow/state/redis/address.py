"""The address of a Redis server, and what both kinds of connection to it share."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

import hiredis
import msgspec

from hedgerow.state.redis.scripts import Command

OnConnect = Callable[[], Sequence[Command]]
"""Returns the first commands of a connection: those that load scripts, and those that were not delivered before."""
OnUndelivered = Callable[[Sequence[Command]], None]
"""Receives commands that were sent but perhaps not executed."""
OnConnected = Callable[[Callable[[Command], bool]], None]
"""Receives the `send` of a connection that is ready again."""

TIMEOUT = 0.03
"""Seconds that a request waits for a reply."""
CONNECT_TIMEOUT = 1.0
RETRY_AFTER = 0.2
_PORT = 6379


class RedisConnection:
    """What both kinds of connection have. *timeout* is for each reply, in seconds."""

    unavailable = True
    failures = 0
    """How often Redis did not answer any more."""

    def __init__(
        self,
        address: RedisAddress,
        on_connect: OnConnect,
        *,
        timeout: float = TIMEOUT,
        on_undelivered: OnUndelivered = lambda _: None,
        on_connected: OnConnected = lambda _: None,
    ) -> None:
        self._address = address
        self._on_connect = on_connect
        self._on_undelivered = on_undelivered
        self._on_connected = on_connected
        self._timeout = timeout


def packed(command: Command) -> bytes:
    # The annotation of hiredis allows only a tuple of one element.
    return command if type(command) is bytes else hiredis.pack_command(command)  # type: ignore[arg-type]


class RedisUnavailable(Exception):  # noqa: N818 - an expected condition
    """Redis does not answer."""


class RedisAddress(msgspec.Struct, frozen=True):
    """The address of a server: `redis://user:password@host:port/database`, `rediss://` for TLS, or `unix:///path`."""

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

    def handshake(self) -> list[Command]:
        commands: list[Command] = []
        if self.password:
            commands.append(("AUTH", self.user, self.password) if self.user else ("AUTH", self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands


def parse_redis_address(url: str, *, password: str = "", ca_file: str = "") -> RedisAddress:
    """Parse a URL, or raise ValueError with a message for the administrator."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
        database = int(parts.path.strip("/") or 0) if parts.scheme != "unix" else 0
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in {"redis", "rediss", "unix"} or not (parts.hostname or parts.path):
        # The URL is not repeated here: it may contain a password.
        raise ValueError("state.url is not an address such as redis://127.0.0.1:6379/0, rediss://... or unix:///path")
    return RedisAddress(
        parts.hostname or "", port, parts.path if parts.scheme == "unix" else "", database,
        unquote(parts.username or ""), password or unquote(parts.password or ""), parts.scheme == "rediss", ca_file,
    )  # fmt: skip

"""The address of a Redis server, and what both kinds of connection to it share."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

import hiredis
import msgspec

from hedgerow.state.redis.scripts import Command

Greet = Callable[[], Sequence[Command]]
"""Returns the commands with which a connection begins: the scripts, and commands that Redis has not yet carried out."""
Owe = Callable[[Sequence[Command]], None]
"""Takes commands back that were sent and perhaps not carried out."""

PATIENCE = 0.03
"""Seconds that a request waits for an answer."""
CONNECT_TIMEOUT = 1.0
RETRY_AFTER = 0.2
_PORT = 6379


def packed(command: Command) -> bytes:
    # It says that it takes a tuple of one, and takes any.
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

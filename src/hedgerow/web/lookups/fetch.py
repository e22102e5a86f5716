"""
Fetching: a small file from a host that a stranger may have named.

Nobody is to make us fetch from inside our own network (server-side request forgery). So the host is looked up once,
every one of its addresses must be public, and the connection goes to the address that was checked. Only https, unless
the caller says otherwise. No redirect is followed, and size and time are bounded.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

import httptools

from hedgerow.errors import HedgerowError
from hedgerow.web.lookups.dns import Resolver

MOST_BYTES = 1_000_000
SECONDS = 10.0
_MOST_HEADERS = 100
_PORTS = {"https": 443, "http": 80}
_OK = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Addresses that carry an IPv4 address within, perhaps a private one.
_CARRIERS = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))


class FetchError(HedgerowError):
    """The file cannot be had; the message says why."""


def is_public(address: str) -> bool:
    """
    Whether an address is on the public network, and can be nothing else.

    >>> is_public("8.8.8.8"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("fe80::1")
    (True, False, False, False)
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and (
        parsed.ipv4_mapped or parsed.sixtofour or parsed.teredo or any(parsed in network for network in _CARRIERS)
    ):
        return False
    return parsed.is_global and not parsed.is_multicast


class _Answer:
    """Gathers an answer; httptools calls it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._headers = 0
        self.location = ""
        self.pieces: list[bytes] = []
        self.size = 0
        self.done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        if self._headers > _MOST_HEADERS:
            raise FetchError("the answer has too many headers")
        if name.lower() == b"location":
            self.location = value.decode("latin-1")
        if name.lower() == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise FetchError("the answer is compressed, which was not asked for")

    def on_body(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._most:
            raise FetchError(f"the answer has more than {self._most:,} bytes")
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.done = True


async def fetch(
    url: str,
    resolver: Resolver,
    *,
    schemes: frozenset[str] = frozenset({"https"}),
    private: bool = False,
    most_bytes: int = MOST_BYTES,
    seconds: float = SECONDS,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """What is at *url*. *private*: also from addresses that are not public. `FetchError` where it cannot be had."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise FetchError(f"{url!r} is no address") from None
    if parts.scheme not in schemes or not host or parts.username is not None:
        raise FetchError(f"{url!r} is not an address that starts with {' or '.join(sorted(schemes))}://")
    try:
        async with asyncio.timeout(seconds):
            address = await _address(host, resolver, private=private)
            secure = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
            reader, writer = await asyncio.open_connection(
                address, port or _PORTS[parts.scheme], ssl=secure, server_hostname=host if secure else None
            )
            try:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                return await _ask(reader, writer, path, parts.netloc, most_bytes)
            finally:
                # Not a farewell: over TLS that takes its time, and the loop may end meanwhile.
                writer.transport.abort()
    except TimeoutError:
        raise FetchError(f"{url} took longer than {seconds:g} seconds") from None
    except (OSError, httptools.HttpParserError, UnicodeError) as error:
        raise FetchError(f"{url} cannot be read: {error}") from None


async def _address(host: str, resolver: Resolver, *, private: bool) -> str:
    """The address to connect to; FetchError where there is none, or one of them is not for us to visit."""
    found: Sequence[str]
    try:
        found = [str(ip_address(host))]
    except ValueError:
        found = await _resolved(host, resolver)
    if not found:
        raise FetchError(f"there is no host {host}")
    if not private and not all(is_public(address) for address in found):
        raise FetchError(f"{host} is not on the public network")
    return found[0]


async def _resolved(host: str, resolver: Resolver) -> list[str]:
    if host == "localhost":
        return ["127.0.0.1"]
    return [*await resolver.addresses(host, 4), *await resolver.addresses(host, 6)]


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, host: str, most_bytes: int
) -> bytes:
    if any(c in path + host for c in "\r\n "):
        raise FetchError("the address holds a space or a line end")
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Hedgerow\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"
        "Connection: close\r\n\r\n".encode("ascii")
    )
    answer = _Answer(most_bytes)
    parser = httptools.HttpResponseParser(answer)
    taken = 0
    while not answer.done:
        piece = await reader.read(1 << 16)
        taken += len(piece)
        if taken > 2 * most_bytes + (1 << 16):
            raise FetchError(f"the answer has more than {most_bytes:,} bytes")
        if not piece:
            break
        try:
            parser.feed_data(piece)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__ or error
            raise cause if isinstance(cause, FetchError) else FetchError(str(error)) from None
    if not taken:
        raise FetchError("the connection was closed without an answer")
    status = parser.get_status_code()
    if status in _REDIRECTS:
        raise FetchError(f"it has moved to {answer.location[:200]!r}, and redirects are not followed")
    if status != _OK:
        raise FetchError(f"it was answered with status {status}")
    return b"".join(answer.pieces)

"""
Fetches a small file from a host that a stranger may have named.

A stranger must not make the site fetch from its own network (server-side request forgery). So the host is looked up
once, all its addresses must be public, and the connection goes to the address that was checked. Only https is used,
unless the caller allows more. No redirect is followed, and size and time are limited.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from hedgerow.errors import HedgerowError, UpstreamError
from hedgerow.web.http_client.connection import UpstreamResponse
from hedgerow.web.http_client.pool import PORTS, Origin, request_once
from hedgerow.web.lookups.dns import Resolver

MAX_BYTES = 1_000_000
SECONDS = 10.0
_HEAD_LIMIT = 16_384
_HEADERS = [
    (b"user-agent", b"Hedgerow"), (b"accept", b"*/*"), (b"accept-encoding", b"identity"), (b"connection", b"close"),
]  # fmt: skip
_OK = 200
_NOT_MODIFIED = 304
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# IPv6 addresses that embed an IPv4 address, which may be private.
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))


class FetchError(HedgerowError):
    """The file cannot be fetched; the message says why."""


def is_public(address: str) -> bool:
    """
    Return whether an address is certainly on the public network.

    >>> is_public("8.8.8.8"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("fe80::1")
    (True, False, False, False)
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and (
        parsed.ipv4_mapped or parsed.sixtofour or parsed.teredo or any(parsed in network for network in _EMBEDDING)
    ):
        return False
    return parsed.is_global and not parsed.is_multicast


async def fetch(
    url: str,
    resolver: Resolver,
    *,
    schemes: frozenset[str] = frozenset({"https"}),
    private: bool = False,
    max_bytes: int = MAX_BYTES,
    seconds: float = SECONDS,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """Return the file at *url*. With *private*, addresses that are not public are allowed."""
    response, body = await _request(url, resolver, (), schemes, max_bytes, seconds, tls, private=private)
    return _checked(response, body, max_bytes)


async def fetch_if_changed(
    url: str,
    resolver: Resolver,
    *,
    schemes: frozenset[str],
    private: bool,
    max_bytes: int,
    seconds: float,
    etag: str = "",
    modified: str = "",
) -> tuple[bytes, str, str] | None:
    """Return a file with its ETag and Last-Modified, or None if it has not changed since those that are given."""
    conditions = [(b"if-none-match", etag.encode("latin-1"))] if etag else []
    conditions += [(b"if-modified-since", modified.encode("latin-1"))] if modified else []
    response, body = await _request(url, resolver, conditions, schemes, max_bytes, seconds, None, private=private)
    if response.status == _NOT_MODIFIED and conditions:
        return None
    headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
    return _checked(response, body, max_bytes), headers.get(b"etag", ""), headers.get(b"last-modified", "")


async def _request(
    url: str,
    resolver: Resolver,
    more: Sequence[tuple[bytes, bytes]],
    schemes: frozenset[str],
    max_bytes: int,
    seconds: float,
    tls: ssl.SSLContext | None,
    *,
    private: bool,
) -> tuple[UpstreamResponse, bytes]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise FetchError(f"{url!r} is no address") from None
    if parts.scheme not in schemes or not host or parts.username is not None:
        raise FetchError(f"{url!r} is not an address that starts with {' or '.join(sorted(schemes))}://")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        async with asyncio.timeout(seconds):
            address = await _address(host, resolver, private=private)
            return await request_once(
                Origin(parts.scheme == "https", address, port or PORTS[parts.scheme]),
                b"GET", target.encode("ascii"), [(b"host", parts.netloc.encode("ascii")), *_HEADERS, *more],
                seconds=seconds, limit=max_bytes, head_limit=_HEAD_LIMIT, buffer_limit=max_bytes, tls=tls,
                server_name=host,
            )  # fmt: skip
    except TimeoutError:
        raise FetchError(f"{url} took longer than {seconds:g} seconds") from None
    except (UpstreamError, OSError, ValueError) as error:
        raise FetchError(f"{url} cannot be read: {error}") from None


def _checked(response: UpstreamResponse, body: bytes, max_bytes: int) -> bytes:
    """Return the body of a good answer; FetchError for any other."""
    headers = dict(response.headers)
    if response.status in _REDIRECTS:
        location = headers.get(b"location", b"").decode("latin-1")
        raise FetchError(f"it has moved to {location[:200]!r}, and redirects are not followed")
    if response.status != _OK:
        raise FetchError(f"it was answered with status {response.status}")
    if headers.get(b"content-encoding", b"").strip().lower() not in {b"", b"identity"}:
        raise FetchError("the answer is compressed, which was not asked for")
    if len(body) > max_bytes:
        raise FetchError(f"the answer has more than {max_bytes:,} bytes")
    return body


async def _address(host: str, resolver: Resolver, *, private: bool) -> str:
    """Return the address to connect to; FetchError if there is none, or one of them is not public."""
    try:
        found = [str(ip_address(host))]
    except ValueError:
        found = ["127.0.0.1"] if host == "localhost" else [
            address for version in (4, 6) for address in await resolver.addresses(host, version)
        ]  # fmt: skip
    if not found:
        raise FetchError(f"there is no host {host}")
    if not private and not all(is_public(address) for address in found):
        raise FetchError(f"{host} is not on the public network")
    return found[0]

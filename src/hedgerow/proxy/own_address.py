"""
The upstream's own address in response headers, which a visitor must not follow past the proxy.

A web server that redirects `/dir` to `/dir/` often names itself: `Location: http://127.0.0.1:8000/dir/`. Only the path
of such an address is sent on. The same holds for Content-Location, Refresh and Link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hedgerow.web.http_client.pool import PORTS, Origin, parse_origin
from hedgerow.web.response_headers import marked_refresh

Pair = tuple[bytes, bytes]

_ABSOLUTE = re.compile(rb"(?:(https?):)?//([^/?#\\\s@]*)((?:[/?#\\].*)?)", re.IGNORECASE | re.DOTALL)
_LINK = re.compile(rb"<([^<>]*+)>")
_NAMES = frozenset({b"location", b"content-location", b"refresh", b"link"})


class OwnAddresses:
    """
    The origins of the upstream: *upstream* itself, and *others* such as `http://backend.internal:8080`.

    A server that is told the visitor's Host may add its own port to it. That address is the upstream's, too.
    """

    def __init__(self, upstream: Origin, others: Iterable[str] = ()) -> None:
        self._scheme = b"https" if upstream.secure else b"http"
        self._default_port = upstream.port == PORTS[self._scheme.decode()]
        self._port = b":%d" % upstream.port
        self._own = {(b"https" if o.secure else b"http", o.authority.lower()) for o in map(parse_origin, others)}
        self._own.add((self._scheme, upstream.authority.lower()))

    def rewritten(self, headers: list[Pair], host: bytes) -> list[Pair]:
        """Return the headers of a response to a visitor who sent *host* as the Host, with paths for own addresses."""
        if not any(name in _NAMES for name, _ in headers):
            return headers
        return [(name, self._rewritten_value(name, value, host)) for name, value in headers]

    def _rewritten_value(self, name: bytes, value: bytes, host: bytes) -> bytes:
        if name in {b"location", b"content-location"}:
            path = self.path(value.strip(), host)
            return value if path is None else path
        if name == b"refresh":
            return marked_refresh(value, lambda url: self.path(url, host))
        if name == b"link":
            return _LINK.sub(lambda m: b"<%b>" % (m[1] if (path := self.path(m[1], host)) is None else path), value)
        return value

    def path(self, url: bytes, host: bytes) -> bytes | None:
        """Return path, query and fragment of *url* if it is an own address, otherwise None."""
        match = _ABSOLUTE.fullmatch(url)
        if match is None:
            return None
        scheme, authority, rest = (match[1] or self._scheme).lower(), match[2].lower(), match[3]
        default_port = b":%d" % PORTS[scheme.decode()]
        authority, host = authority.removesuffix(default_port), host.lower().removesuffix(default_port)
        if authority == host:
            # The site's address as the visitor knows it. Its scheme may be what a redirect is about.
            return None
        at_our_port = not self._default_port and authority == _without_port(host) + self._port
        if (scheme, authority) not in self._own and not (at_our_port and scheme == self._scheme):
            return None
        if rest[:1] != b"/":
            return b"/" + rest
        # Two slashes would start the name of another host.
        return b"/." + rest if rest[1:2] in {b"/", b"\\"} else rest


def _without_port(host: bytes) -> bytes:
    """
    Return a Host without its port.

    >>> _without_port(b"example.org:8080"), _without_port(b"[::1]:80"), _without_port(b"[::1]")
    (b'example.org', b'[::1]', b'[::1]')
    """
    return host[: host.rindex(b"]") + 1] if host.startswith(b"[") and b"]" in host else host.partition(b":")[0]

"""The address of an upstream."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from hedgerow.errors import SettingsError

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The address of the upstream: *host* and *port*, or the *path* of a unix socket."""

    secure: bool
    host: str
    port: int
    path: str = ""

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = _PORTS["https" if self.secure else "http"]
        return (host if self.port == default_port else f"{host}:{self.port}").encode("ascii")

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"{'https' if self.secure else 'http'}://{self.authority.decode('ascii')}"


def parse_origin(url: str) -> Origin:
    """
    Return the origin of `http://host:port`, `https://host`, `http://[::1]:8080` or `unix:/run/site.sock`.

    A path is refused rather than ignored: its author would expect it to prefix the path of every request.
    """
    if url.startswith("unix:/"):
        return Origin(secure=False, host="localhost", port=80, path=url.removeprefix("unix:"))
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
    except ValueError as error:
        raise SettingsError([f"upstream {url!r}: {error}"]) from error
    if parts.scheme not in _PORTS or not host:
        raise SettingsError([f"upstream {url!r}: write http://host:port, https://host:port or unix:/path"])
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
        raise SettingsError([f"upstream {url!r}: give scheme, host and port only"])
    return Origin(parts.scheme == "https", host, port or _PORTS[parts.scheme])

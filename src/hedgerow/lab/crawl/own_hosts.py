"""The check that a site is on this machine: a training crawler is sent nowhere else."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from hedgerow.errors import HedgerowError

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port of a site, and its resolved address."""

    scheme: str
    host: str
    port: int
    address: str

    def has(self, url: str) -> bool:
        try:
            return _origin(urlsplit(url)) == (self.scheme, self.host, self.port)
        except ValueError:
            return False


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


def own_origin(url: str, allowed: Sequence[str] = ()) -> Origin:
    """Return the origin of *url*. HedgerowError unless its host is *allowed* or has addresses of this machine only."""
    try:
        scheme, host, port = _origin(urlsplit(url))
    except ValueError:
        scheme, host, port = "", "", 0
    if scheme not in _PORTS or not host:
        raise HedgerowError(f"{url!r} is not an address such as http://127.0.0.1:8080/")
    try:
        addresses_info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HedgerowError(f"{host} cannot be resolved: {error.strerror}") from None
    addresses = list(dict.fromkeys(str(one[4][0]) for one in addresses_info))
    if host not in {name.lower() for name in allowed}:
        elsewhere = next((address for address in addresses if not is_own(address)), None)
        if elsewhere is not None:
            raise HedgerowError(
                f"{host} is {elsewhere}, which is not this machine: crawl only your own site; "
                f"if this host is yours, add --allow {host}"
            )
    return Origin(scheme, host, port, addresses[0])


def is_own(address: str) -> bool:
    """Return whether an address belongs to this machine: loopback, or one that it can bind."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if parsed.is_loopback:
        return True
    if parsed.is_unspecified or parsed.is_multicast:
        return False
    family = socket.AF_INET6 if parsed.version == 6 else socket.AF_INET  # noqa: PLR2004
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def source_address(origin: Origin) -> str:
    family = socket.AF_INET6 if ":" in origin.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((origin.address, origin.port))
        return str(probe.getsockname()[0])

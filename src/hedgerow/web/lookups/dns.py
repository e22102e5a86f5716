"""
Forward-confirmed reverse DNS.

The owner of an address can give it any name. So the name must be in one of the bot's domains, and must resolve to the
address again: only the owner of the domain can arrange that. If a name server does not answer, nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Protocol

import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver
import dns.reversename

from hedgerow.errors import HedgerowError
from hedgerow.request.bots import in_domain

_MAX_NAMES = 8
_PORT = 53


class DnsTimeoutError(HedgerowError):
    """No name server gave an answer."""


class Resolver(Protocol):
    """Queries name servers. An empty result is definite; without a result there is a `DnsTimeoutError`."""

    async def names(self, address: str) -> Sequence[str]: ...

    async def addresses(self, name: str, version: int) -> Sequence[str]:
        """Return the addresses of a name, in IP *version* 4 or 6."""


class DnsResolver:
    """Uses the system's name servers, or the one at *server*. A query may take *seconds*."""

    def __init__(self, server: tuple[str, int] | None = None, *, seconds: float = 5.0) -> None:
        self._server = server
        self._seconds = seconds

    async def _ask(self, name: dns.name.Name | str, kind: str) -> list[str]:
        try:
            answer = await self._resolver.resolve(name, kind, lifetime=self._seconds, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise DnsTimeoutError(f"no answer about {name}: {type(error).__name__}") from None
        return [record.to_text() for record in answer]

    @cached_property
    def _resolver(self) -> dns.asyncresolver.Resolver:
        resolver = dns.asyncresolver.Resolver(configure=self._server is None)
        if self._server is not None:
            resolver.nameservers, resolver.port = [self._server[0]], self._server[1] or _PORT
        return resolver

    async def names(self, address: str) -> Sequence[str]:
        return await self._ask(dns.reversename.from_address(address), "PTR")

    async def addresses(self, name: str, version: int) -> Sequence[str]:
        return await self._ask(name, "AAAA" if version == 6 else "A")  # noqa: PLR2004


async def is_in(address: str, domains: Sequence[str], resolver: Resolver) -> bool:
    """Return whether *address* has a name in one of *domains* that resolves to it. Raises `DnsTimeoutError`."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    silent: DnsTimeoutError | None = None
    for name in [name for name in await resolver.names(address) if in_domain(name, domains)][:_MAX_NAMES]:
        try:
            found = await resolver.addresses(name, parsed.version)
        except DnsTimeoutError as silence:
            silent = silence
            continue
        if any(ip_address(one) == parsed for one in found):
            return True
    if silent is not None:
        raise silent
    return False

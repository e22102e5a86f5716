"""
Names of addresses: forward-confirmed reverse DNS.

Anybody may give an address of his own any name. So the name must end in one of the bot's domains, and must lead back to
the address: only who runs the domain can make it do that. An answer is definite or there is none; a name server that is
silent, or fails, says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Protocol

import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver
import dns.reversename

from hedgerow.errors import HedgerowError
from hedgerow.request.bots import in_domain

_MOST_NAMES = 8
_PORT = 53


class DnsTimeoutError(HedgerowError):
    """No name server gave an answer: nothing is known."""


class Resolver(Protocol):
    """Asks name servers. An empty answer is definite: no such name. `DnsTimeoutError` where there is no answer."""

    async def names(self, address: str) -> Sequence[str]:
        """The names of an address."""

    async def addresses(self, name: str, version: int) -> Sequence[str]:
        """The addresses of a name, in IPv4 or IPv6."""


class DnsResolver:
    """The system's name servers, or the one at *server*; an answer may take *seconds*."""

    def __init__(self, server: tuple[str, int] | None = None, *, seconds: float = 5.0) -> None:
        self._server = server
        self._seconds = seconds
        self._resolver: dns.asyncresolver.Resolver | None = None

    async def _ask(self, name: dns.name.Name | str, kind: str) -> list[str]:
        try:
            answer = await self._made().resolve(name, kind, lifetime=self._seconds, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise DnsTimeoutError(f"no answer about {name}: {type(error).__name__}") from None
        return [record.to_text() for record in answer]

    def _made(self) -> dns.asyncresolver.Resolver:
        if self._resolver is None:
            self._resolver = dns.asyncresolver.Resolver(configure=self._server is None)
            if self._server is not None:
                self._resolver.nameservers = [self._server[0]]
                self._resolver.port = self._server[1] or _PORT
        return self._resolver

    async def names(self, address: str) -> Sequence[str]:
        return await self._ask(dns.reversename.from_address(address), "PTR")

    async def addresses(self, name: str, version: int) -> Sequence[str]:
        return await self._ask(name, "AAAA" if version == 6 else "A")  # noqa: PLR2004


async def is_in(address: str, domains: Sequence[str], resolver: Resolver) -> bool:
    """
    Whether *address* has a name in one of *domains* that leads back to it. `DnsTimeoutError`: nobody can tell now.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    silent: DnsTimeoutError | None = None
    for name in [name for name in await resolver.names(address) if in_domain(name, domains)][:_MOST_NAMES]:
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

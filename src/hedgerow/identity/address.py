"""
Addresses: the client's own, the prefix that stands for a visitor, and sets of networks.

An X-Forwarded-For is a list that anybody may begin and each proxy continues at its right end. So it is read from the
right, only when the peer is a proxy we trust, and only as far as trusted proxies go: the first address that is not one
of theirs is the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_IPV4_NETWORK_BITS = 24
_IPV6_NETWORK_BITS = 48
_IPV6_VISITOR_BITS = 64

_BRACKETED = re.compile(r"\[([^\]]+)\](?::\d+)?\Z")
_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]*)', re.IGNORECASE)


@lru_cache(maxsize=1 << 14)
def parse_address(text: str) -> str | None:
    """
    The address in *text* in its canonical form, or None where it is none.

    Takes what proxies write: `192.0.2.1`, `192.0.2.1:5000`, `2001:db8::1`, `[2001:db8::1]:5000`. An IPv4 address
    dressed as IPv6 (`::ffff:192.0.2.1`) is the IPv4 address. A zone (`fe80::1%eth0`) is dropped.
    """
    text = text.strip().strip('"')
    bracketed = _BRACKETED.match(text)
    if bracketed:
        text = bracketed[1]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


@lru_cache(maxsize=1 << 14)
def _ipv6_prefix(address: str, bits: int) -> str:
    try:
        return str(IPv6Network((address, bits), strict=False))
    except ValueError:
        return address


def prefix_of(address: str) -> str:
    """
    What stands for a visitor without an account: the IPv4 address, or the IPv6 /64.

    >>> prefix_of("192.0.2.1"), prefix_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.1', '2001:db8:1:2::/64')
    """
    return address if ":" not in address else _ipv6_prefix(address, _IPV6_VISITOR_BITS)


def network_of(address: str) -> str:
    """
    The network an address belongs to: IPv4 /24, IPv6 /48.

    >>> network_of("192.0.2.1"), network_of("2001:db8:1:2::3")
    ('192.0.2.0/24', '2001:db8:1::/48')
    """
    if ":" in address:
        return _ipv6_prefix(address, _IPV6_NETWORK_BITS)
    head, dot, _ = address.rpartition(".")
    return f"{head}.0/{_IPV4_NETWORK_BITS}" if dot else address


class Networks:
    """A set of networks: one dictionary look-up for each prefix length in it, however many networks there are."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._by_bits: dict[tuple[int, int], set[int]] = {}
        for text in networks:
            network = ip_network(text.strip(), strict=False)
            bits = network.max_prefixlen - network.prefixlen
            key = (network.version, bits)
            self._by_bits.setdefault(key, set()).add(int(network.network_address) >> bits)
        self._holds = lru_cache(maxsize=1 << 14)(self._look_up)

    def __bool__(self) -> bool:
        return bool(self._by_bits)

    def __contains__(self, address: object) -> bool:
        return bool(self._by_bits) and isinstance(address, str) and self._holds(address)

    def _look_up(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        number = int(parsed)
        return any(
            number >> bits in numbers
            for (version, bits), numbers in self._by_bits.items()
            if version == parsed.version
        )


def check_network(text: str) -> IPv4Network | IPv6Network:
    """The network in *text*; ValueError with a sentence where it is none. `10.0.0.1/8` is a slip, not a network."""
    try:
        return ip_network(text, strict=True)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network: {error}") from None


def _hops(header: str, name: str) -> list[str]:
    if name == "forwarded":
        found = []
        for element in header.split(","):
            match = _FOR.search(element)
            found.append(match[1].strip('"') if match else "")
        return found
    return header.split(",")


class Proxies:
    """
    The proxies we trust, and the header in which they name the client.

    Only one header is read: a proxy that continues X-Forwarded-For passes a client's own Forwarded on as it came.
    """

    def __init__(self, networks: Iterable[str] = (), header: str = "x-forwarded-for") -> None:
        self._networks = Networks(networks)
        self.header = header.lower()

    def trusts(self, peer: str) -> bool:
        return peer in self._networks

    def client(self, peer: str, header: str) -> str:
        """
        The client's address, given the *peer* of the connection and what the header says.

        A hop that is not an address ends the walk: what stands left of it is anybody's word, so the last trusted proxy
        stands for the client.
        """
        client = peer
        for hop in reversed(_hops(header, self.header)):
            address = parse_address(hop)
            if address is None:
                break
            client = address
            if address not in self._networks:
                break
        return client

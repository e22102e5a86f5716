"""
Addresses: the client's own, the prefix that stands for a visitor, and sets of networks.

An X-Forwarded-For is a list that anybody may begin and each proxy continues at its right end. So it is read from the
right, only when the peer is a proxy we trust, and only as far as trusted proxies go: the first address that is not one
of theirs is the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from hedgerow.core.ip_bytes import canonical, packed_v6, written_prefix

_IPV4_NETWORK_BITS = 24
_IPV6_NETWORK_BITS = 48
_IPV6_VISITOR_BITS = 64

# No address is longer, with brackets, zone and port. What is longer must not get into the caches below: thousands of
# entries, each as long as a client likes, are no bound at all.
_LONGEST = 100

_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+\Z", re.ASCII)
_BRACKETED = re.compile(r"\[([^\]]+)\](?::\d+)?\Z")
_PAIR = re.compile(r"""\s*+([^\s;=,"]++)\s*+=\s*+("(?:[^"\\]|\\.)*+"|[^;,"\s]*+)\s*+(?:;|\Z)""")


def parse_address(text: str) -> str | None:
    """
    The address in *text* in its canonical form, or None where it is none.

    Takes what proxies write: `192.0.2.1`, `192.0.2.1:5000`, `2001:db8::1`, `[2001:db8::1]:5000`. An IPv4 address
    dressed as IPv6 (`::ffff:192.0.2.1`) is the IPv4 address. A zone (`fe80::1%eth0`) is dropped.
    """
    return _parsed(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> str | None:
    text = text.strip().strip('"')
    bracketed = _BRACKETED.match(text)
    if bracketed:
        text = bracketed[1]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return canonical(text.partition("%")[0])


@lru_cache(maxsize=1 << 14)
def _ipv6_prefix(address: str, bits: int) -> str:
    try:
        packed = packed_v6(address.partition("%")[0])
    except (OSError, ValueError):
        return address
    return written_prefix(packed, bits)


def prefix_of(address: str) -> str:
    """
    What stands for a visitor without an account: the IPv4 address, or the IPv6 /64.

    >>> prefix_of("192.0.2.1"), prefix_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.1', '2001:db8:1:2::/64')
    """
    if ":" not in address or len(address) > _LONGEST:
        return address
    return _ipv6_prefix(address, _IPV6_VISITOR_BITS)


def network_of(address: str) -> str:
    """
    The network an address belongs to: IPv4 /24, IPv6 /48. What is no address (a host name in a log) has none.

    >>> network_of("192.0.2.1"), network_of("2001:db8:1:2::3"), network_of("host.example.org")
    ('192.0.2.0/24', '2001:db8:1::/48', '')
    """
    if ":" in address and len(address) <= _LONGEST:
        network = _ipv6_prefix(address, _IPV6_NETWORK_BITS)
        return network if network != address else ""
    return f"{address.rpartition('.')[0]}.0/{_IPV4_NETWORK_BITS}" if _IPV4.match(address) else ""


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
        if not self._by_bits or not isinstance(address, str) or len(address) > _LONGEST:
            return False
        return self._holds(address)

    def _look_up(self, address: str) -> bool:
        try:
            # A socket that listens for IPv6 and IPv4 at once names its IPv4 peers `::ffff:192.0.2.1`.
            parsed = ip_address(parse_address(address) or address)
        except ValueError:
            return False
        number = int(parsed)
        return any(
            number >> bits in numbers for (version, bits), numbers in self._by_bits.items() if version == parsed.version
        )


def check_network(text: str) -> IPv4Network | IPv6Network:
    """The network in *text*; ValueError with a sentence where it is none. `10.0.0.1/8` is a slip, not a network."""
    try:
        return ip_network(text, strict=True)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network: {error}") from None


def _hops(header: str, name: str) -> Iterator[str]:
    """What a header says of the client and the proxies after it, the last hop first."""
    if name == "forwarded":
        return map(_named_for, _elements(header))
    return reversed(header.split(","))


def _elements(header: str) -> Iterator[str]:
    """
    The elements of a Forwarded header, the last first.

    Quotes are read from the right, too. Each proxy writes its own element whole, so nothing that a client put to the
    left of it, such as a quote that never ends, can change where it begins.
    """
    end = position = len(header)
    quoted = False
    while position:
        position -= 1
        if header[position] == '"':
            escapes = position
            while escapes and header[escapes - 1] == "\\":
                escapes -= 1
            quoted ^= (position - escapes) % 2 == 0
        elif header[position] == "," and not quoted:
            yield header[position + 1 : end]
            end = position
    yield header[:end]


def _named_for(element: str) -> str:
    """
    Whom an element of a Forwarded header was written for, or "" where it does not say so in good form.

    >>> _named_for('host="a;for=192.0.2.9";For="[2001:db8::1]:80"')
    '[2001:db8::1]:80'
    """
    position = 0
    while pair := _PAIR.match(element, position):
        if pair[1].lower() == "for":
            return pair[2].strip('"')
        position = pair.end()
    return ""


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
        for hop in _hops(header, self.header):
            address = parse_address(hop)
            if address is None:
                break
            client = address
            if address not in self._networks:
                break
        return client

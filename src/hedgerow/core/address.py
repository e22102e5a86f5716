"""
Client addresses: parsing, the prefix that identifies a visitor, sets of networks, and trusted proxies.

A client can send any X-Forwarded-For, and each proxy appends to its right end. So the header is read from the right,
and only if the peer is a trusted proxy. The first address that is not a trusted proxy is the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from hedgerow.core.ip_bytes import canonical, format_ipv6_prefix, pack_ipv6

_IPV4_NETWORK_BITS = 24
_IPV6_NETWORK_BITS = 48
_IPV6_VISITOR_BITS = 64

# No address is longer, even with brackets, zone and port. Longer text is never cached: a client chooses its length, so
# the number of entries alone would not bound the caches' memory.
_MAX_LENGTH = 100

_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+\Z", re.ASCII)
_BRACKETED = re.compile(r"\[([^\]]+)\](?::\d+)?\Z")
_PAIR = re.compile(r"""\s*+([^\s;=,"]++)\s*+=\s*+("(?:[^"\\]|\\.)*+"|[^;,"\s]*+)\s*+(?:;|\Z)""")


def parse_address(text: str) -> str | None:
    """
    Return the address in *text* in canonical form, or None if it is not an address.

    Accepts the forms that proxies write: `192.0.2.1`, `192.0.2.1:5000`, `2001:db8::1`, `[2001:db8::1]:5000`. An
    IPv4-mapped address (`::ffff:192.0.2.1`) becomes the IPv4 address. A zone (`fe80::1%eth0`) is dropped.
    """
    return _parsed(text) if len(text) <= _MAX_LENGTH else None


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
        packed = pack_ipv6(address.partition("%")[0])
    except (OSError, ValueError):
        return address
    return format_ipv6_prefix(packed, bits)


def prefix_of(address: str) -> str:
    """
    Return the key of a visitor without an account: the IPv4 address, or the IPv6 /64.

    >>> prefix_of("192.0.2.1"), prefix_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.1', '2001:db8:1:2::/64')
    """
    if ":" not in address or len(address) > _MAX_LENGTH:
        return address
    return _ipv6_prefix(address, _IPV6_VISITOR_BITS)


def network_of(address: str) -> str:
    """
    Return the network of an address: IPv4 /24, IPv6 /48. A host name from a log has no network.

    >>> network_of("192.0.2.1"), network_of("2001:db8:1:2::3"), network_of("host.example.org")
    ('192.0.2.0/24', '2001:db8:1::/48', '')
    """
    if ":" in address and len(address) <= _MAX_LENGTH:
        network = _ipv6_prefix(address, _IPV6_NETWORK_BITS)
        return network if network != address else ""
    return f"{address.rpartition('.')[0]}.0/{_IPV4_NETWORK_BITS}" if _IPV4.match(address) else ""


def neighbours_of(address: str) -> list[str]:
    """
    Return the keys of visitors without an account next to an address: its IPv4 /24, or the /64s of its IPv6 /56.

    >>> neighbours_of("192.0.2.1")[::255], neighbours_of("2001:db8:1:2::3")[2]
    (['192.0.2.0', '192.0.2.255'], '2001:db8:1:2::/64')
    """
    if _IPV4.match(address):
        start = address.rpartition(".")[0]
        return [f"{start}.{last}" for last in range(256)]
    try:
        start_bytes = pack_ipv6(address)[: _IPV6_VISITOR_BITS // 8 - 1]
    except (OSError, ValueError):
        return []
    return [format_ipv6_prefix(start_bytes + bytes((last, *bytes(8))), _IPV6_VISITOR_BITS) for last in range(256)]


def is_loopback(host: str) -> bool:
    """
    Return whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::"), is_loopback("")
    (True, True, False, False)
    """
    try:
        return host == "localhost" or ip_address(parse_address(host) or host).is_loopback
    except ValueError:
        return False


class Networks:
    """A set of networks. A test costs one set lookup per prefix length, however many networks there are."""

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
        if not self._by_bits or not isinstance(address, str) or len(address) > _MAX_LENGTH:
            return False
        return self._holds(address)

    def _look_up(self, address: str) -> bool:
        try:
            # A dual-stack socket reports its IPv4 peers as `::ffff:192.0.2.1`.
            parsed = ip_address(parse_address(address) or address)
        except ValueError:
            return False
        number = int(parsed)
        return any(
            number >> bits in numbers for (version, bits), numbers in self._by_bits.items() if version == parsed.version
        )


def check_network(text: str) -> IPv4Network | IPv6Network:
    """Return the network in *text*, or raise ValueError. Host bits, as in `10.0.0.1/8`, are an error."""
    try:
        return ip_network(text, strict=True)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network: {error}") from None


def _hops(header: str, name: str) -> Iterator[str]:
    """Yield the hops named in a header, from the nearest proxy to the client."""
    if name == "forwarded":
        return map(_for_value, _elements(header))
    return reversed(header.split(","))


def _elements(header: str) -> Iterator[str]:
    """
    Yield the elements of a Forwarded header, last one first.

    Quotes are matched from the right, too. Each proxy writes a whole element, so an unclosed quote that a client put to
    the left of it cannot change where the element begins.
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


def _for_value(element: str) -> str:
    """
    Return the value of `for` in an element of a Forwarded header, or "" if it is missing or malformed.

    >>> _for_value('host="a;for=192.0.2.9";For="[2001:db8::1]:80"')
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
    The trusted proxies, and the header in which they name the client.

    Only one header is read. A proxy that appends to X-Forwarded-For passes a client's own Forwarded header unchanged.
    """

    def __init__(self, networks: Iterable[str] = (), header: str = "x-forwarded-for") -> None:
        self._networks = Networks(networks)
        self.header = header.lower()

    def __bool__(self) -> bool:
        return bool(self._networks)

    def trusts(self, peer: str) -> bool:
        return peer in self._networks

    def client(self, peer: str, header: str) -> str:
        """
        Return the client's address, given the connection's *peer* and the value of the header.

        A hop that is not an address ends the walk. Anything left of it may be forged, so the last trusted proxy counts
        as the client.
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

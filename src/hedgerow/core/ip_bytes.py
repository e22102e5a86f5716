"""
Conversion of IP addresses between text and bytes with the C library: a fifth of the time that `ipaddress` takes.

Nothing here opens a socket. Text that is not an address raises OSError, or ValueError if it holds a NUL or a surrogate.
"""

from __future__ import annotations

from functools import partial
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from struct import Struct

V4, V6 = int(AF_INET), int(AF_INET6)
pack_address = inet_pton
"""`pack_address(V4 or V6, text)`: like the next two, without the cost of `partial` for very hot callers."""
pack_ipv4 = partial(inet_pton, AF_INET)
"""The four bytes of an IPv4 address. Only the canonical form is accepted."""
pack_ipv6 = partial(inet_pton, AF_INET6)
"""The sixteen bytes of an IPv6 address without a zone."""
format_ipv4 = partial(inet_ntop, AF_INET)

_high_half = Struct(">Q8x").unpack
_half = Struct(">Q").pack
_groups = Struct(">4H").unpack
_HIGH = "%x:%x:%x:%x"
# Prefixes of whole 16-bit groups need no arithmetic.
_WHOLE_GROUPS = {16 * n: (":".join(["%x"] * n), Struct(f">{n}H{16 - 2 * n}x").unpack) for n in (1, 2, 3, 4)}
# For each number of host bits: how many bytes they touch, and the tail's text for each value of the first byte.
_IPV4_TAILS = {
    8 * (number - 1) + bits: (
        number,
        [f".{byte >> bits << bits}{'.0' * (number - 1)}/{40 - 8 * number - bits}" for byte in range(256)],
    )
    for number in (1, 2, 3)
    for bits in range(1, 9)
}
_MAPPED = bytes(10) + b"\xff\xff"
_TEN_ZEROS = bytes(10)


def format_ipv6(packed: bytes) -> str:
    # The C library writes the end of an IPv4-compatible address in dotted form; `ipaddress` does not.
    return str(IPv6Address(packed)) if packed.startswith(_TEN_ZEROS) else inet_ntop(AF_INET6, packed)


def format_ipv6_prefix(packed: bytes, bits: int) -> str:
    """
    Format the IPv6 network of the first *bits* (at most 64) of an address.

    >>> format_ipv6_prefix(pack_ipv6("2001:db8:1:2:3::"), 48), format_ipv6_prefix(bytes(16), 0)
    ('2001:db8:1::/48', '::/0')
    """
    if bits in _WHOLE_GROUPS:
        form, groups = _WHOLE_GROUPS[bits]
        text = form % groups(packed)
    else:
        (high,) = _high_half(packed)
        text = _HIGH % _groups(_half(high >> 64 - bits << 64 - bits))
    # The run of zeros at the end is always the longest, so `::` replaces it.
    while text.endswith(":0"):
        text = text[:-2]
    return f"{'' if text == '0' else text}::/{bits}"


def canonical(text: str) -> str | None:
    """
    Return an address in canonical form, or None if it is not an address. An IPv4-mapped address becomes IPv4.

    >>> canonical("2001:DB8:0::1"), canonical("::ffff:192.0.2.1"), canonical("192.0.2.01")
    ('2001:db8::1', '192.0.2.1', None)
    """
    try:
        if ":" not in text:
            pack_ipv4(text)
            return text
        packed = pack_ipv6(text)
    except (OSError, ValueError):
        return None
    return format_ipv4(packed[12:]) if packed.startswith(_MAPPED) else format_ipv6(packed)


def format_ipv4_network(address: str, packed: bytes, shift: int) -> str:
    """
    Format the network with *shift* host bits around an address, which is given both as text and as bytes.

    >>> [format_ipv4_network("192.0.2.77", pack_ipv4("192.0.2.77"), shift) for shift in (3, 8, 20)]
    ['192.0.2.72/29', '192.0.2.0/24', '192.0.0.0/12']
    """
    if shift in _IPV4_TAILS:
        number, tails = _IPV4_TAILS[shift]
        return address.rsplit(".", number)[0] + tails[packed[-number]]
    return f"{format_ipv4((int.from_bytes(packed) >> shift << shift).to_bytes(4))}/{32 - shift}"

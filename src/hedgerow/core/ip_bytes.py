"""
Addresses as bytes and as text, by the functions of the C library: a fifth of the time that `ipaddress` takes.

They only read and write text; no socket is opened here or by who calls this. What is no address is an OSError, or a
ValueError where it could not even be handed on.
"""

from __future__ import annotations

from functools import partial
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from struct import Struct

V4, V6 = int(AF_INET), int(AF_INET6)
packed = inet_pton
"""The bytes of an address of V4 or V6: the same as the next two, for who calls it a hundred thousand times a second."""
packed_v4 = partial(inet_pton, AF_INET)
"""The four bytes of an IPv4 address in its canonical form; nothing else is one."""
packed_v6 = partial(inet_pton, AF_INET6)
"""The sixteen bytes of an IPv6 address, without a zone."""
written_v4 = partial(inet_ntop, AF_INET)

_high_half = Struct(">Q8x").unpack
_half = Struct(">Q").pack
_groups = Struct(">4H").unpack
_HIGH = "%x:%x:%x:%x"
# Networks that end with a group need no arithmetic.
_WHOLE = {16 * n: (":".join(["%x"] * n), Struct(f">{n}H{16 - 2 * n}x").unpack) for n in (1, 2, 3, 4)}
# By how many bits a network leaves open: how many bytes are not wholly its own, and how it ends for each first of them.
_ENDS_V4 = {
    8 * (number - 1) + bits: (
        number,
        [f".{byte >> bits << bits}{'.0' * (number - 1)}/{40 - 8 * number - bits}" for byte in range(256)],
    )
    for number in (1, 2, 3)
    for bits in range(1, 9)
}
_MAPPED = bytes(10) + b"\xff\xff"
_NOTHING = bytes(10)


def written_v6(packed: bytes) -> str:
    """An IPv6 address in its canonical form."""
    # The C library ends addresses that hold one of IPv4 with that one.
    return str(IPv6Address(packed)) if packed.startswith(_NOTHING) else inet_ntop(AF_INET6, packed)


def written_prefix(packed: bytes, bits: int) -> str:
    """
    The IPv6 network of the first *bits* of an address, at most 64, as one writes it.

    >>> written_prefix(packed_v6("2001:db8:1:2:3::"), 48), written_prefix(bytes(16), 0)
    ('2001:db8:1::/48', '::/0')
    """
    if bits in _WHOLE:
        form, groups = _WHOLE[bits]
        text = form % groups(packed)
    else:
        (high,) = _high_half(packed)
        text = _HIGH % _groups(_half(high >> 64 - bits << 64 - bits))
    # The zeros at the end are more than there can be before them: it is they that are left out.
    while text.endswith(":0"):
        text = text[:-2]
    return f"{'' if text == '0' else text}::/{bits}"


def canonical(text: str) -> str | None:
    """
    An address as one writes it, or None where it is none. An IPv4 address dressed as IPv6 is the IPv4 address.

    >>> canonical("2001:DB8:0::1"), canonical("::ffff:192.0.2.1"), canonical("192.0.2.01")
    ('2001:db8::1', '192.0.2.1', None)
    """
    try:
        if ":" not in text:
            packed_v4(text)
            return text
        packed = packed_v6(text)
    except (OSError, ValueError):
        return None
    return written_v4(packed[12:]) if packed.startswith(_MAPPED) else written_v6(packed)


def written_network_v4(address: str, packed: bytes, shift: int) -> str:
    """
    The network that leaves *shift* bits open and holds an address, which is given both as text and as bytes.

    >>> [written_network_v4("192.0.2.77", packed_v4("192.0.2.77"), shift) for shift in (3, 8, 20)]
    ['192.0.2.72/29', '192.0.2.0/24', '192.0.0.0/12']
    """
    if shift in _ENDS_V4:
        number, ends = _ENDS_V4[shift]
        return address.rsplit(".", number)[0] + ends[packed[-number]]
    return f"{written_v4((int.from_bytes(packed) >> shift << shift).to_bytes(4))}/{32 - shift}"

"""
Networks: which networks hold several sources that are no people's, and hardly anybody else.

A network is an IPv4 /24 or an IPv6 /48; its neighbours are those in the same /20 or /32. A log has very many sources:
IPv4 addresses are numbers here, and only what is found gets a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.ip_bytes import format_ipv4, pack_ipv4

Ints = NDArray[np.int64]

_OTHER = 1 << 24
"""Networks that are none of IPv4 have numbers from here on."""


class Neighbours(NamedTuple):
    """*networks*, all in the network *wide*, and the sources in them, ascending; both in the order of their texts."""

    networks: tuple[str, ...]
    wide: str
    members: tuple[int, ...]


def network_of(address: str) -> tuple[str, str]:
    """The network of an address, and the wider one that holds its neighbours; empty where it is no address."""
    plain = _ipv4(address)
    if plain:
        return _texts(int.from_bytes(plain) >> 8)
    try:
        parsed = IPv6Address(address.partition("/")[0])
    except ValueError:
        return "", ""
    words = parsed.exploded.split(":")
    return ":".join(words[:3]) + "::/48", ":".join(words[:2]) + "::/32"


def _ipv4(address: str) -> bytes:
    """The bytes of an IPv4 address, or of a network's first; empty where it is none."""
    try:
        return pack_ipv4(address.partition("/")[0])
    except (OSError, ValueError):
        return b""


def _texts(number: int) -> tuple[str, str]:
    """The texts of the IPv4 /24 of a number, and of its /20."""
    own, wide = number << 8, number >> 4 << 12
    return f"{format_ipv4(own.to_bytes(4))}/24", f"{format_ipv4(wide.to_bytes(4))}/20"


def full(
    names: Sequence[str],
    people: NDArray[np.bool_],
    doubtful: NDArray[np.bool_],
    *,
    members: int,
    share: float,
    around: int,
) -> list[Neighbours]:
    """
    Neighbouring networks of which at least one has so many *members*, sources that are no *people*.

    Networks of which more than this *share* are people do not count. A lone source beside a full network is of it;
    several networks with one source each are only neighbours. Who only looks like a person (*doubtful*) is a member in
    a network that counts where so many are *around* it: a crawler draws a page now and then.
    """
    network, texts = _numbered(names)
    there = np.flatnonzero(network >= 0)
    numbers, which = np.unique(network[there], return_inverse=True)
    crowd = np.bincount(which[people[there]], minlength=len(numbers))
    inside = np.bincount(which, minlength=len(numbers)) - crowd
    counts = (inside > 0) & (crowd <= share * (inside + crowd))
    # A network and its neighbours have the same number here, whichever kind they are.
    wider = {wide: number for number, (_, wide) in texts.items()}
    others = [wider[texts[number][1]] for number in numbers[numbers >= _OTHER].tolist()]
    wide = np.append(numbers[numbers < _OTHER] >> 4, np.array(others, np.int64))
    wanted = counts & np.isin(wide, wide[counts & (inside >= members)])
    # The sources of each network that is wanted, in their order.
    member = ~people[there] | (doubtful[there] & (inside[which] >= around))
    chosen = np.flatnonzero(wanted[which] & member)
    order = chosen[np.argsort(which[chosen], kind="stable")]
    sources = np.split(there[order], np.flatnonzero(np.diff(which[order])) + 1)
    found: dict[str, list[tuple[str, list[int]]]] = {}
    for number, some in zip(numbers[wanted].tolist(), sources, strict=False):
        own, wide_text = texts[number] if number >= _OTHER else _texts(number)
        found.setdefault(wide_text, []).append((own, some.tolist()))
    return [
        Neighbours(
            tuple(sorted(own for own, _ in found[text])),
            text,
            tuple(sorted(source for _, some in found[text] for source in some)),
        )
        for text in sorted(found)
    ]


def _numbered(names: Sequence[str]) -> tuple[Ints, dict[int, tuple[str, str]]]:
    """The number of each one's network, -1 where it is no address; and the texts of those that are none of IPv4."""
    found = np.full(len(names), -1, np.int64)
    plain = [_ipv4(name) for name in names]
    is_plain = np.array(list(map(bool, plain)), np.bool_)
    found[is_plain] = np.frombuffer(b"".join(plain), ">u4") >> 8
    numbers: dict[tuple[str, str], int] = {}
    for place in np.flatnonzero(~is_plain).tolist():
        network = network_of(names[place])
        if network[0]:
            found[place] = numbers.setdefault(network, _OTHER + len(numbers))
    return found, {number: network for network, number in numbers.items()}

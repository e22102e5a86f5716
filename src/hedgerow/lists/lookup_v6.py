"""Fast lookup of the IPv6 networks that contain an address; see `lookup`."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from struct import Struct
from typing import Any, Generic

import msgspec

from hedgerow.core.ip_bytes import V6, format_ipv6, pack_address
from hedgerow.lists.lookup import BUCKETS, SHIFT_BITS, SHIFT_MASK, Chain, Networks, Row, SharedChains, T, ranges_of

_HALF = 64
_HALF_MASK = (1 << _HALF) - 1
# Addresses that differ only in these last bits are in one chunk.
_CHUNK_BITS = 104

_high_half = Struct(">Q8x").unpack
_low_half = Struct(">8xQ").unpack


class _SingleAddress(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An IPv6 /64 with one listed address: its text and chain, and the chain of all other addresses."""

    address: str
    inside: Chain[T]
    outside: Chain[T]


class _SubRanges(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The ranges within one IPv6 /64, by the low halves of their addresses. Chains and texts are as in a chunk."""

    starts: Sequence[int]
    chains: Sequence[Chain[T]]
    texts: Sequence[str]


def _text_v6(number: int, shift: int) -> str:
    """Format the network with *shift* host bits that contains an address."""
    text = format_ipv6((number >> shift << shift).to_bytes(16))
    return f"{text}/{128 - shift}" if shift else text


def _split_64(inside: list[tuple[int, Chain[T], str]]) -> tuple[_SingleAddress[T] | _SubRanges[T], str]:
    """Return the structure for several ranges within one /64, and its text."""
    single = [(text, chain) for _, chain, text in inside if chain and not chain[1]]
    others = {(id(chain), text): (chain, text) for _, chain, text in inside if not chain or chain[1]}
    if len(single) == len(others) == 1:
        ((outside, text),) = others.values()
        return _SingleAddress(*single[0], outside), text
    lows = array("Q", [start & _HALF_MASK for start, _, _ in inside])
    return _SubRanges(lows, tuple(chain for _, chain, _ in inside), tuple(text for *_, text in inside)), ""


def _find_in_64(
    held: _SingleAddress[T] | _SubRanges[T], text: str, address: str, octets: bytes
) -> tuple[Chain[T], str]:
    """Return the chain of an address in a /64 with several ranges, and the text of its first network."""
    if isinstance(held, _SingleAddress):
        if held.address == address or pack_address(V6, held.address) == octets:
            return held.inside, held.address
        return held.outside, text
    (low,) = _low_half(octets)
    n = bisect_right(held.starts, low) - 1
    return held.chains[n], held.texts[n]


class NetworksV6(Networks[T]):
    """
    IPv6: buckets are the second 16 bits, because the first 16 are the same in most addresses.

    A range starts at the high half (the /64) of an address. Networks smaller than a /64 are in nested structures.
    Formatting a network takes half as long as finding it, so the second column has the texts of the chains' first
    networks.
    """

    _code = "Q"
    _max_shift = 96
    _defaults = (), ""

    def __init__(self) -> None:
        super().__init__()
        # For each chunk the ranges of the networks that contain whole buckets of it. Empty if there are none.
        self._large_chains: list[tuple[()] | tuple[list[int], list[Chain[T]]]] = [()] * BUCKETS

    def find(self, at: float, address: str) -> tuple[T, str] | None:
        octets = pack_address(V6, address)
        (high,) = _high_half(octets)
        number, n = octets[2], octets[3]
        offsets, starts, chains, texts = self._chunks[number]
        index = bisect_right(starts, high, offsets[n], offsets[n + 1]) - 1
        chain = chains[index]
        if chain:
            text = texts[index]
            if type(chain) is not tuple:
                chain, text = _find_in_64(chain, text, address, octets)
            while chain:
                note, _, chain = chain
                if note.ends > at:
                    return note, text
                if chain:
                    text = _text_v6(int.from_bytes(octets), chain[1])
        if large := self._large_chains[number]:
            chain = large[1][bisect_right(large[0], high) - 1]
            while chain:
                note, shift, chain = chain
                if note.ends > at:
                    return note, _text_v6(int.from_bytes(octets), shift)
        return None

    def _bucket(self, start: int) -> int:
        return start >> 96 & 0xFFFF

    def _row(self, bucket: int, members: Mapping[int, tuple[T, ...]], shared: SharedChains[T]) -> Row:  # noqa: ARG002 - signature of the base class
        starts: list[int] = []
        held: list[Any] = []
        texts: list[str] = []
        last: tuple[Chain[T], str] = (), ""
        texts_by_network: dict[int, str] = {}

        def text_of(start: int, chain: Chain[T]) -> str:
            # Formatted once for all ranges of a network.
            shift = chain[1] if chain else 0
            key = start >> shift << shift << SHIFT_BITS | shift
            return (
                texts_by_network.setdefault(key, texts_by_network.get(key) or _text_v6(start, shift)) if chain else ""
            )

        def add(start: int, chain: Any, text: str) -> None:
            starts.append(start)
            held.append(chain)
            texts.append(text)

        ranges = ((start, chain, text_of(start, chain)) for start, chain in ranges_of(members, 0, 1 << 128, shared))
        for high, group in groupby(ranges, lambda part: part[0] >> _HALF):
            inside = list(group)
            if inside[0][0] & _HALF_MASK:
                inside.insert(0, (high << _HALF, *last))
            if starts and starts[-1] == high:
                # Already started at the end of the /64 before it.
                for column in (starts, held, texts):
                    column.pop()
            last = inside[-1][1:]
            if len(inside) == 1:
                add(high, *last)
                continue
            add(high, *_split_64(inside))
            if high < _HALF_MASK:
                add(high + 1, *last)
        return starts, (held, texts)

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[T]]]:  # noqa: ARG002 - signature of the base class
        if isinstance(held, _SubRanges):
            return ((start << _HALF | low, chain) for low, chain in zip(held.starts, held.chains, strict=True))
        if isinstance(held, _SingleAddress):
            return (start << _HALF, held.outside), (int.from_bytes(pack_address(V6, held.address)), held.inside)
        return ((start << _HALF, held),)

    def _settle_large(self, shared: SharedChains[T]) -> None:
        ranges = ranges_of(self._large, 0, 1 << 128, shared)
        # Few, and a list is bisected faster than an array.
        columns = [start >> _HALF for start, _ in ranges], [chain for _, chain in ranges]
        touched: set[int] = set()
        for key in self._large:
            first, shift = key >> _CHUNK_BITS + SHIFT_BITS, (key & SHIFT_MASK) - _CHUNK_BITS
            touched.update(n % BUCKETS for n in range(first, first + (1 << min(max(shift, 0), 8))))
        self._large_chains = [columns if n in touched else () for n in range(BUCKETS)]

"""
Fast lookup of the networks that contain an address, among a million networks.

The address space is cut into ranges in which every address belongs to the same networks. Sixteen of the first bits give
a range's bucket, and 256 buckets form a chunk: plain arrays and tuples without an object per network. A lookup reads
the bounds of its bucket, bisects between them, and finds the chain of networks of the range. Memory latency dominates
the cost, so a lookup touches few cache lines. Function calls come second, so a lookup is one function from text to
note.

A chunk is immutable. A change replaces it, so that a concurrent lookup sees the old or the new chunk. Networks larger
than a bucket are few and stored separately. They apply if no smaller one does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from struct import Struct
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from hedgerow.core.ip_bytes import V4, V6, format_ipv4_network, format_ipv6, pack_address


class Note(Protocol):
    """A value attached to a network, valid until it *ends*."""

    @property
    def ends(self) -> float: ...


_T = TypeVar("_T", bound=Note)

Chain = tuple[()] | tuple[_T, int, "Chain[_T]"]
"""
The notes of the networks that contain an address, smallest network first: a note, the number of host bits, the rest. It
does not depend on the address itself, so that many addresses share one chain.
"""

_BUCKETS = 256
# A network's key: its first address, then the number of host bits.
_SHIFT_BITS = 8
_SHIFT_MASK = 255
_MAX_SHORT = 1 << 16
_HALF = 64
_HALF_MASK = (1 << _HALF) - 1
# IPv6 addresses that differ only in these last bits are in one chunk.
_CHUNK_BITS = 104

_parts_v4 = Struct(">BBH").unpack
_high_half = Struct(">Q8x").unpack
_low_half = Struct(">8xQ").unpack


class _SingleAddress(msgspec.Struct, Generic[_T], frozen=True, gc=False):
    """An IPv6 /64 with one listed address: its text and chain, and the chain of all other addresses."""

    address: str
    inside: Chain[_T]
    outside: Chain[_T]


class _SubRanges(msgspec.Struct, Generic[_T], frozen=True, gc=False):
    """The ranges within one IPv6 /64, by the low halves of their addresses. Chains and texts are as in a chunk."""

    starts: Sequence[int]
    chains: Sequence[Chain[_T]]
    texts: Sequence[str]


_Row = tuple[list[int], tuple[list[Any], ...]]
"""The ranges of a bucket: the start of each, and the columns of a chunk."""
_Chunk = tuple[Any, ...]
"""
The offsets of 256 buckets and the end of the last one; the starts of all ranges; and columns, the first of which has
the ranges' chains.
"""

_SharedChains = dict[tuple[int, int], Chain[_T]]
"""Chains of one note by host bits and the note's id. Most networks do not overlap and share notes of one import."""


def _chain_of(shift: int, notes: tuple[_T, ...], enclosing: Chain[_T], shared: _SharedChains[_T]) -> Chain[_T]:
    if enclosing or len(notes) > 1:
        for note in reversed(notes):
            enclosing = note, shift, enclosing
        return enclosing
    # The chain holds the note, so its id cannot be reused.
    return shared.setdefault((shift, id(notes[0])), (notes[0], shift, ()))


def _ranges(
    members: Mapping[int, tuple[_T, ...]], first: int, end: int, shared: _SharedChains[_T]
) -> list[tuple[int, Chain[_T]]]:
    """Return the start and the chain of each range between *first* and *end*."""
    ranges: list[tuple[int, Chain[_T]]] = [(first, ())]
    enclosing: list[tuple[int, Chain[_T]]] = []

    def begin(at: int, chain: Chain[_T]) -> None:
        if ranges[-1][0] == at:
            ranges[-1] = (at, chain)
        elif at < end:
            ranges.append((at, chain))

    def leave(before: int) -> None:
        while enclosing and enclosing[-1][0] <= before:
            over, _ = enclosing.pop()
            begin(over, enclosing[-1][1] if enclosing else ())

    # A network comes before those inside it: they start at the same address or later, with fewer host bits.
    for key in sorted(members, key=_SHIFT_MASK.__xor__):
        start, shift = key >> _SHIFT_BITS, key & _SHIFT_MASK
        leave(start)
        chain = _chain_of(shift, members[key], enclosing[-1][1] if enclosing else (), shared)
        enclosing.append((start + (1 << shift), chain))
        begin(start, chain)
    leave(end)
    return ranges


class Networks(ABC, Generic[_T]):
    """
    The networks of one IP version, each with notes. The first note that has not ended applies.

    One thread at a time may change them. Changes take effect when it calls `settle`. Until then the networks of changed
    buckets are in dictionaries, which are built from the ranges: nothing is stored twice.
    """

    _code: ClassVar[str]
    """Type code of the array with the starts of ranges."""
    _max_shift: ClassVar[int]
    """The host bits of the largest network that fits into one bucket."""
    _defaults: ClassVar[tuple[Any, ...]] = ((),)
    """The value of each column for a range without networks."""

    def __init__(self) -> None:
        columns = [(default,) * _BUCKETS for default in self._defaults]
        self._empty: _Chunk = array("H", range(_BUCKETS + 1)), array(self._code, [0] * _BUCKETS), *columns
        self._chunks = [self._empty] * _BUCKETS
        self._changed: dict[int, dict[int, tuple[_T, ...]]] = {}
        self._large: dict[int, tuple[_T, ...]] = {}
        self._large_changed = False

    def table(self, start: int, shift: int) -> tuple[dict[int, tuple[_T, ...]], int]:
        """Return the dictionary for a network's notes, and its key. The network counts as changed."""
        key = start << _SHIFT_BITS | shift
        if shift > self._max_shift:
            self._large_changed = True
            return self._large, key
        bucket = self._bucket(start)
        members = self._changed.get(bucket)
        if members is None:
            members = self._changed[bucket] = self._members(bucket)
        return members, key

    def clear(self) -> None:
        self._large, self._large_changed = {}, True
        self._changed = {
            number * _BUCKETS + n: {}
            for number, chunk in enumerate(self._chunks)
            if chunk is not self._empty
            for n in range(_BUCKETS)
        }

    def settle(self, pause: Callable[[], None]) -> None:
        """Apply all changes. *pause* is called from time to time, so that other threads can run."""
        shared: _SharedChains[_T] = {}
        if self._large_changed:
            self._settle_large(shared)
            self._large_changed = False
        by_chunk: dict[int, list[int]] = {}
        for bucket in self._changed:
            by_chunk.setdefault(bucket // _BUCKETS, []).append(bucket)
        for number, buckets in by_chunk.items():
            rows = {}
            for bucket in buckets:
                rows[bucket % _BUCKETS] = self._row(bucket, self._changed.pop(bucket), shared)
                pause()
            self._chunks[number] = self._with_rows(self._chunks[number], rows)

    def _with_rows(self, chunk: _Chunk, rows: Mapping[int, _Row]) -> _Chunk:
        """Return a chunk with new rows for some of its buckets."""
        old_offsets, old_starts, *old_columns = chunk
        offsets, starts = array("I", (0,)), array(self._code)
        columns: list[list[Any]] = [[] for _ in old_columns]
        done = 0
        for n in (*sorted(rows), _BUCKETS):
            # Copy the unchanged buckets before it at once.
            unchanged = slice(old_offsets[done], old_offsets[n])
            offset = len(starts) - old_offsets[done]
            offsets.extend([old + offset for old in old_offsets[done + 1 : n + 1]])
            starts += old_starts[unchanged]
            for column, old_column in zip(columns, old_columns, strict=True):
                column.extend(old_column[unchanged])
            if n in rows:
                row_starts, row_columns = rows[n]
                starts.extend(row_starts)
                for column, row_column in zip(columns, row_columns, strict=True):
                    column.extend(row_column)
                offsets.append(len(starts))
            done = n + 1
        if not any(columns[0]):
            return self._empty
        # Smaller arrays need fewer cache lines.
        short = array("H", offsets) if len(starts) < _MAX_SHORT else offsets
        return short, starts, *map(tuple, columns)

    def _members(self, bucket: int) -> dict[int, tuple[_T, ...]]:
        """Return the networks of a bucket, collected from the chains of its ranges."""
        offsets, starts, chains, *_ = self._chunks[bucket // _BUCKETS]
        n = bucket % _BUCKETS
        members: dict[int, tuple[_T, ...]] = {}
        for position in range(offsets[n], offsets[n + 1]):
            for start, whole in self._unfolded(bucket, starts[position], chains[position]):
                notes_by_key: dict[int, list[_T]] = {}
                chain = whole
                while chain:
                    note, shift, chain = chain
                    notes_by_key.setdefault(start >> shift << shift << _SHIFT_BITS | shift, []).append(note)
                members.update((key, tuple(notes)) for key, notes in notes_by_key.items())
        return members

    @abstractmethod
    def find(self, at: float, address: str) -> tuple[_T, str] | None:
        """
        Return the valid note of the smallest network that contains an address, and that network.

        Raises OSError or ValueError if *address* is not one.
        """

    @abstractmethod
    def _bucket(self, start: int) -> int: ...

    @abstractmethod
    def _row(self, bucket: int, members: Mapping[int, tuple[_T, ...]], shared: _SharedChains[_T]) -> _Row:
        """Return the ranges of a bucket with these networks."""

    @abstractmethod
    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:
        """Return the start addresses and chains of the ranges stored under *start*."""

    @abstractmethod
    def _settle_large(self, shared: _SharedChains[_T]) -> None:
        """Apply changes of networks that are larger than a bucket."""


class NetworksV4(Networks[_T]):
    """IPv4: buckets are /16s, chunks are /8s. A range starts at the last two bytes of its first address."""

    _code = "H"
    _max_shift = 16

    def __init__(self) -> None:
        super().__init__()
        # For each chunk, and each of its buckets: the networks that contain all of it. Empty if there are none.
        self._large_chains: list[tuple[Chain[_T], ...]] = [()] * _BUCKETS

    def find(self, at: float, address: str) -> tuple[_T, str] | None:
        number, n, low = _parts_v4(octets := pack_address(V4, address))
        offsets, starts, chains = self._chunks[number]
        chain = chains[bisect_right(starts, low, offsets[n], offsets[n + 1]) - 1]
        while chain:
            note, shift, chain = chain
            if note.ends > at:
                return note, format_ipv4_network(address, octets, shift) if shift else address
        if large := self._large_chains[number]:
            chain = large[n]
            while chain:
                note, shift, chain = chain
                if note.ends > at:
                    return note, format_ipv4_network(address, octets, shift)
        return None

    def _bucket(self, start: int) -> int:
        return start >> 16

    def _row(self, bucket: int, members: Mapping[int, tuple[_T, ...]], shared: _SharedChains[_T]) -> _Row:
        ranges = _ranges(members, bucket << 16, (bucket + 1) << 16, shared)
        return [start & 0xFFFF for start, _ in ranges], ([chain for _, chain in ranges],)

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:
        return ((bucket << 16 | start, held),)

    def _settle_large(self, shared: _SharedChains[_T]) -> None:
        chains: list[Chain[_T]] = []
        ranges = _ranges(self._large, 0, 1 << 32, shared)
        for (start, chain), (end, _) in pairwise([*ranges, (1 << 32, ())]):
            chains += [chain] * ((end - start) >> 16)
        chunks = (tuple(chains[at : at + _BUCKETS]) for at in range(0, len(chains), _BUCKETS))
        self._large_chains = [chunk if any(chunk) else () for chunk in chunks]


def _text_v6(number: int, shift: int) -> str:
    """Format the network with *shift* host bits that contains an address."""
    text = format_ipv6((number >> shift << shift).to_bytes(16))
    return f"{text}/{128 - shift}" if shift else text


def _split_64(inside: list[tuple[int, Chain[_T], str]]) -> tuple[_SingleAddress[_T] | _SubRanges[_T], str]:
    """Return the structure for several ranges within one /64, and its text."""
    single = [(text, chain) for _, chain, text in inside if chain and not chain[1]]
    others = {(id(chain), text): (chain, text) for _, chain, text in inside if not chain or chain[1]}
    if len(single) == len(others) == 1:
        ((outside, text),) = others.values()
        return _SingleAddress(*single[0], outside), text
    lows = array("Q", [start & _HALF_MASK for start, _, _ in inside])
    return _SubRanges(lows, tuple(chain for _, chain, _ in inside), tuple(text for *_, text in inside)), ""


def _find_in_64(
    held: _SingleAddress[_T] | _SubRanges[_T], text: str, address: str, octets: bytes
) -> tuple[Chain[_T], str]:
    """Return the chain of an address in a /64 with several ranges, and the text of its first network."""
    if isinstance(held, _SingleAddress):
        if held.address == address or pack_address(V6, held.address) == octets:
            return held.inside, held.address
        return held.outside, text
    (low,) = _low_half(octets)
    n = bisect_right(held.starts, low) - 1
    return held.chains[n], held.texts[n]


class NetworksV6(Networks[_T]):
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
        self._large_chains: list[tuple[()] | tuple[list[int], list[Chain[_T]]]] = [()] * _BUCKETS

    def find(self, at: float, address: str) -> tuple[_T, str] | None:
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

    def _row(self, bucket: int, members: Mapping[int, tuple[_T, ...]], shared: _SharedChains[_T]) -> _Row:  # noqa: ARG002 - signature of the base class
        starts: list[int] = []
        held: list[Any] = []
        texts: list[str] = []
        last: tuple[Chain[_T], str] = (), ""
        texts_by_network: dict[int, str] = {}

        def text_of(start: int, chain: Chain[_T]) -> str:
            # Formatted once for all ranges of a network.
            shift = chain[1] if chain else 0
            key = start >> shift << shift << _SHIFT_BITS | shift
            return (
                texts_by_network.setdefault(key, texts_by_network.get(key) or _text_v6(start, shift)) if chain else ""
            )

        def add(start: int, chain: Any, text: str) -> None:
            starts.append(start)
            held.append(chain)
            texts.append(text)

        ranges = ((start, chain, text_of(start, chain)) for start, chain in _ranges(members, 0, 1 << 128, shared))
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

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:  # noqa: ARG002 - signature of the base class
        if isinstance(held, _SubRanges):
            return ((start << _HALF | low, chain) for low, chain in zip(held.starts, held.chains, strict=True))
        if isinstance(held, _SingleAddress):
            return (start << _HALF, held.outside), (int.from_bytes(pack_address(V6, held.address)), held.inside)
        return ((start << _HALF, held),)

    def _settle_large(self, shared: _SharedChains[_T]) -> None:
        ranges = _ranges(self._large, 0, 1 << 128, shared)
        # Few, and a list is bisected faster than an array.
        columns = [start >> _HALF for start, _ in ranges], [chain for _, chain in ranges]
        touched: set[int] = set()
        for key in self._large:
            first, shift = key >> _CHUNK_BITS + _SHIFT_BITS, (key & _SHIFT_MASK) - _CHUNK_BITS
            touched.update(n % _BUCKETS for n in range(first, first + (1 << min(max(shift, 0), 8))))
        self._large_chains = [columns if n in touched else () for n in range(_BUCKETS)]

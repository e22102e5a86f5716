"""
Fast lookup of the networks that contain an address, among a million networks: the common part, and IPv4.

The address space is cut into ranges in which every address belongs to the same networks. Sixteen of the first bits give
a range's bucket, and 256 buckets form a chunk: plain arrays and tuples without an object per network. A lookup reads
the bounds of its bucket, bisects between them, and finds the chain of networks of the range. Memory latency dominates
the cost, so a lookup touches few cache lines. Function calls come second, so a lookup is one function from text to
note.

A chunk is immutable. A change replaces it, so that a concurrent lookup sees the old or the new chunk. Networks larger
than a bucket are few and stored separately. They apply if no smaller one does. `lookup_v6` has the part for IPv6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from struct import Struct
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from hedgerow.core.ip_bytes import V4, format_ipv4_network, pack_address


class Note(Protocol):
    """A value attached to a network, valid until it *ends*."""

    @property
    def ends(self) -> float: ...


T = TypeVar("T", bound=Note)

Chain = tuple[()] | tuple[T, int, "Chain[T]"]
"""
The notes of the networks that contain an address, smallest network first: a note, the number of host bits, the rest. It
does not depend on the address itself, so that many addresses share one chain.
"""

BUCKETS = 256
# A network's key: its first address, then the number of host bits.
SHIFT_BITS = 8
SHIFT_MASK = 255
_MAX_SHORT = 1 << 16

_parts_v4 = Struct(">BBH").unpack


Row = tuple[list[int], tuple[list[Any], ...]]
"""The ranges of a bucket: the start of each, and the columns of a chunk."""
_Chunk = tuple[Any, ...]
"""
The offsets of 256 buckets and the end of the last one; the starts of all ranges; and columns, the first of which has
the ranges' chains.
"""

SharedChains = dict[tuple[int, int], Chain[T]]
"""Chains of one note by host bits and the note's id. Most networks do not overlap and share notes of one import."""


def _chain_of(shift: int, notes: tuple[T, ...], enclosing: Chain[T], shared: SharedChains[T]) -> Chain[T]:
    if enclosing or len(notes) > 1:
        for note in reversed(notes):
            enclosing = note, shift, enclosing
        return enclosing
    # The chain holds the note, so its id cannot be reused.
    return shared.setdefault((shift, id(notes[0])), (notes[0], shift, ()))


def ranges_of(
    members: Mapping[int, tuple[T, ...]], first: int, end: int, shared: SharedChains[T]
) -> list[tuple[int, Chain[T]]]:
    """Return the start and the chain of each range between *first* and *end*."""
    ranges: list[tuple[int, Chain[T]]] = [(first, ())]
    enclosing: list[tuple[int, Chain[T]]] = []

    def begin(at: int, chain: Chain[T]) -> None:
        if ranges[-1][0] == at:
            ranges[-1] = (at, chain)
        elif at < end:
            ranges.append((at, chain))

    def leave(before: int) -> None:
        while enclosing and enclosing[-1][0] <= before:
            over, _ = enclosing.pop()
            begin(over, enclosing[-1][1] if enclosing else ())

    # A network comes before those inside it: they start at the same address or later, with fewer host bits.
    for key in sorted(members, key=SHIFT_MASK.__xor__):
        start, shift = key >> SHIFT_BITS, key & SHIFT_MASK
        leave(start)
        chain = _chain_of(shift, members[key], enclosing[-1][1] if enclosing else (), shared)
        enclosing.append((start + (1 << shift), chain))
        begin(start, chain)
    leave(end)
    return ranges


class Networks(ABC, Generic[T]):
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
        columns = [(default,) * BUCKETS for default in self._defaults]
        self._empty: _Chunk = array("H", range(BUCKETS + 1)), array(self._code, [0] * BUCKETS), *columns
        self._chunks = [self._empty] * BUCKETS
        self._changed: dict[int, dict[int, tuple[T, ...]]] = {}
        self._large: dict[int, tuple[T, ...]] = {}
        self._large_changed = False

    def table(self, start: int, shift: int) -> tuple[dict[int, tuple[T, ...]], int]:
        """Return the dictionary for a network's notes, and its key. The network counts as changed."""
        key = start << SHIFT_BITS | shift
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
            number * BUCKETS + n: {}
            for number, chunk in enumerate(self._chunks)
            if chunk is not self._empty
            for n in range(BUCKETS)
        }

    def settle(self, pause: Callable[[], None]) -> None:
        """Apply all changes. *pause* is called from time to time, so that other threads can run."""
        shared: SharedChains[T] = {}
        if self._large_changed:
            self._settle_large(shared)
            self._large_changed = False
        by_chunk: dict[int, list[int]] = {}
        for bucket in self._changed:
            by_chunk.setdefault(bucket // BUCKETS, []).append(bucket)
        for number, buckets in by_chunk.items():
            rows = {}
            for bucket in buckets:
                rows[bucket % BUCKETS] = self._row(bucket, self._changed.pop(bucket), shared)
                pause()
            self._chunks[number] = self._with_rows(self._chunks[number], rows)

    def _with_rows(self, chunk: _Chunk, rows: Mapping[int, Row]) -> _Chunk:
        """Return a chunk with new rows for some of its buckets."""
        old_offsets, old_starts, *old_columns = chunk
        offsets, starts = array("I", (0,)), array(self._code)
        columns: list[list[Any]] = [[] for _ in old_columns]
        done = 0
        for n in (*sorted(rows), BUCKETS):
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

    def _members(self, bucket: int) -> dict[int, tuple[T, ...]]:
        """Return the networks of a bucket, collected from the chains of its ranges."""
        offsets, starts, chains, *_ = self._chunks[bucket // BUCKETS]
        n = bucket % BUCKETS
        members: dict[int, tuple[T, ...]] = {}
        for position in range(offsets[n], offsets[n + 1]):
            for start, whole in self._unfolded(bucket, starts[position], chains[position]):
                notes_by_key: dict[int, list[T]] = {}
                chain = whole
                while chain:
                    note, shift, chain = chain
                    notes_by_key.setdefault(start >> shift << shift << SHIFT_BITS | shift, []).append(note)
                members.update((key, tuple(notes)) for key, notes in notes_by_key.items())
        return members

    @abstractmethod
    def find(self, at: float, address: str) -> tuple[T, str] | None:
        """
        Return the valid note of the smallest network that contains an address, and that network.

        Raises OSError or ValueError if *address* is not one.
        """

    @abstractmethod
    def _bucket(self, start: int) -> int: ...

    @abstractmethod
    def _row(self, bucket: int, members: Mapping[int, tuple[T, ...]], shared: SharedChains[T]) -> Row:
        """Return the ranges of a bucket with these networks."""

    @abstractmethod
    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[T]]]:
        """Return the start addresses and chains of the ranges stored under *start*."""

    @abstractmethod
    def _settle_large(self, shared: SharedChains[T]) -> None:
        """Apply changes of networks that are larger than a bucket."""


class NetworksV4(Networks[T]):
    """IPv4: buckets are /16s, chunks are /8s. A range starts at the last two bytes of its first address."""

    _code = "H"
    _max_shift = 16

    def __init__(self) -> None:
        super().__init__()
        # For each chunk, and each of its buckets: the networks that contain all of it. Empty if there are none.
        self._large_chains: list[tuple[Chain[T], ...]] = [()] * BUCKETS

    def find(self, at: float, address: str) -> tuple[T, str] | None:
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

    def _row(self, bucket: int, members: Mapping[int, tuple[T, ...]], shared: SharedChains[T]) -> Row:
        ranges = ranges_of(members, bucket << 16, (bucket + 1) << 16, shared)
        return [start & 0xFFFF for start, _ in ranges], ([chain for _, chain in ranges],)

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[T]]]:
        return ((bucket << 16 | start, held),)

    def _settle_large(self, shared: SharedChains[T]) -> None:
        chains: list[Chain[T]] = []
        ranges = ranges_of(self._large, 0, 1 << 32, shared)
        for (start, chain), (end, _) in pairwise([*ranges, (1 << 32, ())]):
            chains += [chain] * ((end - start) >> 16)
        chunks = (tuple(chains[at : at + BUCKETS]) for at in range(0, len(chains), BUCKETS))
        self._large_chains = [chunk if any(chunk) else () for chunk in chunks]

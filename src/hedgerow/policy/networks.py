"""
Networks, and which of them hold an address: what a list of a million is looked up in.

The numbers of all addresses are cut into stretches, within which the same networks hold an address. A stretch belongs
to a bucket, by 16 of its address's first bits, and 256 buckets lie in one chunk: three plain arrays, without an object
for each network. A look-up reads where its bucket begins and ends, bisects between, and finds the stretch's chain. Much
of what that costs is waiting for memory, so what counts is how few places of it are touched.

A chunk is never changed. Another is put in its place, so a look-up in another thread sees the old or the new. Networks
that are larger than a bucket are few and kept apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from struct import Struct
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

_T = TypeVar("_T")

Chain = tuple[tuple[int, _T], ...]
"""The networks that hold an address, the smallest first: how many bits each leaves open, and the note on it."""

_BUCKETS = 256
# A network's key: its first address, then how many bits it leaves open.
_OPEN_BITS = 8
_OPEN_MASK = 255
_MOST_SHORT_NUMBERS = 1 << 16
_HALF = 64
_HALF_MASK = (1 << _HALF) - 1

_parts_v4 = Struct(">BBH").unpack
_high_half = Struct(">Q8x").unpack
_low_half = Struct(">8xQ").unpack


class _Deep(msgspec.Struct, Generic[_T], frozen=True):
    """The stretches within one IPv6 /64, by the low halves of their addresses."""

    starts: Sequence[int]
    chains: Sequence[Chain[_T]]

    def chain(self, packed: bytes) -> Chain[_T]:
        (low,) = _low_half(packed)
        return self.chains[bisect_right(self.starts, low) - 1]


_Row = tuple[list[int], list[Chain[_T] | _Deep[_T]]]
"""The stretches of a bucket: where each begins, and its chain."""
_Chunk = tuple["array[int]", "array[int]", "array[int]", tuple[Any, ...]]
"""
Buckets: where in the next two each begins and, as one more, where the last ends; where the stretches begin; the numbers
of their chains; the chains by their numbers, as in `_Row`.
"""


class _Made(Generic[_T]):
    """Chains of one network, each made once: most networks are alone, and most entries are of one import."""

    def __init__(self) -> None:
        self._chains: dict[tuple[int, int], Chain[_T]] = {}

    def chain(self, shift: int, note: _T) -> Chain[_T]:
        # The note is part of the chain, so no other can get its id meanwhile.
        return self._chains.setdefault((shift, id(note)), ((shift, note),))


def _stretches(members: Mapping[int, _T], first: int, end: int, made: _Made[_T]) -> list[tuple[int, Chain[_T]]]:
    """Where each stretch between *first* and *end* begins, and its chain."""
    found: list[tuple[int, Chain[_T]]] = [(first, ())]
    enclosing: list[tuple[int, Chain[_T]]] = []

    def begin(at: int, chain: Chain[_T]) -> None:
        if found[-1][0] == at:
            found[-1] = (at, chain)
        elif at < end:
            found.append((at, chain))

    def leave(before: int) -> None:
        while enclosing and enclosing[-1][0] <= before:
            over, _ = enclosing.pop()
            begin(over, enclosing[-1][1] if enclosing else ())

    # A network before those that it holds: they begin at the same address or later, and leave fewer bits open.
    for key in sorted(members, key=_OPEN_MASK.__xor__):
        start, shift, note = key >> _OPEN_BITS, key & _OPEN_MASK, members[key]
        leave(start)
        chain = ((shift, note), *enclosing[-1][1]) if enclosing else made.chain(shift, note)
        enclosing.append((start + (1 << shift), chain))
        begin(start, chain)
    leave(end)
    return found


class Networks(ABC, Generic[_T]):
    """
    The networks of one version of IP, each with a note on it.

    One thread at a time may change them; what it changed counts once it has called `settle`. Until then the members of
    the buckets that change are in dictionaries, made of their stretches: nothing is kept twice.
    """

    _code: ClassVar[str]
    """The type of the numbers at which stretches begin, for `array`."""
    _largest: ClassVar[int]
    """How many bits a network may leave open to be in one bucket."""

    def __init__(self) -> None:
        zeros = [0] * _BUCKETS
        self._empty: _Chunk = array("I", range(_BUCKETS + 1)), array(self._code, zeros), array("H", zeros), ((),)
        self._chunks = [self._empty] * _BUCKETS
        self._changed: dict[int, dict[int, _T]] = {}
        self._large: dict[int, _T] = {}
        self._large_changed = False

    def place(self, start: int, shift: int) -> tuple[dict[int, _T], int]:
        """The dictionary in which a network's note is to be, and its key; it is held to be about to change."""
        key = start << _OPEN_BITS | shift
        if shift > self._largest:
            self._large_changed = True
            return self._large, key
        bucket = self._bucket(start)
        members = self._changed.get(bucket)
        if members is None:
            members = self._changed[bucket] = self._members(bucket)
        return members, key

    def clear(self) -> None:
        """Forget all networks."""
        self._large, self._large_changed = {}, True
        self._changed = {
            number * _BUCKETS + n: {}
            for number, chunk in enumerate(self._chunks)
            if chunk is not self._empty
            for n in range(_BUCKETS)
        }

    def settle(self, pause: Callable[[], None]) -> None:
        """What was changed counts from now on. *pause* is called now and then, for others to do their work."""
        made: _Made[_T] = _Made()
        if self._large_changed:
            self._settle_large(made)
            self._large_changed = False
        by_chunk: dict[int, list[int]] = {}
        for bucket in self._changed:
            by_chunk.setdefault(bucket // _BUCKETS, []).append(bucket)
        for number, buckets in by_chunk.items():
            rows = {}
            for bucket in buckets:
                rows[bucket % _BUCKETS] = self._row(bucket, self._changed.pop(bucket), made)
                pause()
            self._chunks[number] = self._with_rows(self._chunks[number], rows)

    def _with_rows(self, chunk: _Chunk, rows: Mapping[int, _Row[_T]]) -> _Chunk:
        """A chunk with other rows for some of its buckets."""
        old_offsets, old_starts, old_numbers, old_chains = chunk
        offsets, starts = array("I", (0,)), array(self._code)
        held: list[Chain[_T] | _Deep[_T]] = []
        done = 0
        for n in (*sorted(rows), _BUCKETS):
            # Those before it that stay as they are, all at once.
            kept = slice(old_offsets[done], old_offsets[n])
            moved = len(starts) - old_offsets[done]
            offsets.extend([old + moved for old in old_offsets[done + 1 : n + 1]])
            starts += old_starts[kept]
            held += [old_chains[number] for number in old_numbers[kept]]
            if n in rows:
                row_starts, row_chains = rows[n]
                starts.extend(row_starts)
                held += row_chains
                offsets.append(len(starts))
            done = n + 1
        if not any(held):
            return self._empty
        chains = {id(chain): chain for chain in held}
        numbers = {name: number for number, name in enumerate(chains)}
        code = "H" if len(chains) <= _MOST_SHORT_NUMBERS else "I"
        return offsets, starts, array(code, [numbers[id(chain)] for chain in held]), tuple(chains.values())

    def _members(self, bucket: int) -> dict[int, _T]:
        """The networks in a bucket: each is in the chains of all stretches that it holds."""
        offsets, starts, numbers, chains = self._chunks[bucket // _BUCKETS]
        n = bucket % _BUCKETS
        members = {}
        for position in range(offsets[n], offsets[n + 1]):
            for start, chain in self._unfolded(bucket, starts[position], chains[numbers[position]]):
                for shift, note in chain:
                    members[start >> shift << shift << _OPEN_BITS | shift] = note
        return members

    @abstractmethod
    def chain(self, packed: bytes) -> Chain[_T]:
        """The networks that hold an address, of which these are the bytes."""

    @abstractmethod
    def _bucket(self, start: int) -> int: ...

    @abstractmethod
    def _row(self, bucket: int, members: Mapping[int, _T], made: _Made[_T]) -> _Row[_T]:
        """The stretches that a bucket's networks make."""

    @abstractmethod
    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:
        """The addresses at which the stretches begin that a bucket has under *start*, and their chains."""

    @abstractmethod
    def _settle_large(self, made: _Made[_T]) -> None:
        """The same for networks that are larger than a bucket."""


class NetworksV4(Networks[_T]):
    """Buckets are /16s, chunks /8s; a stretch begins at the last two bytes of its first address."""

    _code = "H"
    _largest = 16

    def __init__(self) -> None:
        super().__init__()
        # For each chunk, for each of its buckets: the networks that hold all of it. Empty where there are none.
        self._over: list[tuple[Chain[_T], ...]] = [()] * _BUCKETS

    def chain(self, packed: bytes) -> Chain[_T]:
        number, n, low = _parts_v4(packed)
        offsets, starts, numbers, chains = self._chunks[number]
        found: Chain[_T] = chains[numbers[bisect_right(starts, low, offsets[n], offsets[n + 1]) - 1]]
        over = self._over[number]
        return found + over[n] if over else found

    def _bucket(self, start: int) -> int:
        return start >> 16

    def _row(self, bucket: int, members: Mapping[int, _T], made: _Made[_T]) -> _Row[_T]:
        found = _stretches(members, bucket << 16, (bucket + 1) << 16, made)
        return [start & 0xFFFF for start, _ in found], [chain for _, chain in found]

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:
        return ((bucket << 16 | start, held),)

    def _settle_large(self, made: _Made[_T]) -> None:
        found = _stretches(self._large, 0, 1 << 32, made)
        over: list[Chain[_T]] = []
        for (start, chain), (end, _) in pairwise([*found, (1 << 32, ())]):
            over += [chain] * ((end - start) >> 16)
        chunks = (tuple(over[at : at + _BUCKETS]) for at in range(0, len(over), _BUCKETS))
        self._over = [chunk if any(chunk) else () for chunk in chunks]


class NetworksV6(Networks[_T]):
    """
    Buckets are by the second 16 bits: the first are the same in most addresses. Stretches begin at the high half of an
    address, which is a visitor's; networks that end within one are deep.
    """

    _code = "Q"
    _largest = 96

    def __init__(self) -> None:
        super().__init__()
        self._over: tuple[list[int], list[Chain[_T]]] = ([], [])

    def chain(self, packed: bytes) -> Chain[_T]:
        (high,) = _high_half(packed)
        offsets, starts, numbers, chains = self._chunks[packed[2]]
        n = packed[3]
        held = chains[numbers[bisect_right(starts, high, offsets[n], offsets[n + 1]) - 1]]
        found: Chain[_T] = held.chain(packed) if held and type(held) is _Deep else held
        over, over_chains = self._over
        return found + over_chains[bisect_right(over, high) - 1] if over else found

    def _bucket(self, start: int) -> int:
        return start >> 96 & 0xFFFF

    def _row(self, bucket: int, members: Mapping[int, _T], made: _Made[_T]) -> _Row[_T]:  # noqa: ARG002 - one shape
        starts: list[int] = []
        held: list[Chain[_T] | _Deep[_T]] = []
        last: Chain[_T] = ()
        for high, stretches in groupby(_stretches(members, 0, 1 << 128, made), lambda stretch: stretch[0] >> _HALF):
            inside = list(stretches)
            if inside[0][0] & _HALF_MASK:
                inside.insert(0, (high << _HALF, last))
            if starts and starts[-1] == high:
                # Begun where the /64 before it ended.
                starts.pop()
                held.pop()
            last = inside[-1][1]
            starts.append(high)
            if len(inside) == 1:
                held.append(last)
                continue
            lows = array("Q", [start & _HALF_MASK for start, _ in inside])
            held.append(_Deep(lows, tuple(chain for _, chain in inside)))
            if high < _HALF_MASK:
                starts.append(high + 1)
                held.append(last)
        return starts, held

    def _unfolded(self, bucket: int, start: int, held: Chain[_T] | _Deep[_T]) -> Iterable[tuple[int, Chain[_T]]]:  # noqa: ARG002 - one shape
        if isinstance(held, _Deep):
            return ((start << _HALF | low, chain) for low, chain in zip(held.starts, held.chains, strict=True))
        return ((start << _HALF, held),)

    def _settle_large(self, made: _Made[_T]) -> None:
        found = _stretches(self._large, 0, 1 << 128, made) if self._large else []
        # Few, and a list is bisected more quickly than an array.
        self._over = [start >> _HALF for start, _ in found], [chain for _, chain in found]

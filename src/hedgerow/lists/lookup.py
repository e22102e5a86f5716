"""
Networks, and which of them hold an address: what a list of a million is looked up in.

The numbers of all addresses are cut into stretches, within which the same networks hold an address. A stretch belongs
to a bucket, by 16 of its address's first bits, and 256 buckets lie in one chunk: plain arrays and tuples, without an
object for each network. A look-up reads where its bucket begins and ends, bisects between, and finds the stretch's
chain. Much of what that costs is waiting for memory, so what counts is how few places of it are touched. Most of the
rest is what Python asks for a call, so a look-up is one function from the text to the note.

A chunk is never changed. Another is put in its place, so a look-up in another thread sees the old or the new. Networks
that are larger than a bucket are few and kept apart: they count where no smaller one does.
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
    """What is known of a network, until it *ends*."""

    @property
    def ends(self) -> float: ...


_T = TypeVar("_T", bound=Note)

Chain = tuple[()] | tuple[_T, int, "Chain[_T]"]
"""
The notes on the networks that hold an address, the smallest network first: a note, how many bits its network leaves
open, the rest. Which address it is does not matter, so that many share one chain.
"""

_BUCKETS = 256
# A network's key: its first address, then how many bits it leaves open.
_OPEN_BITS = 8
_OPEN_MASK = 255
_SHORT = 1 << 16
_HALF = 64
_HALF_MASK = (1 << _HALF) - 1
# Addresses of IPv6 that are the same up to these last bits are in one chunk.
_CHUNK_BITS = 104

_parts_v4 = Struct(">BBH").unpack
_high_half = Struct(">Q8x").unpack
_low_half = Struct(">8xQ").unpack


class _Alone(msgspec.Struct, Generic[_T], frozen=True, gc=False):
    """An IPv6 /64 in which one address alone is listed: its text and chain, and the chain of all others."""

    address: str
    inside: Chain[_T]
    outside: Chain[_T]


class _Deep(msgspec.Struct, Generic[_T], frozen=True, gc=False):
    """The stretches within one IPv6 /64, by the low halves of their addresses; their chains and texts as in a chunk."""

    starts: Sequence[int]
    chains: Sequence[Chain[_T]]
    texts: Sequence[str]


_Row = tuple[list[int], tuple[list[Any], ...]]
"""The stretches of a bucket: where each begins, and the columns of a chunk."""
_Chunk = tuple[Any, ...]
"""
Buckets: where in the others each begins and, as one more, where the last ends; where the stretches begin; and columns,
of which the first are their chains.
"""

_Made = dict[tuple[int, int], Chain[_T]]
"""Chains of one note, by open bits and the note's id: most networks are alone, and most entries are of one import."""


def _chain_of(shift: int, notes: tuple[_T, ...], enclosing: Chain[_T], made: _Made[_T]) -> Chain[_T]:
    if enclosing or len(notes) > 1:
        for note in reversed(notes):
            enclosing = note, shift, enclosing
        return enclosing
    # The note is part of the chain, so no other can get its id meanwhile.
    return made.setdefault((shift, id(notes[0])), (notes[0], shift, ()))


def _stretches(
    members: Mapping[int, tuple[_T, ...]], first: int, end: int, made: _Made[_T]
) -> list[tuple[int, Chain[_T]]]:
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
        start, shift = key >> _OPEN_BITS, key & _OPEN_MASK
        leave(start)
        chain = _chain_of(shift, members[key], enclosing[-1][1] if enclosing else (), made)
        enclosing.append((start + (1 << shift), chain))
        begin(start, chain)
    leave(end)
    return found


class Networks(ABC, Generic[_T]):
    """
    The networks of one version of IP, each with notes on it, of which the first that has not ended counts.

    One thread at a time may change them; what it changed counts once it has called `settle`. Until then the members of
    the buckets that change are in dictionaries, made of their stretches: nothing is kept twice.
    """

    _code: ClassVar[str]
    """The type of the numbers at which stretches begin, for `array`."""
    _largest: ClassVar[int]
    """How many bits a network may leave open to be in one bucket."""
    _nothing: ClassVar[tuple[Any, ...]] = ((),)
    """What is in each column where no network is."""

    def __init__(self) -> None:
        columns = [(nothing,) * _BUCKETS for nothing in self._nothing]
        self._empty: _Chunk = array("H", range(_BUCKETS + 1)), array(self._code, [0] * _BUCKETS), *columns
        self._chunks = [self._empty] * _BUCKETS
        self._changed: dict[int, dict[int, tuple[_T, ...]]] = {}
        self._large: dict[int, tuple[_T, ...]] = {}
        self._large_changed = False

    def place(self, start: int, shift: int) -> tuple[dict[int, tuple[_T, ...]], int]:
        """The dictionary in which a network's notes are to be, and its key; it is held to be about to change."""
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
        made: _Made[_T] = {}
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

    def _with_rows(self, chunk: _Chunk, rows: Mapping[int, _Row]) -> _Chunk:
        """A chunk with other rows for some of its buckets."""
        old_offsets, old_starts, *old_columns = chunk
        offsets, starts = array("I", (0,)), array(self._code)
        columns: list[list[Any]] = [[] for _ in old_columns]
        done = 0
        for n in (*sorted(rows), _BUCKETS):
            # Those before it that stay as they are, all at once.
            kept = slice(old_offsets[done], old_offsets[n])
            moved = len(starts) - old_offsets[done]
            offsets.extend([old + moved for old in old_offsets[done + 1 : n + 1]])
            starts += old_starts[kept]
            for column, old_column in zip(columns, old_columns, strict=True):
                column.extend(old_column[kept])
            if n in rows:
                row_starts, row_columns = rows[n]
                starts.extend(row_starts)
                for column, row_column in zip(columns, row_columns, strict=True):
                    column.extend(row_column)
                offsets.append(len(starts))
            done = n + 1
        if not any(columns[0]):
            return self._empty
        # As little memory as will do: it is read sooner.
        short = array("H", offsets) if len(starts) < _SHORT else offsets
        return short, starts, *map(tuple, columns)

    def _members(self, bucket: int) -> dict[int, tuple[_T, ...]]:
        """The networks in a bucket: each is in the chains of all stretches that it holds."""
        offsets, starts, chains, *_ = self._chunks[bucket // _BUCKETS]
        n = bucket % _BUCKETS
        members: dict[int, tuple[_T, ...]] = {}
        for position in range(offsets[n], offsets[n + 1]):
            for start, whole in self._unfolded(bucket, starts[position], chains[position]):
                found: dict[int, list[_T]] = {}
                chain = whole
                while chain:
                    note, shift, chain = chain
                    found.setdefault(start >> shift << shift << _OPEN_BITS | shift, []).append(note)
                members.update((key, tuple(notes)) for key, notes in found.items())
        return members

    @abstractmethod
    def find(self, at: float, address: str) -> tuple[_T, str] | None:
        """
        The note on the smallest network that holds an address and has not ended at *at*, and that network.

        OSError or ValueError where it is no address.
        """

    @abstractmethod
    def _bucket(self, start: int) -> int: ...

    @abstractmethod
    def _row(self, bucket: int, members: Mapping[int, tuple[_T, ...]], made: _Made[_T]) -> _Row:
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

    def find(self, at: float, address: str) -> tuple[_T, str] | None:
        number, n, low = _parts_v4(octets := pack_address(V4, address))
        offsets, starts, chains = self._chunks[number]
        chain = chains[bisect_right(starts, low, offsets[n], offsets[n + 1]) - 1]
        while chain:
            note, shift, chain = chain
            if note.ends > at:
                return note, format_ipv4_network(address, octets, shift) if shift else address
        if over := self._over[number]:
            chain = over[n]
            while chain:
                note, shift, chain = chain
                if note.ends > at:
                    return note, format_ipv4_network(address, octets, shift)
        return None

    def _bucket(self, start: int) -> int:
        return start >> 16

    def _row(self, bucket: int, members: Mapping[int, tuple[_T, ...]], made: _Made[_T]) -> _Row:
        found = _stretches(members, bucket << 16, (bucket + 1) << 16, made)
        return [start & 0xFFFF for start, _ in found], ([chain for _, chain in found],)

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:
        return ((bucket << 16 | start, held),)

    def _settle_large(self, made: _Made[_T]) -> None:
        found = _stretches(self._large, 0, 1 << 32, made)
        over: list[Chain[_T]] = []
        for (start, chain), (end, _) in pairwise([*found, (1 << 32, ())]):
            over += [chain] * ((end - start) >> 16)
        chunks = (tuple(over[at : at + _BUCKETS]) for at in range(0, len(over), _BUCKETS))
        self._over = [chunk if any(chunk) else () for chunk in chunks]


def _text_v6(number: int, shift: int) -> str:
    """The network that leaves *shift* bits open and holds an address."""
    text = format_ipv6((number >> shift << shift).to_bytes(16))
    return f"{text}/{128 - shift}" if shift else text


def _narrow(inside: list[tuple[int, Chain[_T], str]]) -> tuple[_Alone[_T] | _Deep[_T], str]:
    """What holds the stretches within one /64 in which not all is alike, and the text that belongs to it."""
    alone = [(text, chain) for _, chain, text in inside if chain and not chain[1]]
    others = {(id(chain), text): (chain, text) for _, chain, text in inside if not chain or chain[1]}
    if len(alone) == len(others) == 1:
        ((outside, text),) = others.values()
        return _Alone(*alone[0], outside), text
    lows = array("Q", [start & _HALF_MASK for start, _, _ in inside])
    return _Deep(lows, tuple(chain for _, chain, _ in inside), tuple(text for *_, text in inside)), ""


def _inner(held: _Alone[_T] | _Deep[_T], text: str, address: str, octets: bytes) -> tuple[Chain[_T], str]:
    """The chain of an address of whose /64 not all is alike, and the text of its first network."""
    if isinstance(held, _Alone):
        if held.address == address or pack_address(V6, held.address) == octets:
            return held.inside, held.address
        return held.outside, text
    (low,) = _low_half(octets)
    n = bisect_right(held.starts, low) - 1
    return held.chains[n], held.texts[n]


class NetworksV6(Networks[_T]):
    """
    Buckets are by the second 16 bits: the first are the same in most addresses. Stretches begin at the high half of an
    address, which is a visitor's; networks that end within one are deep. To write a network takes half as long as to
    find it, so the second column has the texts of those that are first in the chains.
    """

    _code = "Q"
    _largest = 96
    _nothing = (), ""

    def __init__(self) -> None:
        super().__init__()
        # For each chunk the stretches of the networks that hold whole buckets of it, as in `_Row`. Empty as above.
        self._over: list[tuple[()] | tuple[list[int], list[Chain[_T]]]] = [()] * _BUCKETS

    def find(self, at: float, address: str) -> tuple[_T, str] | None:
        octets = pack_address(V6, address)
        (high,) = _high_half(octets)
        number, n = octets[2], octets[3]
        offsets, starts, chains, texts = self._chunks[number]
        place = bisect_right(starts, high, offsets[n], offsets[n + 1]) - 1
        chain = chains[place]
        if chain:
            text = texts[place]
            if type(chain) is not tuple:
                chain, text = _inner(chain, text, address, octets)
            while chain:
                note, _, chain = chain
                if note.ends > at:
                    return note, text
                if chain:
                    text = _text_v6(int.from_bytes(octets), chain[1])
        if over := self._over[number]:
            chain = over[1][bisect_right(over[0], high) - 1]
            while chain:
                note, shift, chain = chain
                if note.ends > at:
                    return note, _text_v6(int.from_bytes(octets), shift)
        return None

    def _bucket(self, start: int) -> int:
        return start >> 96 & 0xFFFF

    def _row(self, bucket: int, members: Mapping[int, tuple[_T, ...]], made: _Made[_T]) -> _Row:  # noqa: ARG002 - one shape
        starts: list[int] = []
        held: list[Any] = []
        texts: list[str] = []
        last: tuple[Chain[_T], str] = (), ""
        written: dict[int, str] = {}

        def text_of(start: int, chain: Chain[_T]) -> str:
            # Once for all stretches of a network.
            shift = chain[1] if chain else 0
            key = start >> shift << shift << _OPEN_BITS | shift
            return written.setdefault(key, written.get(key) or _text_v6(start, shift)) if chain else ""

        def add(start: int, chain: Any, text: str) -> None:
            starts.append(start)
            held.append(chain)
            texts.append(text)

        found = ((start, chain, text_of(start, chain)) for start, chain in _stretches(members, 0, 1 << 128, made))
        for high, stretches in groupby(found, lambda stretch: stretch[0] >> _HALF):
            inside = list(stretches)
            if inside[0][0] & _HALF_MASK:
                inside.insert(0, (high << _HALF, *last))
            if starts and starts[-1] == high:
                # Begun where the /64 before it ended.
                for column in (starts, held, texts):
                    column.pop()
            last = inside[-1][1:]
            if len(inside) == 1:
                add(high, *last)
                continue
            add(high, *_narrow(inside))
            if high < _HALF_MASK:
                add(high + 1, *last)
        return starts, (held, texts)

    def _unfolded(self, bucket: int, start: int, held: Any) -> Iterable[tuple[int, Chain[_T]]]:  # noqa: ARG002 - one shape
        if isinstance(held, _Deep):
            return ((start << _HALF | low, chain) for low, chain in zip(held.starts, held.chains, strict=True))
        if isinstance(held, _Alone):
            return (start << _HALF, held.outside), (int.from_bytes(pack_address(V6, held.address)), held.inside)
        return ((start << _HALF, held),)

    def _settle_large(self, made: _Made[_T]) -> None:
        found = _stretches(self._large, 0, 1 << 128, made)
        # Few, and a list is bisected more quickly than an array.
        all_of_them = [start >> _HALF for start, _ in found], [chain for _, chain in found]
        touched: set[int] = set()
        for key in self._large:
            first, shift = key >> _CHUNK_BITS + _OPEN_BITS, (key & _OPEN_MASK) - _CHUNK_BITS
            touched.update(n % _BUCKETS for n in range(first, first + (1 << min(max(shift, 0), 8))))
        self._over = [all_of_them if n in touched else () for n in range(_BUCKETS)]

"""
AES-SIV (RFC 5297) of many short texts at once: the links of a page, which are sealed for every visitor who gets it.

Sealed one by one, each link costs a library call that takes ten times as long as the cipher inside. Here the texts
stand side by side: one large integer holds one block of each text, so one XOR and one call of AES work on all of them.
What does not depend on the visitor is computed once, in a `SivPlan`. The result is, to the bit, that of `AESSIV`.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, groupby, repeat
from struct import Struct
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from hedgerow.markers.encoding import TO_URL

_BLOCK = 16
_ZERO = bytes(_BLOCK)
_END = b"\x80"
_CARRY = 0x87
# SIV clears these bits of the tag before it counts up from it, so no sum carries from one half into the next.
_CLEAR = bytes.fromhex("ffffffffffffffff7fffffff7fffffff")
MEMORY_PER_TEXT = 400
"""About how many bytes of memory a text takes in a plan."""


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _double(block: bytes) -> bytes:
    doubled = int.from_bytes(block, "big") << 1
    return (doubled & ((1 << 128) - 1) ^ (_CARRY if doubled >> 128 else 0)).to_bytes(_BLOCK, "big")


@lru_cache(maxsize=512)
def _cutter(runs: tuple[tuple[int, int], ...]) -> Struct:
    """Return what cuts a column into its blocks. *runs* are sizes, and how many blocks are cut off at each size."""
    return Struct("".join(f"{size}s{_BLOCK - size}x" * count for size, count in runs))


@lru_cache(maxsize=512)
def _joiner(before: int, count: int) -> Struct:
    """Return what packs *count* texts into blocks, each after *before* zero bytes and padded to the block's end."""
    return Struct(f"{before}x{_BLOCK - before}s" * count)


@lru_cache(maxsize=512)
def _rows(head: int, runs: tuple[tuple[int, int], ...]) -> Struct:
    """
    Return what joins sealed texts: for each its head, tag and blocks, padded to a multiple of three bytes.

    *runs* are the sizes of texts and how many have each. All have the same number of blocks; the last may be empty.
    """
    most = max(size for size, _ in runs)
    formats = []
    for size, count in runs:
        blocks = "".join(f"{max(0, min(size - at, _BLOCK))}s" for at in range(0, most, _BLOCK))
        formats.append(f"{head}s{_BLOCK}s{blocks}{-(head + _BLOCK + size) % 3}x" * count)
    return Struct("".join(formats))


@lru_cache(maxsize=512)
def _encoded(head: int, runs: tuple[tuple[int, int], ...]) -> Struct:
    """Return what cuts the base64 of joined texts (see `_rows`) into tokens without padding."""
    formats = []
    for size, count in runs:
        whole = head + _BLOCK + size
        wanted = -(-whole * 4 // 3)
        formats.append(f"{wanted}s{-(-whole // 3) * 4 - wanted}x" * count)
    return Struct("".join(formats))


class Blocks:
    """AES under both halves of a key, and the masks that SIV adds to a text before it goes through the first."""

    def __init__(self, key: bytes) -> None:
        half = len(key) // 2
        # SIV is built from single blocks; nothing is encrypted by ECB alone.
        self.authenticate = Cipher(AES(key[:half]), ECB()).encryptor().update  # noqa: S305
        self.encrypt = Cipher(AES(key[half:]), ECB()).encryptor().update  # noqa: S305
        self._whole = _double(self.authenticate(_ZERO))
        self._padded = _double(self._whole)
        self._start = self.authenticate(self._whole)
        self._masks: dict[int, bytes] = {}

    def mask(self, length: int) -> bytes:
        """Return what is added to a text of *length* bytes, in whole blocks."""
        mask = self._masks.get(length)
        if mask is None:
            mask = self._masks[length] = self._make_mask(length)
        return mask

    def _make_mask(self, length: int) -> bytes:
        if length < _BLOCK:
            padding = (bytes(length) + _END).ljust(_BLOCK, b"\0")
            return _xor(_xor(padding, _double(self._start)), self._whole)
        size = -(-length // _BLOCK) * _BLOCK
        mask = (bytes(length - _BLOCK) + self._start).ljust(size, b"\0")
        last = self._whole
        if length < size:
            mask = mask[:length] + _END + mask[length + 1 :]
            last = self._padded
        return mask[:-_BLOCK] + _xor(mask[-_BLOCK:], last)


class _Column(NamedTuple):
    """One block of each text that is long enough; the others are *absent*."""

    size: int
    plain: int
    masked: int
    step: int
    cutter: Struct
    absent: tuple[bytes, ...]


class SivPlan:
    """
    How to seal *texts*, each after the same *lead* bytes that are given later; a token is *head* and the sealed text.

    Tokens are returned in the order of `places`: the given places, one per text, sorted by the longest text first.
    """

    def __init__(
        self, blocks: Blocks, texts: Sequence[bytes], places: Sequence[int], lead: int, head: bytes = b""
    ) -> None:
        sizes = [-len(text) for text in texts]
        order = sorted(range(len(texts)), key=sizes.__getitem__)
        self.places = [places[number] for number in order]
        self._blocks = blocks
        self._count = len(texts)
        rows = [texts[number] for number in order]
        runs = [(lead + size, len(list(same))) for size, same in groupby(map(len, rows))]
        self._first_rest = bytes(_BLOCK - lead)
        self._columns = [self._column(rows, runs, at, lead) for at in range(0, runs[0][0], _BLOCK)]
        self._clear = int.from_bytes(_CLEAR * self._count, "big")
        self._cut_tags = _cutter(((_BLOCK, self._count),)).unpack
        self._head = head
        self._rows = _rows(len(head), tuple(runs)).pack
        self._cut = _encoded(len(head), tuple(runs)).unpack

    def _column(self, rows: Sequence[bytes], runs: Sequence[tuple[int, int]], at: int, lead: int) -> _Column:
        """Return the block at *at* of each row that has one. *runs* are the sizes of rows and how many have each."""
        runs = [run for run in runs if run[0] > at]
        count = sum(number for _, number in runs)
        if at:
            start, end = at - lead, at - lead + _BLOCK
            column = _joiner(0, count).pack(*[row[start:end] for row in rows[:count]])
        else:
            # The lead is added in `seal`.
            column = _joiner(lead, count).pack(*rows)
        masks = [self._blocks.mask(size)[at : at + _BLOCK] * number for size, number in runs]
        plain = int.from_bytes(column, "big")
        return _Column(
            count * _BLOCK,
            plain,
            plain ^ int.from_bytes(b"".join(masks), "big"),
            int.from_bytes((at // _BLOCK).to_bytes(_BLOCK, "big") * count, "big"),
            _cutter(tuple((min(size - at, _BLOCK), number) for size, number in runs)),
            (b"",) * (len(rows) - count),
        )

    def seal(self, start: bytes) -> Sequence[bytes]:
        """Return the tokens of all texts, each sealed after *start*, in the base64 of URLs without padding."""
        first = int.from_bytes((start + self._first_rest) * self._count, "big")
        tags = self._tags(first)
        stream = self._stream(int.from_bytes(tags, "big") & self._clear)
        parts: list[tuple[bytes, ...]] = [self._cut_tags(tags)]
        at = 0
        for column in self._columns:
            sealed = int.from_bytes(stream[at : at + column.size], "big") ^ column.plain ^ first
            parts.append(column.cutter.unpack(sealed.to_bytes(column.size, "big")) + column.absent)
            at += column.size
            first = 0
        rows = chain.from_iterable(zip(repeat(self._head), *parts, strict=False))
        return self._cut(binascii.b2a_base64(self._rows(*rows), newline=False).translate(TO_URL))

    def _tags(self, first: int) -> bytes:
        """Return the tag of each text: AES over its masked blocks, one after the other."""
        authenticate = self._blocks.authenticate
        done: list[bytes] = []
        state = b""
        for column in self._columns:
            if column.size < len(state):
                # The shorter texts end here.
                done.append(state[column.size :])
                state = state[: column.size]
            mixed = int.from_bytes(state, "big") ^ column.masked ^ first
            state = authenticate(mixed.to_bytes(column.size, "big"))
            first = 0
        return b"".join([state, *reversed(done)])

    def _stream(self, counter: int) -> bytes:
        """Return the key stream of each text, column by column."""
        size = self._count * _BLOCK
        counters = [
            ((counter >> 8 * (size - column.size)) + column.step).to_bytes(column.size, "big")
            for column in self._columns
        ]
        return self._blocks.encrypt(b"".join(counters))

"""
Compiled: numba's `njit` for this room, with a place for what it has compiled.

That place is named after all sources of the room, and of the rooms whose constants are compiled in: numba looks only at
the file of a function itself, and would go on with an old copy of what the function calls. Where the place cannot be
written, everything is compiled at each start.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.extending
import numpy as np
from llvmlite import ir

_Function = TypeVar("_Function", bound=Callable[..., Any])


TOGETHER = 32
"""Bytes that are looked at in one step."""

M1, M2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd numbers: whatever is multiplied by one of them, its bits come to lie all over the word."""


def _place() -> Path:
    rooms = Path(__file__).parents[1]
    sources = [source for room in ("analyse", "identity", "sessions") for source in sorted((rooms / room).glob("*.py"))]
    told = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hedgerow" / f"compiled-{told}"


def _usable() -> bool:
    try:
        place = _place()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return False
    setattr(numba.config, "CACHE_DIR", str(place))  # noqa: B010 - its types do not know it
    return os.access(place, os.W_OK)


_CACHE = _usable()


def _without_blas() -> None:
    """
    Have numba do without products of matrices, of which there are none here.

    It looks for scipy to make them, wherever that is installed, and to read it takes as long as the rest of numba.
    """
    if "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
        try:
            import_module("numba.np.arraymath")
        finally:
            del sys.modules["scipy.linalg"]


_without_blas()


def is_first() -> bool:
    """Whether nothing has been compiled yet, or it cannot be kept."""
    return not _CACHE or next(_place().rglob("*.nbi"), None) is None


def compiled(function: _Function) -> _Function:
    """Compile *function* when it is first called; it runs without Python's lock."""
    made: Any = numba.njit(cache=_CACHE, nogil=True, error_model="numpy")(function)
    return cast("_Function", made)


def lean(function: _Function) -> _Function:
    """
    The same for a function that makes no arrays, nor parts of them: references to those it is given are not counted.

    To count them takes a third of the time of a small function.
    """
    njit: Any = numba.njit
    made = njit(cache=_CACHE, nogil=True, error_model="numpy", _nrt=False)(function)
    return cast("_Function", made)


def _at(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    """What stands in an array of bytes at a place, as one value of another kind."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    first = builder.gep(array.data, [arguments[1]])
    return builder.load(builder.bitcast(first, kind.as_pointer()), align=1)


@numba.extending.intrinsic
def _eight(typing: Any, data: Any, place: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of `eight`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _at(context, builder, signature, arguments, ir.IntType(64))

    return numba.types.uint64(data, numba.types.int64), generate


@lean
def eight(data: Any, place: int) -> Any:
    """The eight bytes at *place* as one number, the first the lowest; they must all be there: nobody looks."""
    return _eight(data, place)  # type: ignore[call-arg]


@lean
def below(count: int) -> Any:
    """The bits of the lowest *count* bytes of a word."""
    return (np.uint64(1) << np.uint64(8 * count)) - np.uint64(1)


@numba.extending.intrinsic
def _folded(typing: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of `folded`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))
        return builder.xor(builder.trunc(product, ir.IntType(64)), high)

    return numba.types.uint64(numba.types.uint64, numba.types.uint64), generate


@lean
def folded(one: Any, other: Any) -> Any:
    """Both halves of the product of two words in one: every bit of it rests on all bits of both."""
    return _folded(one, other)  # type: ignore[call-arg]


def _all_of(builder: Any, value: Any) -> Any:
    """A vector of `TOGETHER` times the same byte."""
    vector = ir.VectorType(ir.IntType(8), TOGETHER)
    lowest = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), TOGETHER), [0] * TOGETHER)
    return builder.shuffle_vector(lowest, ir.Constant(vector, ir.Undefined), order)


@numba.extending.intrinsic
def _which(typing: Any, data: Any, place: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of: a bit for each of `TOGETHER` bytes that is *one* or *other*, the first the lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _at(context, builder, signature, arguments, ir.VectorType(ir.IntType(8), TOGETHER))
        same = builder.icmp_unsigned("==", found, _all_of(builder, arguments[2]))
        as_well = builder.icmp_unsigned("==", found, _all_of(builder, arguments[3]))
        bits = builder.bitcast(builder.or_(same, as_well), ir.IntType(TOGETHER))
        return builder.zext(bits, ir.IntType(64))

    return numba.types.uint64(data, numba.types.int64, numba.types.uint8, numba.types.uint8), generate


@numba.extending.intrinsic
def _which_are_low(typing: Any, data: Any, place: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of: a bit for each of `TOGETHER` bytes that is a space or below, the first the lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _at(context, builder, signature, arguments, ir.VectorType(ir.IntType(8), TOGETHER))
        low = builder.icmp_unsigned("<=", found, _all_of(builder, ir.IntType(8)(32)))
        return builder.zext(builder.bitcast(low, ir.IntType(TOGETHER)), ir.IntType(64))

    return numba.types.uint64(data, numba.types.int64), generate


@numba.extending.intrinsic
def _which_are_no_digits(typing: Any, data: Any, place: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of: a bit for each of `TOGETHER` bytes that is no digit, the first the lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _at(context, builder, signature, arguments, ir.VectorType(ir.IntType(8), TOGETHER))
        from_zero = builder.sub(found, _all_of(builder, ir.IntType(8)(48)))
        beyond = builder.icmp_unsigned(">", from_zero, _all_of(builder, ir.IntType(8)(9)))
        return builder.zext(builder.bitcast(beyond, ir.IntType(TOGETHER)), ir.IntType(64))

    return numba.types.uint64(data, numba.types.int64), generate


@numba.extending.intrinsic
def _first_bit(typing: Any, bits: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of: the place of the lowest bit that is set; one is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return numba.types.int64(numba.types.uint64), generate


@lean
def find(data: Any, start: int, end: int, one: int, other: int) -> Any:
    """The first place from *start* to before *end* with the byte *one* or *other*; *end* where there is none."""
    i = start
    while i + TOGETHER <= end:
        bits: Any = _which(data, i, one, other)  # type: ignore[call-arg]
        if bits:
            return i + _first_bit(bits)
        i += TOGETHER
    if end >= TOGETHER and i < end:
        # The last bytes, and some before them that have been seen.
        begin = end - TOGETHER
        left: Any = _which(data, begin, one, other)  # type: ignore[call-arg]
        bits = left >> np.uint64(i - begin)
        return i + _first_bit(bits) if bits else end
    while i < end and data[i] != one and data[i] != other:
        i += 1
    return i


@lean
def find_low(data: Any, start: int, end: int) -> Any:
    """The first place from *start* to before *end* with a space or a byte below it; *end* where there is none."""
    i = start
    while i + TOGETHER <= end:
        bits: Any = _which_are_low(data, i)  # type: ignore[call-arg]
        if bits:
            return i + _first_bit(bits)
        i += TOGETHER
    while i < end and data[i] > 32:  # noqa: PLR2004 - a space
        i += 1
    return i


@lean
def behind_digits(data: Any, start: int, end: int) -> Any:
    """The first place from *start* to before *end* that has no digit; *end* where there is none."""
    i = start
    while i + TOGETHER <= end:
        bits: Any = _which_are_no_digits(data, i)  # type: ignore[call-arg]
        if bits:
            return i + _first_bit(bits)
        i += TOGETHER
    while i < end and 48 <= data[i] <= 57:  # noqa: PLR2004 - digits
        i += 1
    return i


@lean
def find_all(data: Any, one: int, places: Any) -> int:
    """Where the first bytes of *data* are that are *one*, into *places*, as far as there is room; how many it found."""
    count = 0
    i = 0
    while i < len(data) and count < len(places):
        if i + TOGETHER <= len(data):
            bits: Any = _which(data, i, one, one)  # type: ignore[call-arg]
        else:
            bits = np.uint64(0)
            for k in range(i, len(data)):
                bits |= np.uint64(data[k] == one) << np.uint64(k - i)
        while bits and count < len(places):
            places[count] = i + _first_bit(bits)  # type: ignore[call-arg]
            count += 1
            bits &= bits - np.uint64(1)
        i += TOGETHER
    return count

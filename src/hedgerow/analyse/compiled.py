"""
Compiled: numba's `njit` for this room, with a place for what it has compiled.

That place is named after all sources of the room: numba looks only at the file of a function itself, and would go on
with an old copy of what the function calls. Where the place cannot be written, everything is compiled at each start.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.extending
import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _place() -> Path:
    sources = sorted(Path(__file__).parent.glob("*.py"))
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


def is_first() -> bool:
    """Whether nothing has been compiled yet, or it cannot be kept."""
    return not _CACHE or next(_place().rglob("*.nbi"), None) is None


def compiled(function: _Function) -> _Function:
    """Compile *function* when it is first called; it runs without Python's lock."""
    made: Any = numba.njit(cache=_CACHE, nogil=True)(function)
    return cast("_Function", made)


@numba.extending.intrinsic
def _eight(typing: Any, data: Any, place: Any) -> Any:  # noqa: ARG001 - numba's way
    """Numba's description of `eight`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        first = builder.gep(array.data, [arguments[1]])
        word = builder.bitcast(first, context.get_value_type(numba.types.uint64).as_pointer())
        return builder.load(word, align=1)

    return numba.types.uint64(data, numba.types.int64), generate


@compiled
def eight(data: Any, place: int) -> Any:
    """The eight bytes at *place* as one number, the first the lowest; they must all be there: nobody looks."""
    return _eight(data, place)  # type: ignore[call-arg]


_LOWS = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)


@compiled
def _zeros(word: Any) -> Any:
    """The highest bit of each byte of *word* that is 0; what stands above the lowest of them says nothing."""
    return (word - _LOWS) & ~word & _HIGHS


@compiled
def find(data: Any, start: int, end: int, one: int, other: int) -> Any:
    """The first place from *start* to before *end* with the byte *one* or *other*; *end* where there is none."""
    ones = np.uint64(one) * _LOWS
    others = np.uint64(other) * _LOWS
    i = start
    while i + 8 <= end:
        word = eight(data, i)
        hits = _zeros(word ^ ones) | _zeros(word ^ others)
        if hits:
            # The bits below the lowest hit begin one byte more than there are before it.
            below = (hits & (~hits + np.uint64(1))) - np.uint64(1)
            return i + np.int64((below & _LOWS) * _LOWS >> np.uint64(56)) - 1
        i += 8
    while i < end and data[i] != one and data[i] != other:
        i += 1
    return i

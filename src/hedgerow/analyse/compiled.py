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


def compiled(function: _Function) -> _Function:
    """Compile *function* when it is first called; it runs without Python's lock."""
    made: Any = numba.njit(cache=_CACHE, nogil=True)(function)
    return cast("_Function", made)

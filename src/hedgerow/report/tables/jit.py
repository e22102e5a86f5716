"""
Kernels: functions of arrays and numbers that run as plain Python, or as machine code that numba compiles.

Compiling takes longer than a small log takes without it, and so does importing numba. So a kernel is plain Python until
somebody asks for `Kernel.compiled`. Kernels call each other; one that is compiled brings along those that it calls.

numba keeps what it has compiled in a directory of Hedgerow's own. It looks for changes only in the file of a function
itself, not in those of the functions and constants that it uses, so the directory is named after all of them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOG = logging.getLogger(__name__)
_LOCK = RLock()

_COMPILED_IN = ("report/tables", "core", "watch/sessions")
"""The packages whose functions and constants end up in the machine code."""

_MOST_DIRECTORIES = 3
"""Directories of compiled code that are kept: those of the versions that were used last."""


class Kernel(Generic[_P, _R]):
    """A function that is called as plain Python; *compiled* is the same function as machine code."""

    def __init__(self, function: Callable[_P, _R]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._compiled: Callable[_P, _R] | None = None

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._function(*args, **kwargs)

    @property
    def compiled(self) -> Callable[_P, _R]:
        """The function as machine code, which runs without Python's lock; made by its first call."""
        if self._compiled is None:
            with _LOCK:
                cached = _prepare()
                import numba

                self._compiled = numba.njit(cache=cached, nogil=True, error_model="numpy")(self._function)
        return self._compiled


@cache
def _prepare() -> bool:
    """Tell numba what a kernel is and where it keeps machine code; whether there is such a place."""
    import numba
    from numba.extending import typeof_impl

    config: Any = numba.config
    typeof: Any = numba.typeof

    @typeof_impl.register(Kernel)
    def typeof_kernel(kernel: Kernel[..., Any], _context: Any) -> Any:
        return typeof(kernel.compiled)

    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(config.CACHE_DIR or Path(caches, "hedgerow"), f"compiled-{_version()}")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(directory)
        if not os.access(directory, os.W_OK):
            return False
    except (OSError, RuntimeError):
        return False
    if not any(directory.iterdir()):
        _LOG.info("The functions for large logs are being compiled, once; this takes half a minute or so.")
    _remove_old(directory)
    config.CACHE_DIR = str(directory)
    return True


def _version() -> str:
    """A digest of all source files that end up in the machine code."""
    package = Path(__file__).parents[2]
    sources = [path for name in _COMPILED_IN for path in sorted((package / name).glob("*.py"))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _remove_old(directory: Path) -> None:
    """Remove the machine code of other versions, but for those that were used last."""
    with suppress(OSError):
        others = sorted(directory.parent.glob("compiled-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[_MOST_DIRECTORIES:]:
            if path != directory:
                shutil.rmtree(path, ignore_errors=True)

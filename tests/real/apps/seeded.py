"""Folders that take long to make: made once, kept in the temporary folder, copied for every start."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def kept() -> Path:
    """Where they are kept; of this user alone, since code is run from there."""
    folder = Path(tempfile.gettempdir()) / f"hedgerow-apps-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise AssertionError(f"{folder} is not this user's alone")
    return folder


def seeded(name: str, make: Callable[[Path], None], *ingredients: str) -> Path:
    """
    The folder that *make* makes, to be read only.

    It is made anew when one of the *ingredients* (versions, the text of the code that makes it) is another. Who comes
    while it is being made waits; what was left half made is made again.
    """
    key = hashlib.sha256("\0".join(ingredients).encode()).hexdigest()[:12]
    folder = kept() / f"{name}-{key}"
    with (kept() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _forget_old(name)
            unfinished = kept() / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
        os.utime(folder)
    return folder


def _forget_old(name: str, *, most: int = 3) -> None:
    """Room for one more: the ones that nobody has used for longest go."""
    folders = [path for path in kept().glob(f"{name}-*") if path.is_dir()]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[: 1 - most]:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)

"""The key file: 64 random bytes as hexadecimal, made on first start, readable by its owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from hedgerow.errors import StoreError
from hedgerow.marker.seal import KEY_BYTES


def read_key(text: str, where: str) -> bytes:
    """The key written in *text*; *where* it stands goes into the error."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreError(f"{where} does not hold a key of {KEY_BYTES} bytes in hexadecimal; delete it to get a new one")
    return key


def load_key(path: Path) -> bytes:
    """
    The key in *path*; a new one where there is no file yet. A file that others may read is refused.

    A new key is written beside and then linked to its name, so that of two processes that start at once both get the
    key of the one that was first, and neither an empty file.
    """
    try:
        if not path.exists():
            _make(path)
    except OSError as error:
        raise StoreError(f"cannot make the key file {path}: {error.strerror}") from None
    return _load_existing(path)


def _make(path: Path) -> None:
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_bytes(KEY_BYTES).hex() + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()


def _load_existing(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise StoreError(f"cannot read the key file {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(f"the key file {path} can be read by others; run: chmod 600 {path}")
    return read_key(text, f"the key file {path}")

"""
The key file: one line for each key, `number made-at secret`, the secret in hexadecimal, readable by its owner alone.

The first key is made on first start. `rotate` adds one: links are sealed under the newest, and those sealed under an
older one still open until it is dropped. A file of one bare secret, as the first Hedgerow made them, is key number 1.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from hedgerow.errors import StoreError
from hedgerow.markers.token import KEY_BYTES, Key

_MOST_KEYS = 250


def read_keys(text: str, where: str) -> list[Key]:
    """The keys written in *text*; *where* it stands goes into the error."""
    keys = []
    for line in text.split("\n"):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            number, made_at, secret = ("1", "0", words[0]) if len(words) == 1 else words
            keys.append(Key(int(number), bytes.fromhex(secret), float(made_at)))
        except ValueError:
            keys.clear()
            break
    numbers = {key.number for key in keys}
    sound = all(
        len(key.secret) == KEY_BYTES and 0 <= key.number < 256 and math.isfinite(key.made_at)  # noqa: PLR2004 - a byte
        for key in keys
    )
    if not keys or not sound or len(numbers) != len(keys):
        raise StoreError(f"{where} does not hold keys of {KEY_BYTES} bytes in hexadecimal; delete it to get a new one")
    return keys


def write_keys(keys: Sequence[Key]) -> str:
    """The text of a key file."""
    return "".join(f"{key.number} {key.made_at:.0f} {key.secret.hex()}\n" for key in keys)


def new_key(at: float, keys: Sequence[Key] = ()) -> Key:
    """A key made now, with a number that none of *keys* has."""
    used = {key.number for key in keys}
    last = max(keys, key=lambda key: key.made_at).number if keys else 0
    number = next(n % 256 for n in range(last + 1, last + 257) if n % 256 not in used)
    # Never older than those before it, whatever the clock says: the newest is the one that seals.
    return Key(number, secrets.token_bytes(KEY_BYTES), max([at, *(key.made_at + 1 for key in keys)]))


def load_keys(path: Path, at: float) -> list[Key]:
    """
    The keys in *path*; one made *at* this time where there is no file yet. A file that others may read is refused.

    A new file is written beside and then linked to its name, so that of two processes that start at once both get the
    key of the one that was first, and neither an empty file.
    """
    try:
        if not path.exists():
            with _beside(path, write_keys([new_key(at)])) as beside, contextlib.suppress(FileExistsError):
                os.link(beside, path)
    except OSError as error:
        raise StoreError(f"cannot make the key file {path}: {error.strerror}") from None
    return _load_existing(path)


def rotate(path: Path, at: float, overlap: float) -> list[Key]:
    """
    Add a key, drop those that were replaced more than *overlap* seconds ago, and write the file anew, in one step.

    Returns the keys now in it, the newest last.
    """
    keys = sorted(load_keys(path, at), key=lambda key: key.made_at)
    replaced_at = [key.made_at for key in keys[1:]] + [at]
    kept = [key for key, replaced in zip(keys, replaced_at, strict=True) if at - replaced <= overlap][-_MOST_KEYS:]
    kept.append(new_key(at, keys))
    try:
        with _beside(path, write_keys(kept)) as beside:
            beside.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write the key file {path}: {error.strerror}") from None
    return kept


@contextlib.contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def _load_existing(path: Path) -> list[Key]:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise StoreError(f"cannot read the key file {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(f"the key file {path} can be read by others; run: chmod 600 {path}")
    return read_keys(text, f"the key file {path}")

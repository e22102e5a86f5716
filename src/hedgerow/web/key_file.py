"""
The key file: one line for each key, `number made-at secret`, the secret in hexadecimal, readable only by its owner.

The first key is created at the first start. `rotate` adds one. Links are encrypted with the newest key; those of an
older key can be decrypted until it is dropped. A file with one bare secret, from the first version, is key number 1.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from hedgerow.errors import StoreError
from hedgerow.markers.token import KEY_BYTES, Key
from hedgerow.web.paths import temporary_file

_MAX_KEYS = 250


def read_keys(text: str, where: str) -> list[Key]:
    """Return the keys in *text*; *where* it is from goes into the error."""
    lines = [line.split() for line in text.split("\n")]
    rows = [words for words in lines if words and not words[0].startswith("#")]
    try:
        fields = [("1", "0", words[0]) if len(words) == 1 else words for words in rows]
        keys = [Key(int(number), bytes.fromhex(secret), float(made_at)) for number, made_at, secret in fields]
    except ValueError:
        keys = []
    valid = all(
        len(key.secret) == KEY_BYTES and 0 <= key.number < 256 and math.isfinite(key.made_at)  # noqa: PLR2004 - a byte
        for key in keys
    )
    if not keys or not valid or len({key.number for key in keys}) != len(keys):
        raise StoreError(f"{where} does not hold keys of {KEY_BYTES} bytes in hexadecimal; delete it to get a new one")
    return keys


def write_keys(keys: Sequence[Key]) -> str:
    """Return the text of a key file."""
    return "".join(f"{key.number} {key.made_at:.0f} {key.secret.hex()}\n" for key in keys)


def new_key(at: float, keys: Sequence[Key] = ()) -> Key:
    """
    Return a new key, with a number that none of *keys* has.

    The first key of all has any number. If the key file was lost, links under the lost key then name a key that is not
    there, and are not taken for links that somebody changed.
    """
    used = {key.number for key in keys}
    last = max(keys, key=lambda key: key.made_at).number if keys else secrets.randbelow(256)
    number = next(n % 256 for n in range(last + 1, last + 257) if n % 256 not in used)
    # Newer than all others, whatever the clock says: the newest key encrypts.
    return Key(number, secrets.token_bytes(KEY_BYTES), max([at, *(key.made_at + 1 for key in keys)]))


def load_keys(path: Path, at: float) -> list[Key]:
    """
    Return the keys in *path*. Without a file one is created, with a key made *at* this time.

    A file that others may read is refused. A new file is written under another name and then linked to its own, so that
    two processes that start at once both get the key of the first one, and neither gets an empty file.
    """
    try:
        if not path.exists():
            with (
                temporary_file(path, write_keys([new_key(at)]).encode()) as temporary,
                contextlib.suppress(FileExistsError),
            ):
                os.link(temporary, path)
    except OSError as error:
        raise StoreError(f"cannot make the key file {path}: {error.strerror}") from None
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise StoreError(f"cannot read the key file {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(f"the key file {path} can be read by others; run: chmod 600 {path}")
    return read_keys(text, f"the key file {path}")


def rotate(path: Path, at: float, overlap: float) -> list[Key]:
    """Add a key and drop those replaced more than *overlap* seconds ago. Returns the keys, the newest last."""
    keys = sorted(load_keys(path, at), key=lambda key: key.made_at)
    replaced_at = [key.made_at for key in keys[1:]] + [at]
    kept = [key for key, replaced in zip(keys, replaced_at, strict=True) if at - replaced <= overlap][-_MAX_KEYS:]
    kept.append(new_key(at, keys))
    try:
        with temporary_file(path, write_keys(kept).encode()) as temporary:
            temporary.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write the key file {path}: {error.strerror}") from None
    return kept

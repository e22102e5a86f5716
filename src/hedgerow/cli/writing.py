"""Files that a command writes: the whole or nothing."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from hedgerow.errors import HedgerowError
from hedgerow.logs.formats import readable


def write_file(path: Path, pieces: Iterable[str]) -> None:
    """
    In one step: whoever reads the file sees all of the old or all of the new, and what is half done has another name.

    A device or a pipe, such as /dev/null, is written to as it is: nothing may take its place.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8") as file:
                file.writelines(pieces)
            return
        path = path.resolve()
        beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.writelines(pieces)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise HedgerowError(f"{readable(str(path))}: cannot be written: {error.strerror}") from None

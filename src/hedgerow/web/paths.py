"""The files of a site. This module imports little, because commands that read only one file use it too."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hedgerow.file_owner import open_new_file
from hedgerow.settings.load import Settings


def state_directory(settings: Settings) -> Path:
    """Return the directory of all files: as set, else systemd's state directory, else the user's."""
    if settings.directory:
        return Path(settings.directory).expanduser()
    if systemd := os.environ.get("STATE_DIRECTORY"):
        return Path(systemd.partition(":")[0])
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "hedgerow"


_SITES = "sites"


def site_directory(settings: Settings, name: str) -> Path:
    """Return the directory of one of several sites, below that of all of them."""
    return state_directory(settings) / _SITES / name


def key_path(settings: Settings) -> Path:
    return state_directory(settings) / "hedgerow.key"


def privacy_key_path(settings: Settings) -> Path:
    """Return the file with the key by which addresses in the ledger are hashed."""
    return state_directory(settings) / "privacy.key"


def ledger_path(settings: Settings) -> Path:
    return Path(settings.ledger.path or state_directory(settings) / "ledger.sqlite").expanduser()


def state_path(settings: Settings) -> Path:
    """
    Return the file of blocks, scores, campaigns and pending sessions.

    What a site finds while it observes is in another file, so that it never has consequences.
    """
    return state_directory(settings) / ("observed.sqlite" if settings.observe else "state.sqlite")


def shared_path(settings: Settings) -> Path:
    """Return the file that workers share."""
    return state_directory(settings) / ("observed.lmdb" if settings.observe else "state.lmdb")


def redis_prefix(settings: Settings) -> str:
    """Return what all keys in Redis start with."""
    return settings.state.prefix + ("observed:" if settings.observe else "")


def limits_path(settings: Settings) -> Path:
    """Return the file of the limits that were derived from the days of people."""
    return state_directory(settings) / "limits.json"


def ranges_path(settings: Settings) -> Path:
    """Return the file of address ranges that bots' operators publish. Several sites share it."""
    directory = state_directory(settings)
    common = directory.parent.parent if directory.parent.name == _SITES else directory
    return common / "ranges.json"


@contextmanager
def temporary_file(path: Path, data: bytes) -> Iterator[Path]:
    """Write a file next to *path*, to be moved there in one step. Whatever is left of it is removed."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = open_new_file(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)

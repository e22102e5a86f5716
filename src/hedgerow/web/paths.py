"""The files of a site. Imports little, because commands that read one file use it too."""

from __future__ import annotations

import os
from pathlib import Path

from hedgerow.settings.schema import Settings


def state_directory(settings: Settings) -> Path:
    """Return the directory of all files: as set, else systemd's state directory, else the user's."""
    if settings.directory:
        return Path(settings.directory).expanduser()
    if systemd := os.environ.get("STATE_DIRECTORY"):
        return Path(systemd.partition(":")[0])
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "hedgerow"


def key_path(settings: Settings) -> Path:
    return state_directory(settings) / "hedgerow.key"


def ledger_path(settings: Settings) -> Path:
    return Path(settings.ledger.path or state_directory(settings) / "ledger.sqlite").expanduser()


def state_path(settings: Settings) -> Path:
    """Return the file of blocks, scores, campaigns and pending sessions."""
    return state_directory(settings) / "state.sqlite"


def shared_path(settings: Settings) -> Path:
    """Return the file that workers share."""
    return state_directory(settings) / "state.lmdb"


def ranges_path(settings: Settings) -> Path:
    """Return the file of address ranges that bots' operators publish."""
    return state_directory(settings) / "ranges.json"

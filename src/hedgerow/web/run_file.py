"""
Run files: a running gate writes down its state directory and its settings, so that commands act on them.

A service has another environment than its administrator's shell: systemd gives it a state directory, variables and a
user of its own. The file is in `$RUNTIME_DIRECTORY` (set by systemd), else in `/run/hedgerow`, in `hedgerow` below
`$XDG_RUNTIME_DIR`, or in a folder of the user below the folder for temporary files. The process holds a lock on it. A
file without a lock was left behind by a process that was killed. Only the user of the gate and root can read it,
because settings contain passwords.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hedgerow import __version__
from hedgerow.settings import Settings
from hedgerow.web.paths import state_directory

_SYSTEM = Path("/run/hedgerow")
_SUFFIX = ".run"


class RunRecord(msgspec.Struct, frozen=True):
    """A running gate. *config* is its settings file, or "". *settings* are those in force, options included."""

    process: int
    version: str
    directory: str
    config: str
    settings: msgspec.Raw

    def read_settings(self) -> Settings | None:
        """Return the settings of the gate with its directory; None if its version has other ones than this."""
        try:
            settings = msgspec.json.decode(self.settings, type=Settings)
        except msgspec.MsgspecError:
            return None
        return msgspec.structs.replace(settings, directory=self.directory)


class RunFile:
    """The run file of this process. It exists until it is closed."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._process = os.getpid()

    def close(self) -> None:
        # A fork has a copy of this object, and must leave the file to its parent.
        if self._process == os.getpid() and self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def write_run_file(settings: Settings, config: Path | None) -> RunFile | None:
    """Write the run file of this process. Return None if no folder can be written to."""
    record = RunRecord(
        os.getpid(), __version__, str(state_directory(settings).absolute()),
        str(config.absolute()) if config is not None else "", msgspec.Raw(msgspec.json.encode(_absolute(settings))),
    )  # fmt: skip
    for folder in _folders():
        with suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if not _is_safe(folder):
                continue
            _remove_stale(folder)
            return _write(folder / f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}", msgspec.json.encode(record))
    return None


def _absolute(settings: Settings) -> Settings:
    """Return settings that name the same files in every working directory."""
    replace = msgspec.structs.replace

    def absolute(path: str) -> str:
        return str(Path(path).expanduser().absolute()) if path else ""

    lists, ledger = settings.lists, settings.ledger
    return replace(
        settings, ledger=replace(ledger, path=absolute(ledger.path)),
        lists=replace(
            lists, path=absolute(lists.path), asn_file=absolute(lists.asn_file),
            country_file=absolute(lists.country_file),
        ),
    )  # fmt: skip


def _write(path: Path, data: bytes) -> RunFile:
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, data)
        temporary.replace(path)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
    return RunFile(path, descriptor)


def find_running() -> tuple[Sequence[RunRecord], Sequence[Path]]:
    """Return the gates that run on this machine, and the files and folders that this user may not read."""
    records: list[RunRecord] = []
    unreadable: list[Path] = []
    for folder in filter(_is_safe, _folders()):
        for path in _run_files(folder, unreadable):
            try:
                data = path.read_bytes()
                if _is_locked(path):
                    records.append(msgspec.json.decode(data, type=RunRecord))
            except PermissionError:
                unreadable.append(path)
            except (FileNotFoundError, msgspec.MsgspecError):
                # The gate has just ended, or is of a version with another format.
                continue
    return records, unreadable


def _run_files(folder: Path, unreadable: list[Path]) -> Iterator[Path]:
    """Yield the files in a folder and in those below it, which services have that systemd gives one each."""
    try:
        inside = sorted(folder.iterdir())
    except PermissionError:
        unreadable.append(folder)
        return
    except OSError:
        return
    for path in inside:
        if path.suffix == _SUFFIX:
            yield path
        elif path.is_dir():
            yield from _run_files(path, unreadable)


def _folders() -> Iterator[Path]:
    """Yield the folders for run files, the one to prefer first."""
    if given := os.environ.get("RUNTIME_DIRECTORY"):
        yield Path(given.partition(":")[0])
        return
    yield _SYSTEM
    if user := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(user) / "hedgerow"
    yield Path(tempfile.gettempdir()) / f"hedgerow-{os.getuid()}"


def _is_safe(folder: Path) -> bool:
    """Return whether nobody else can have made the folder: in a folder for temporary files, anybody can."""
    if folder.parent != Path(tempfile.gettempdir()):
        return True
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            if not _is_locked(path):
                path.unlink()

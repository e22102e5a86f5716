"""
Which service a command acts on: the one that runs on this machine, or the one whose settings or directory are named.

A command never guesses. If several services run, or if none has ever run where the command would look, it ends with one
line that says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from typer import Option

from hedgerow.cli.main import CONFIG_VARIABLE, DEFAULT_FILE
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings, load_settings
from hedgerow.web.paths import key_path, ledger_path, state_directory, state_path
from hedgerow.web.run_file import RunRecord, find_running
from hedgerow.web.sites import settings_of_site

Directory = Annotated[
    Path | None,
    Option("--directory", metavar="DIR", help="State directory of the service; default: that of the running one."),
]
SiteName = Annotated[
    str, Option("--site", metavar="NAME", help="One of several sites; default: that at the top level of the settings.")
]
Place = Literal["lists", "state", "ledger", ""]

_SERVERS = {"lists": "PostgreSQL", "ledger": "PostgreSQL", "state": "Redis"}
_NAME_ONE = "name its directory with --directory, or its settings with --config"


def find_site(
    config: Path | None,
    directory: Path | None = None,
    site: str = "",
    *,
    place: Place = "",
    changes: bool = True,
    quiet: bool = False,
    has_started: bool = False,
) -> Settings:
    """
    Return the settings of the service to act on, and say on standard error where that is, unless *quiet*.

    *site* is the name of one of several sites. *place* is the store that the command uses. If *changes* is false, it
    only reads. Before the first start of a service, a command may act where the settings or the directory are named,
    except with *has_started*.
    """
    settings, running = _choose(config, directory)
    settings = settings_of_site(settings, site)
    at = state_directory(settings)
    remote = place != "" and getattr(settings, place).url
    if not remote:
        _check_access(at)
        named = config is not None or directory is not None or "HEDGEROW__DIRECTORY" in os.environ
        if not running and not has_run(settings) and (has_started or not named):
            raise StoreError(f"no Hedgerow has run with the directory {at}; {_NAME_ONE}")
    if not quiet:
        typer.echo(_said(at, _SERVERS[place] if remote else "", running, changes=changes), err=True)
    return settings


def has_run(settings: Settings) -> bool:
    """Return whether a gate has run with the directory of these settings."""
    paths = [key_path(settings), ledger_path(settings)]
    paths += [state_path(msgspec.structs.replace(settings, observe=observe)) for observe in (False, True)]
    return any(path.is_file() for path in paths)


def _said(at: Path, server: str, running: Sequence[RunRecord], *, changes: bool) -> str:
    if server:
        return f"using {server}, as the settings say"
    if running:
        return readable(f"using {at}, where Hedgerow is running (process {running[0].process})")
    later = ": changes take effect when one starts" if changes else ""
    return readable(f"using {at}; no Hedgerow is running there{later}")


def _choose(config: Path | None, directory: Path | None) -> tuple[Settings, Sequence[RunRecord]]:
    """Return the settings to use, and the running gates that use the same directory."""
    records, unreadable = find_running()
    settings = load_settings(config)
    if directory is not None:
        settings = msgspec.structs.replace(settings, directory=str(directory))
    if settings.directory:
        here = [one for one in records if _is_same(one.directory, str(state_directory(settings)))]
        # A file that merely is in this folder may be that of another service. That of the variable is for all commands.
        is_named = (
            config is not None and config != _file_of_variable() and (directory is None or config != DEFAULT_FILE)
        )
        return (settings if is_named or not here else _settings_of(here[0])), here
    found = records
    if config is not None:
        found = [one for one in records if one.config and _is_same(one.config, str(config))]
        own = str(state_directory(settings))
        if config == DEFAULT_FILE and not found and any(not _is_same(one.directory, own) for one in records):
            raise StoreError(
                f"the settings in this folder mean the directory {own}, but Hedgerow is running with "
                f"{_directories(records)}; {_NAME_ONE}"
            )
    if len({one.directory for one in found}) > 1:
        raise StoreError(f"several services are running, with {_directories(found)}; name one with --directory")
    if found:
        return _settings_of(found[0]), found
    if unreadable:
        raise StoreError(
            f"a service may be running, but this user cannot read {unreadable[0]}; run this command as root or as the "
            "user of the service"
        )
    return settings, [one for one in records if _is_same(one.directory, str(state_directory(settings)))]


def _file_of_variable() -> Path | None:
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def _directories(records: Sequence[RunRecord]) -> str:
    return readable(" and ".join(sorted({one.directory for one in records})))


def _settings_of(record: RunRecord) -> Settings:
    """Return the settings of a running gate: those in force, or if it has another version, those in its file."""
    settings = record.read_settings()
    if settings is None:
        settings = load_settings(Path(record.config) if record.config else None)
    return msgspec.structs.replace(settings, directory=record.directory)


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _check_access(directory: Path) -> None:
    try:
        exists = directory.exists()
    except PermissionError:
        exists = True
    if exists and not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise StoreError(
            f"this user cannot use the directory {directory}; run this command as root or as the user of the service"
        )

"""*Settings*: each value in force and where it comes from; a change is tried on the last day before it is applied."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomlkit
from msgspec import Meta

from hedgerow.errors import HedgerowError
from hedgerow.settings import Settings, read_settings
from hedgerow.settings.load import START_SETTINGS, START_TABLES, is_secret, setting_origins
from hedgerow.web.dashboard.jobs import Job, run_command
from hedgerow.web.dashboard.page import Action, Context, Done, Empty, Page, Problem
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, tabulate
from hedgerow.web.ledger_access import ledger_of
from hedgerow.web.paths import state_directory

JOB = "replay of a proposal"
_COLUMNS = (
    Column("name", "Setting"),
    Column("value", "Value"),
    Column("default", "Default"),
    Column("origin", "From"),
)
_MAX_ROWS = 200
_HIDDEN = "(set, not shown)"


class SettingRow(msgspec.Struct, frozen=True):
    """A setting, as it would be written in the file. *origin*: `default`, `command line`, a line or a variable."""

    name: str
    value: str
    default: str
    origin: str


class Affected(msgspec.Struct, frozen=True):
    """A visitor of the last day with whom the proposal would have dealt otherwise."""

    visitor: str
    requests: int
    before: str
    after: str
    why: str


class Proposal(msgspec.Struct, frozen=True):
    """
    What a change would have meant for the visits of the last day.

    *stopped* visitors would have been stopped that were not; *freed* ones the other way round.
    """

    change: str
    visitors: int
    stopped: int
    freed: int
    affected: list[Affected]


class SettingsPage(TablePage[SettingRow], frozen=True):
    """*reloads*: the service can read its file again. A middleware has to be restarted."""

    file: str = ""
    last: Job | None = None
    proposal: Proposal | None = None
    reloads: bool = False


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings in TOML, such as `containment.k1 = 30`, one on each line."""

    change: Annotated[str, Meta(min_length=1, max_length=5000)]


def query(context: Context, parameters: TableParameters) -> SettingsPage:
    # What somebody has set, first.
    rows = sorted(_rows(context), key=lambda row: row.origin == "default")
    table = tabulate(rows, _COLUMNS, parameters)
    return SettingsPage(
        table.rows, table.total, table.page, table.size, str(context.site.config or ""), context.jobs.last(JOB),
        context.jobs.result(JOB), context.site.request_reload is not None,
    )  # fmt: skip


def _rows(context: Context) -> Iterator[SettingRow]:
    text = _text(context)
    name = context.site.config.name if context.site.config else "environment"
    origins = setting_origins(text, name)
    stored = dict(_flat(read_settings(text, name=name), ()))
    defaults = dict(_flat(Settings(), ()))
    own = set(_paths_of_site(text, context.site.name))
    for path, value in _flat(context.settings, ()):
        origin = origins.get(path, "default")
        if path in own:
            origin = f"{name}, [[site]] {context.site.name}"
        elif path in stored and stored[path] != value:
            # Each site has a directory and names of its own where sites share a server.
            origin = f"site {context.site.name}" if context.site.name else "command line"
        yield SettingRow(".".join(path), _shown(path, value), _shown(path, defaults.get(path, "")), origin)


def _paths_of_site(text: str, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the settings that stand in the `[[site]]` of this name."""
    for site in tomllib.loads(text).get("site", []) if name else []:
        if site.get("name") == name:
            yield from setting_origins(tomlkit.dumps(site), "", {})
            yield ("proxy", "upstream")


def _flat(table: msgspec.Struct, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the path and the value of each setting."""
    for name in table.__struct_fields__:
        value = getattr(table, name)
        if isinstance(value, msgspec.Struct):
            yield from _flat(value, (*above, name))
        elif (*above, name) != ("site",):
            yield (*above, name), value


def _shown(path: tuple[str, ...], value: object) -> str:
    """Return a value in TOML, without secrets."""
    if is_secret(path):
        return _HIDDEN if value else '""'
    return str(tomlkit.item(_without_secrets(msgspec.to_builtins(value))).as_string())


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        # What is not set has no value in TOML.
        given = {name: one for name, one in value.items() if one is not None}
        return {name: _HIDDEN if is_secret((name,)) else _without_secrets(one) for name, one in given.items()}
    return [_without_secrets(one) for one in value] if isinstance(value, list | tuple) else value


def _text(context: Context) -> str:
    """Return the text of the settings file, "" if there is none."""
    if context.site.config is None:
        return ""
    try:
        return context.site.config.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise Problem(503, f"{context.site.config} cannot be read.") from None


def _changed(context: Context, change: str) -> str:
    """Return the text of the file with *change* in it. Raises `Problem` or SettingsError if that is not possible."""
    if context.site.name:
        raise Problem(409, f"Change the settings of {context.site.name} in its [[site]] of the file, and send SIGHUP.")
    try:
        wanted = tomllib.loads(change)
    except tomllib.TOMLDecodeError as error:
        raise Problem(422, f"This is not TOML: {error}") from None
    locked = [name for name in START_TABLES if name in wanted]
    for table, names in START_SETTINGS.items():
        own = wanted.get(table)
        locked += [f"{table}.{name}" for name in names if isinstance(own, Mapping) and name in own]
    if locked:
        raise Problem(409, f"Change {', '.join(locked)} in the settings file, and restart the service.")
    if "site" in wanted:
        raise Problem(409, "Change [[site]] in the settings file, and send SIGHUP.")
    document = tomlkit.parse(_text(context))
    _merge(document, wanted)
    text = tomlkit.dumps(document)
    settings = read_settings(text, name="the proposal")
    asked = read_settings(change, name="the proposal", environment={})
    in_force, meant = dict(_flat(settings, ())), dict(_flat(asked, ()))
    for path in setting_origins(change, "", {}):
        if path in meant and in_force[path] != meant[path]:
            raise Problem(409, f"{'.'.join(path)} is set by a variable of the environment, which takes precedence.")
    return text


def _merge(into: Any, wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), Mapping):
            _merge(into[name], value)
        else:
            into[name] = value


def propose(context: Context, request: Change) -> Done:
    if not context.has_ledger:
        raise Problem(409, "There is no ledger, so a change cannot be tried on it.")
    new, old, settings = _changed(context, request.change), _text(context), context.settings
    context.jobs.start(JOB, lambda: _try(settings, old, new, request.change))
    return Done("The visits of the last day are replayed with this change.", request.change)


def _try(settings: Settings, old: str, new: str, change: str) -> Proposal:
    before, after = (_replay(settings, text) for text in (old, new))
    affected = [
        Affected(name, row["requests"], _fate(before.get(name)), _fate(row), _why(row, before.get(name)))
        for name, row in after.items()
        if _fate(row) != _fate(before.get(name))
    ]
    affected.sort(key=lambda one: -one.requests)
    return Proposal(
        change, len(after), sum(one.before == "passed" for one in affected),
        sum(one.after == "passed" for one in affected), affected[:_MAX_ROWS],
    )  # fmt: skip


def _replay(settings: Settings, text: str) -> dict[str, Any]:
    """Return the visitors of the last day by what settings with this text do with them."""
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        config, result = Path(folder) / "hedgerow.toml", Path(folder) / "replay.json"
        config.touch(mode=0o600)
        config.write_text(text)
        run_command(
            ["replay", ledger_of(settings), "--since", "1d", "--config", str(config), "--json", str(result)],
            {"HEDGEROW__DIRECTORY": str(state_directory(settings))},
        )  # fmt: skip
        return {row["visitor"]: row for row in msgspec.json.decode(result.read_bytes())["visitors"]}


def _fate(row: Mapping[str, Any] | None) -> str:
    """Return the hardest thing that happened to a visitor."""
    decisions = row["decisions"] if row else {}
    words = {"refuse": "refused", "detain": "detained", "challenge": "challenged"}
    return next((word for action, word in words.items() if decisions.get(action)), "passed")


def _why(after: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    found = after["evidence"] or (before["evidence"] if before else [])
    return " ".join(one["text"] for one in found)


def apply(context: Context, request: Change) -> Done:
    """Write a change that was tried into the settings file, and make the service read it."""
    proposal = context.jobs.result(JOB)
    if not isinstance(proposal, Proposal) or proposal.change != request.change:
        raise Problem(409, "Try this change first: the page then shows whom it would have affected.")
    config, reload = context.site.config, context.site.request_reload
    if config is None:
        raise Problem(409, "The service has no settings file. Start it with --config FILE.")
    text = _changed(context, request.change)
    _write(config, text)
    if reload is None:
        return Done(f"{config.name} is changed. Restart the application to use it.", request.change)
    reload()
    return Done(f"{config.name} is changed and in force. {config.name}.before is the previous one.", request.change)


def reload(context: Context, _: Empty) -> Done:
    """Make the service read its settings, keys, models and addresses of bots again, as SIGHUP does."""
    ask = context.site.request_reload
    if ask is None:
        raise Problem(409, "Restart the application: it reads its settings, keys and models at the start.")
    ask()
    return Done("The service reads its settings, keys, models and addresses of bots again.", "the service")


def _write(config: Path, text: str) -> None:
    """Replace the file, with its permissions, and keep the previous one beside it."""
    new = config.with_name(f"{config.name}.new")
    try:
        status = config.stat()
        config.with_name(f"{config.name}.before").write_bytes(config.read_bytes())
        config.with_name(f"{config.name}.before").chmod(status.st_mode & 0o777)
        new.touch(mode=0o600)
        new.write_text(text, "utf-8")
        new.chmod(status.st_mode & 0o777)
        made = new.stat()
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            os.chown(new, status.st_uid, status.st_gid)
        new.replace(config)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise HedgerowError(
            f"{config} cannot be written: {error.strerror}. Put this into it yourself, and reload."
        ) from None


PAGE = Page(
    name="settings",
    title="Settings",
    summary="Each setting in force, its default and where it comes from; and whom a proposed change would affect.",
    query=query,
    result=SettingsPage,
    parameters=TableParameters,
    columns=_COLUMNS,
    actions=(
        Action("propose", "Replay the last day with a change of the settings.", Change, propose),
        Action("apply", "Write a change that was tried into the settings file, and reload.", Change, apply),
        Action("reload", "Read settings, keys, models and addresses of bots again.", Empty, reload),
    ),
)

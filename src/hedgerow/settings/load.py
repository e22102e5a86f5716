"""
All settings, and how they are read from a TOML file and the environment: every fault at once, each with file and line.

The TOML parser of the standard library keeps no line numbers. `_Lines` finds them by scanning the file for table
headers and keys.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from hedgerow.core.settings_table import Table
from hedgerow.detectors.containment import ContainmentSettings
from hedgerow.detectors.rate_limit import DensitySettings
from hedgerow.detectors.registry import registry
from hedgerow.detectors.rotating_addresses import RotatingAddressesSettings
from hedgerow.detectors.trap import TrapSettings
from hedgerow.errors import DetectorError, SettingsError
from hedgerow.request.path_rules import PathRule
from hedgerow.settings import checks, operation_tables, sites, store_tables, tables

ENVIRONMENT_PREFIX = "HEDGEROW__"

_HEADER = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\- \"']+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\-\"']+)\s*=")
_DECODE_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")

_SECRETS = frozenset({"token", "secret", "password", "url", "webhook", "mail_password"})

Path_ = tuple[str, ...]
T = TypeVar("T", bound=msgspec.Struct)


START_TABLES = (
    "directory", "proxy", "tls", "state", "lists", "ledger", "privacy", "alerts", "traces", "admin", "serve",
)  # fmt: skip
"""Settings and tables that are read at the start only."""
START_SETTINGS = {"watch": ("enabled", "queue", "sessions"), "policy": ("remember",)}
"""The same of other tables."""


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    The top level of the file, with the tables that do not belong to a detector alone.

    `Settings` adds the tables that detectors declare. Only tables check their values.
    """

    observe: bool | Literal["links"] = False
    directory: str = ""
    proxy: tables.ProxySettings = tables.ProxySettings()
    alerts: operation_tables.AlertsSettings = operation_tables.AlertsSettings()
    privacy: operation_tables.PrivacySettings = operation_tables.PrivacySettings()
    tls: operation_tables.TlsSettings = operation_tables.TlsSettings()
    traces: operation_tables.TracesSettings = operation_tables.TracesSettings()
    identity: tables.IdentitySettings = tables.IdentitySettings()
    bots: tables.BotsSettings = tables.BotsSettings()
    density: DensitySettings = DensitySettings()
    marker: tables.MarkerSettings = tables.MarkerSettings()
    policy: tables.PolicySettings = tables.PolicySettings()
    lists: store_tables.ListsSettings = store_tables.ListsSettings()
    traps: TrapSettings = TrapSettings()
    containment: ContainmentSettings = ContainmentSettings()
    rotating: RotatingAddressesSettings = RotatingAddressesSettings()
    detain: tables.DetainSettings = tables.DetainSettings()
    challenge: tables.ChallengeSettings = tables.ChallengeSettings()
    responses: tables.ResponseSettings = tables.ResponseSettings()
    state: store_tables.StateSettings = store_tables.StateSettings()
    ledger: store_tables.LedgerSettings = store_tables.LedgerSettings()
    watch: tables.WatchSettings = tables.WatchSettings()
    campaigns: tables.CampaignSettings = tables.CampaignSettings()
    logs: tables.LogsSettings = tables.LogsSettings()
    report: tables.ReportSettings = tables.ReportSettings()
    logging: tables.LoggingSettings = tables.LoggingSettings()
    admin: tables.AdminSettings = tables.AdminSettings()
    serve: tables.ServeSettings = tables.ServeSettings()
    path: tuple[PathRule, ...] = ()
    unknown_hosts: Literal["default", "refuse"] = "default"
    site: tuple[SiteEntry, ...] = ()

    @property
    def is_neutral(self) -> bool:
        """Whether the site observes without changing any response."""
        return self.observe is True

    @property
    def clears_silently(self) -> bool:
        """Whether pages get the script by which browsers obtain a clearance."""
        changes_pages = self.traps.enabled or self.marker.mode != "off" or bool(self.marker.rules)
        changes_pages = changes_pages or any(rule.traps or rule.marks not in {None, "off"} for rule in self.path)
        return self.challenge.silent and changes_pages and not self.is_neutral

    def without_clearances(self) -> Settings:
        """Return settings for visits whose browsers cannot obtain a clearance silently."""
        return msgspec.structs.replace(self, challenge=msgspec.structs.replace(self.challenge, silent=False))

    def table(self, kind: type[T]) -> T:
        """Return the table of the class *kind*."""
        for name in self.__struct_fields__:
            if isinstance(table := getattr(self, name), kind):
                return table
        raise LookupError(f"no settings table is a {kind.__name__}")


class SiteEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    One of several sites. *settings* are the common ones with its own in front; they have no sites of their own.

    With *share_blocks* it and all others that have it block each other's crawlers.
    """

    name: str
    hosts: tuple[str, ...]
    settings: Settings
    share_blocks: bool = False


def _detector_tables() -> list[tuple[str, type[Table], Table]]:
    """Return the tables that detectors declare, except those with a field in `_Settings`."""
    fixed = {field.name: field.type for field in msgspec.structs.fields(_Settings)}
    declared = registry().tables()
    for name, kind in declared.items():
        if fixed.get(name, kind) is not kind:
            raise DetectorError(f"the settings table {name!r} cannot be a detector's: choose another name")
    return [(name, kind, kind()) for name, kind in declared.items() if name not in fixed]


if TYPE_CHECKING:
    Settings = _Settings
else:
    Settings = msgspec.defstruct(
        "Settings", _detector_tables(), bases=(_Settings,), module=__name__, frozen=True, forbid_unknown_fields=True
    )  # fmt: skip


class _Lines:
    """The line number of each setting in a file."""

    def __init__(self, text: str) -> None:
        self._at: dict[Path_, int] = {}
        table: Path_ = ()
        counts: dict[Path_, int] = {}

        def numbered(names: Path_) -> Path_:
            """Return the path of a table: `[site.marker]` belongs to the last `[[site]]`."""
            path: Path_ = ()
            for part in names:
                path = (*path, part)
                if path in counts:
                    path = (*path, str(counts[path]))
            return path

        # Not splitlines, which also splits at characters that do not end a line in TOML.
        for number, line in enumerate(text.split("\n"), 1):
            header = _HEADER.match(line)
            key = _KEY.match(line)
            if header:
                names = _names(header[2])
                if header[1] == "[[":
                    array = (*numbered(names[:-1]), names[-1])
                    counts[array] = counts.get(array, -1) + 1
                table = numbered(names)
                self._at.setdefault(table, number)
            elif key:
                self._at.setdefault((*table, *_names(key[1])), number)

    def __contains__(self, path: Path_) -> bool:
        return path in self._at

    def line(self, path: Path_) -> int:
        """Return the line of the setting at *path*, or of the nearest table around it."""
        return next((self._at[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._at), 1)


def _names(dotted: str) -> Path_:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


class _Reader:
    """Builds settings from raw values and collects every fault."""

    def __init__(self) -> None:
        self.faults: list[tuple[Path_, str]] = []

    def table(self, kind: type[T], raw: object, path: Path_) -> T | None:
        """Return a table of *kind*, or None after recording a fault."""
        if not isinstance(raw, Mapping):
            self.faults.append((path, f"must be a table, is {_describe(raw)}"))
            return None
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for name, value in raw.items():
            if name not in fields:
                self.faults.append(((*path, name), _unknown(name, fields)))
            else:
                values[name] = self.value(fields[name].type, value, (*path, name))
        required = [name for name, field in fields.items() if field.required]
        for name in required:
            if name not in values:
                self.faults.append((path, f"needs {name}"))
        good = {name: value for name, value in values.items() if value is not None}
        if not good.keys() >= set(required):
            return None
        # Checked even if a neighbour is wrong, with its default, so that all faults are reported at once.
        table = kind(**good)
        if isinstance(table, Table):
            for name, sentence in table.faults():
                self.faults.append(((*path, *name.split(".")), sentence))
        return table if len(good) == len(values) else None

    def value(self, kind: Any, raw: object, path: Path_) -> Any:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if get_origin(kind) in {Union, UnionType} and NoneType in get_args(kind):
            # TOML has no null: None only stands for a setting that is not there.
            kind = Union[tuple(part for part in get_args(kind) if part is not NoneType)]  # noqa: UP007 - computed
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.table(kind, raw, path)
        element = get_args(kind)[0] if get_origin(kind) is tuple else None
        if isinstance(element, type) and issubclass(element, msgspec.Struct):
            if not isinstance(raw, list):
                self.faults.append((path, f"must be a list of tables, is {_describe(raw)}"))
                return None
            tables = [self.table(element, item, (*path, str(n))) for n, item in enumerate(raw)]
            return None if any(item is None for item in tables) else tuple(tables)
        try:
            return msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            # The value of a secret must not get into a log.
            shown = "a value of another type" if path[-1] in _SECRETS else _describe(raw)
            self.faults.append((path, _sentence(str(error), shown, _choices(kind))))
            return None


def _describe(raw: object) -> str:
    if raw is None:
        return "nothing"
    return f"{msgspec.json.encode(raw).decode() if isinstance(raw, str | int | float | bool) else type(raw).__name__}"


def _choices(kind: Any) -> tuple[str, ...]:
    """
    Return the possible values of a setting as they are written, or nothing if there is no end of them.

    >>> _choices(Literal["a", "b"]), _choices(bool | Literal["links"]), _choices(str)
    (("'a'", "'b'"), ('true', 'false', "'links'"), ())
    """
    if get_origin(kind) is Literal:
        return tuple(map(repr, get_args(kind)))
    if get_origin(kind) not in {Union, UnionType}:
        return ()
    return tuple(text for part in get_args(kind) for text in (("true", "false") if part is bool else _choices(part)))


def _sentence(message: str, shown: str, choices: tuple[str, ...]) -> str:
    """Rewrite an error of msgspec, such as "Expected `int`, got `str`"."""
    if choices:
        return f"must be one of {', '.join(choices)}, is {shown}"
    expected = re.search(r"Expected `([^`]+)`", message)
    words = {"int": "a whole number", "float": "a number", "str": "text in quotes", "bool": "true or false",
             "array": "a list"}  # fmt: skip
    if expected:
        expected_types = " or ".join(words.get(part.strip(), part.strip()) for part in expected[1].split("|"))
        return f"must be {expected_types}, is {shown}"
    return f"{message[0].lower()}{message[1:]}: {shown}"


def _unknown(name: str, fields: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, fields, n=1)
    return f"is not a setting{f'; did you mean {near[0]}?' if near else ''}"


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Path_, object]]:
    """Yield settings from `HEDGEROW__TABLE__NAME`. A value is parsed as TOML; other text is a string."""
    for name, text in sorted(environment.items()):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        path = tuple(part.lower() for part in name.removeprefix(ENVIRONMENT_PREFIX).split("__"))
        try:
            value: object = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            value = text
        yield name, path, value


def read_sites(reader: _Reader, common: Mapping[str, Any], raw: object) -> tuple[SiteEntry, ...]:
    """Return the sites of the tables `[[site]]`, each with the *common* settings and its own in front."""
    if not isinstance(raw, list):
        reader.faults.append((("site",), f"must be a list of tables, is {_describe(raw)}"))
        return ()
    known = set(reader.faults)
    entries: dict[int, SiteEntry] = {}
    for number, own in enumerate(raw):
        path = ("site", str(number))
        if not isinstance(own, Mapping):
            reader.faults.append((path, f"must be a table, is {_describe(own)}"))
            continue
        inner = _Reader()
        entry = _read_site(inner, common, own)
        # A fault of the common settings is reported once, where it is.
        reader.faults += [((*path, *at), sentence) for at, sentence in inner.faults if (at, sentence) not in known]
        if entry is not None:
            entries[number] = entry
    reader.faults += [(("site", *at), sentence) for at, sentence in sites.faults(entries)]
    return tuple(entries.values())


def _read_site(reader: _Reader, common: Mapping[str, Any], own: Mapping[str, Any]) -> SiteEntry | None:
    heads = {"name": str, "hosts": tuple[str, ...], "share_blocks": bool, "upstream": str}
    tables_of_site = [field.name for field in msgspec.structs.fields(Settings) if field.name not in sites.OF_ALL_SITES]
    values = {name: reader.value(kind, own[name], (name,)) for name, kind in heads.items() if name in own}
    overrides: dict[str, Any] = {}
    for name, value in own.items():
        if name in sites.OF_ALL_SITES:
            reader.faults.append(((name,), sites.ONLY_COMMON))
        elif name not in tables_of_site and name not in heads:
            reader.faults.append(((name,), _unknown(name, dict.fromkeys([*heads, *tables_of_site]))))
        elif name not in heads:
            overrides[name] = value
    for table, names in sites.FIELDS_OF_ALL_SITES.items():
        given = overrides.get(table)
        for name in [one for one in names if isinstance(given, Mapping) and one in given]:
            reader.faults.append(((table, name), sites.ONLY_COMMON))
    if upstream := values.get("upstream"):
        faults = [(("upstream",), sentence) for _, sentence in checks.upstream_faults(upstream)]
        reader.faults += faults
        if not faults:
            overrides["proxy"] = {**overrides.get("proxy", {}), "upstream": upstream}
    for name in ("ledger", "lists"):
        if sites.shares_database(common.get(name), overrides.get(name)):
            reader.faults.append(((name, "url"), sites.OWN_DATABASE))
    reader.faults += [(("hosts",), 'is needed, such as ["www.example.org"]')] if "hosts" not in own else []
    reader.faults += [(("name",), 'is needed, such as "shop"')] if "name" not in own else []
    settings = reader.table(Settings, sites.merged(common, overrides), ())
    if settings is None or values.get("name") is None or values.get("hosts") is None:
        return None
    name = values["name"]
    return SiteEntry(name, values["hosts"], sites.named(settings, name, overrides), bool(values.get("share_blocks")))


def read_settings(text: str, *, name: str = "hedgerow.toml", environment: Mapping[str, str] | None = None) -> Settings:
    """
    Return settings from the *text* of a file called *name* and from the environment, which takes precedence.

    Raises SettingsError with one line per fault: `hedgerow.toml:7: density.block_for: must be a number, is "x"`.
    """
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _DECODE_AT.search(str(error))
        line = at[1] if at and at[1] else str(max(1, text.count("\n") + (not text.endswith("\n"))))
        raise SettingsError([f"{name}:{line}: {_DECODE_AT.sub('', str(error))}"]) from None
    except RecursionError:
        raise SettingsError([f"{name}: is nested too deeply"]) from None
    variables: dict[Path_, str] = {}
    clashes: list[str] = []
    for variable, path, value in _from_environment(os.environ if environment is None else environment):
        table: Any = raw
        for part in path[:-1]:
            table = table.setdefault(part, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[path[-1]] = value
            variables[path] = variable
        else:
            clashes.append(f"{variable}: is not a setting")
    reader = _Reader()
    sites = raw.pop("site", [])
    settings = reader.table(Settings, raw, ())
    entries = read_sites(reader, raw, sites)
    if settings is None or reader.faults or clashes:
        lines = _Lines(text)
        raise SettingsError([*clashes, *(_locate(path, s, variables, name, lines) for path, s in reader.faults)])
    return msgspec.structs.replace(settings, site=entries) if entries else settings


def _locate(path: Path_, sentence: str, variables: Mapping[Path_, str], name: str, lines: _Lines) -> str:
    for length in range(len(path), 0, -1):
        if path[:length] in variables:
            return f"{variables[path[:length]]}: {sentence}"
    below = [variable for at, variable in variables.items() if at[: len(path)] == path]
    if below and path not in lines:
        # A variable uses a setting as a table.
        return f"{below[0]}: is not a setting"
    return f"{name}:{lines.line(path)}: {'.'.join(path)}: {sentence}"


def setting_origins(text: str, name: str, environment: Mapping[str, str] | None = None) -> dict[Path_, str]:
    r"""
    Return where settings come from, except for defaults: `hedgerow.toml:7`, or the name of a variable.

    >>> setting_origins("[traps]\nenabled = false\n", "site.toml", {"HEDGEROW__DETAIN__SECONDS": "9"})
    {('traps', 'enabled'): 'site.toml:2', ('detain', 'seconds'): 'HEDGEROW__DETAIN__SECONDS'}
    """
    lines = _Lines(text)
    found = {path: f"{name}:{lines.line(path)}" for path in _leaves(tomllib.loads(text), ())}
    variables = _from_environment(os.environ if environment is None else environment)
    return found | {path: variable for variable, path, _ in variables}


def _leaves(raw: Mapping[str, Any], above: Path_) -> Iterator[Path_]:
    for name, value in raw.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name)


def is_secret(path: Path_) -> bool:
    """Return whether the value of a setting must not be shown."""
    return path[-1] in _SECRETS


def line_of(text: str, setting: str) -> int:
    """Return the line of *text* with the setting `table.name`, or with what is nearest around it."""
    return _Lines(text).line(_names(setting))


def load_settings(path: Path | None, *, environment: Mapping[str, str] | None = None) -> Settings:
    """Return settings from a file, or the defaults if *path* is None, and the environment."""
    if path is None:
        return read_settings("", name="environment", environment=environment)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}"]) from None
    try:
        # Some editors start a file with a byte order mark.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SettingsError([f"{path}:{line}: is not UTF-8"]) from None
    return read_settings(text, name=str(path), environment=environment)

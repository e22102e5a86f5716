"""Several sites in one file: what each `[[site]]` may set, how it takes the common settings over, and its checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from hedgerow.settings.load import Settings, SiteEntry

DEFAULT = "default"
"""The name of the site at the top level of the file."""
MAX_SITES = 200
OF_ALL_SITES = frozenset({"directory", "admin", "serve", "logging", "unknown_hosts", "site"})
FIELDS_OF_ALL_SITES: Mapping[str, Sequence[str]] = {
    "proxy": (
        "listen", "head_timeout", "shutdown_timeout", "client_connections", "connections_per_address", "longest_url",
        "header_bytes", "headers",
    ),
    "tls": ("minimum", "redirect", "acme", "acme_directory", "acme_email", "acme_ca"),
}  # fmt: skip
ONLY_COMMON = "is the same for all sites; set it outside [[site]]"
OWN_DATABASE = (
    'each site needs a database or a schema of its own; set url in its own table, or write "" there for a file'
)
# What a site never takes over: its data would mix with those of others.
_NOT_INHERITED = {"ledger": ("path",), "lists": ("path", "subscriptions")}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_]([a-z0-9_-]{0,62})(?:\.[a-z0-9_-]{1,63})*|\[[0-9a-f:.]+\]")
_MAX_HOST = 253


def merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the common settings of a file with those of a site in front. Lists are replaced as a whole."""
    result = {
        name: {key: one for key, one in value.items() if key not in _NOT_INHERITED.get(name, ())}
        if isinstance(value, Mapping)
        else value
        for name, value in common.items()
        if name not in {"site", "unknown_hosts", "tls"}
    }
    return _merged(result, own)


def shares_database(common: object, own: object) -> bool:
    """Return whether a site would use the database of the common table for its ledger or its lists."""
    url = common.get("url") if isinstance(common, Mapping) else ""
    return bool(url) and (own.get("url", url) if isinstance(own, Mapping) else url) == url


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(common)
    for name, value in own.items():
        before = result.get(name)
        nested = isinstance(value, Mapping) and isinstance(before, Mapping)
        result[name] = _merged(before, value) if nested else value  # type: ignore[arg-type]
    return result


def named(settings: Settings, name: str, own: Mapping[str, Any]) -> Settings:
    """Return the settings of a site with its name where sites share a server: in Redis, and in alerts."""
    replace = msgspec.structs.replace
    if "prefix" not in own.get("state", {}):
        state = replace(settings.state, prefix=f"{settings.state.prefix}site:{name}:")
        settings = replace(settings, state=state)
    if "site" not in own.get("alerts", {}):
        settings = replace(settings, alerts=replace(settings.alerts, site=name))
    return settings


def faults(entries: Mapping[int, SiteEntry]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with sites, each with its number and setting."""
    names: set[str] = set()
    hosts: dict[str, str] = {}
    if len(entries) > MAX_SITES:
        yield (), f"at most {MAX_SITES} sites, these are {len(entries)}"
    for number, entry in entries.items():
        at = str(number)
        if entry.name == DEFAULT or not _NAME.fullmatch(entry.name):
            yield (at, "name"), f"{entry.name!r} must be a-z, 0-9 and - only, and not {DEFAULT!r}"
        elif entry.name in names:
            yield (at, "name"), f"{entry.name!r} is the name of another site"
        names.add(entry.name)
        if not entry.hosts:
            yield (at, "hosts"), "must not be empty"
        for host in entry.hosts:
            for sentence in _host_faults(host):
                yield (at, "hosts"), sentence
            if host.lower() in hosts:
                yield (at, "hosts"), f"{host!r} belongs to the site {hosts[host.lower()]!r}"
            hosts[host.lower()] = entry.name
    yield from _same_files(entries)


def _host_faults(host: str) -> Iterator[str]:
    if len(host) > _MAX_HOST or not _HOST.fullmatch(host.lower()):
        hint = "without a port" if re.fullmatch(r".*[^:]:\d+", host) else "such as www.example.org or *.example.org"
        yield f"{host!r} is not a host; write it {hint}"


def _same_files(entries: Mapping[int, SiteEntry]) -> Iterator[tuple[tuple[str, ...], str]]:
    for table, field in (("ledger", "path"), ("ledger", "url"), ("lists", "path"), ("lists", "url")):
        seen: dict[str, str] = {}
        for number, entry in entries.items():
            value = getattr(getattr(entry.settings, table), field)
            if value and value in seen:
                yield (str(number), table, field), f"is also that of the site {seen[value]!r}"
            seen[value] = entry.name


def with_every_site(settings: Settings, change: Callable[[Settings], Settings]) -> Settings:
    """Return settings with the same change for the common ones and for those of each site."""
    replace = msgspec.structs.replace
    return replace(
        change(settings), site=tuple(replace(one, settings=change(one.settings)) for one in settings.site)
    )  # fmt: skip

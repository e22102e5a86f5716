"""Settings that are valid, and that still may harm: each with a sentence that says what happens and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import msgspec

from hedgerow.core.address import is_loopback
from hedgerow.settings.checks import socket_path, split_listen
from hedgerow.settings.load import Settings

_WIDEST = {4: 8, 6: 16}
"""The shortest prefixes of networks that can belong to one operator."""
_LONGEST = 1e9
"""Seconds, about thirty years."""
_MOST_WILDCARDS = 10
_ANYBODY_IS_A_PROXY = (
    "lets anybody claim any address, and so evade every block or have others blocked; name only the proxies in front "
    "of Hedgerow"
)
_ANYBODY_IS_THE_BOT = (
    "makes a verified bot of anybody who sends its user agent; name the networks from which the bot comes"
)
_ADMIN_IS_OPEN = (
    "can be reached from other machines, and there is no token, so they get only /health; set token, best as "
    "HEDGEROW__ADMIN__TOKEN, or listen on 127.0.0.1"
)

Danger = tuple[str, str]
"""A setting, as `table.name`, and a sentence about it."""


def dangers(settings: Settings) -> Iterator[Danger]:
    """Yield what may harm in *settings*, and then what may harm in those of single sites alone."""
    common = dict.fromkeys(_dangers(settings))
    yield from common
    for number, entry in enumerate(settings.site):
        for name, sentence in _dangers(entry.settings):
            if (name, sentence) not in common:
                yield f"site.{number}.{name}", sentence


def _dangers(settings: Settings) -> Iterator[Danger]:
    identity, admin = settings.identity, settings.admin
    for network in filter(_is_too_wide, identity.trusted_proxies):
        yield "identity.trusted_proxies", f"{network} {_ANYBODY_IS_A_PROXY}"
    for number, bot in enumerate(identity.bots):
        for network in filter(_is_too_wide, bot.networks):
            yield f"identity.bots.{number}.networks", f"{network} {_ANYBODY_IS_THE_BOT}"
    if is_admin_open(settings):
        yield "admin.listen", f"{admin.listen} {_ADMIN_IS_OPEN}"
    if settings.tls.acme and settings.tls.certificate:
        yield "tls.acme", "has no effect, because certificate names a file; remove one of them"
    for name, value in _numbers(settings, ""):
        if value > _LONGEST:
            yield name, f"is {value:g}, which is more than thirty years in seconds; write what you mean"
    yield from _unreachable_rules(settings)
    marker = settings.marker
    patterns = {f"rules.{number}": rule.path for number, rule in enumerate(marker.rules)}
    patterns |= {
        f"{name}.{number}": path for name in ("closed", "entries") for number, path in enumerate(getattr(marker, name))
    }
    patterns = {f"marker.{name}": path for name, path in patterns.items()}
    patterns |= {f"path.{number}.path": rule.path for number, rule in enumerate(settings.path)}
    for name, path in patterns.items():
        if path.count("*") > _MOST_WILDCARDS:
            yield name, f"{path[:60]!r} has {path.count('*')} `*`; one stands for any part of a path"


def _unreachable_rules(settings: Settings) -> Iterator[Danger]:
    """Yield rules for paths that an earlier rule has taken."""
    seen: dict[str, int] = {}
    for number, rule in enumerate(settings.path):
        first = seen.setdefault(rule.path.lower(), number)
        taken = "*" if "*" in seen and seen["*"] < number else rule.path if first < number else ""
        if taken:
            yield f"path.{number}.path", f"{rule.path[:60]!r} is never used: an earlier rule is for {taken[:60]!r}"


def is_admin_open(settings: Settings) -> bool:
    """Return whether other machines reach the admin listener and need no token."""
    admin = settings.admin
    if not admin.listen or admin.needs_login or socket_path(admin.listen):
        return False
    return not is_loopback(split_listen(admin.listen)[0])


def _is_too_wide(network: str) -> bool:
    parsed = ip_network(network, strict=False)
    return parsed.prefixlen < _WIDEST[parsed.version]


def _numbers(value: object, name: str) -> Iterator[tuple[str, float]]:
    """Yield every number with a fraction, in tables at any depth: all that are large are durations."""
    if isinstance(value, float):
        yield name, value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            if field == "site" and isinstance(getattr(value, field), tuple):
                # The settings of sites are checked one by one.
                continue
            yield from _numbers(getattr(value, field), f"{name}.{field}" if name else field)
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from _numbers(one, f"{name}.{number}")

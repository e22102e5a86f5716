"""Checks that several tables share. Each yields (setting, sentence) for a value that makes no sense."""

from __future__ import annotations

import math
import re

from hedgerow.core.address import check_network
from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.core.settings_table import Faults, Table

_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?", re.ASCII)
_MAX_PORT = 65535
_MIN_TOKEN_LENGTH = 16
_UNIX = "unix:"
_MAX_SOCKET_PATH = 100


def split_listen(text: str) -> tuple[str, int]:
    """
    Split `HOST:PORT`, or raise ValueError.

    >>> split_listen("127.0.0.1:8080"), split_listen("[::1]:80"), split_listen(":8080")
    (('127.0.0.1', 8080), ('::1', 80), ('', 8080))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def socket_path(listen: str) -> str:
    """
    Return the path of a Unix socket such as `unix:/run/hedgerow/admin.sock`, or "" for another address.

    >>> socket_path("unix:/run/admin.sock"), socket_path("127.0.0.1:8081")
    ('/run/admin.sock', '')
    """
    return listen.removeprefix(_UNIX) if listen.startswith(_UNIX) else ""


def check_admin_listen(text: str) -> None:
    """Raise ValueError unless *text* is HOST:PORT or a Unix socket."""
    if not text.startswith(_UNIX):
        split_listen(text)
    elif not socket_path(text).startswith("/") or len(text.encode()) > _MAX_SOCKET_PATH:
        raise ValueError(f"{text!r} is not a socket such as unix:/run/hedgerow/admin.sock (at most 100 characters)")


def admin_listen_faults(name: str, text: str) -> Faults:
    try:
        check_admin_listen(text)
    except ValueError as error:
        yield name, str(error)


def listen_faults(name: str, text: str) -> Faults:
    try:
        split_listen(text)
    except ValueError as error:
        yield name, str(error)


def upstream_faults(upstream: str) -> Faults:
    scheme, separator, rest = upstream.partition("://")
    host, _, path = rest.partition("/")
    if "@" in host:
        # The address is not repeated here: it contains a password.
        yield "upstream", "must not contain a user name or password; your site gets those of each visitor"
        return
    match = _HOST_AND_PORT.fullmatch(host)
    if scheme not in {"http", "https"} or not separator or match is None:
        yield "upstream", f"{upstream!r} is not an address such as http://127.0.0.1:8000"
    elif path:
        yield "upstream", f"{upstream!r} has a path; name only scheme, host and port"
    elif match[1] and not 0 < int(match[1]) <= _MAX_PORT:
        yield "upstream", f"{upstream!r} has no valid port"


def network_faults(name: str, networks: tuple[str, ...]) -> Faults:
    for network in networks:
        try:
            check_network(network)
        except ValueError as error:
            yield name, f"{error}; write it like 192.0.2.0/24 or 2001:db8::/32"


def postgresql_faults(url: str) -> Faults:
    if url and not url.startswith(POSTGRESQL_SCHEMES):
        # The URL is not repeated here: it may contain a password.
        yield "url", "is not an address such as postgresql://hedgerow@127.0.0.1/hedgerow"


def minimum_faults(table: Table, reason: str = "", **minimums: float) -> Faults:
    for name, minimum in minimums.items():
        value = getattr(table, name)
        if not (value >= minimum and math.isfinite(value)):
            yield name, f"must be at least {minimum}, is {value:{'g' if isinstance(value, float) else ''}}{reason}"


def token_faults(token: str) -> Faults:
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or " " in token:
        yield "token", f"must be at least {_MIN_TOKEN_LENGTH} ASCII characters without spaces"


def is_path_start(text: str) -> bool:
    """Return whether links may start with *text*. Clients resolve `.` and `..`, and some drop empty segments."""
    segments = text.split("/")
    return (
        len(text) > 1
        and text[0] == "/"
        and all(c.isascii() and (c.isalnum() or c in "._~-/") for c in text)
        and not any(segment in {"", ".", ".."} for segment in segments[1:-1])
        and segments[-1] != ".."
    )

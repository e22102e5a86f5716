"""`hedgerow init`: five questions, a password, and a settings file with comments that answers them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar, get_args

import typer
from typer import Option

from hedgerow.cli.password import user_settings
from hedgerow.errors import HedgerowError, SettingsError, UpstreamError
from hedgerow.logs.formats import readable
from hedgerow.settings import read_settings
from hedgerow.settings.checks import listen_faults, split_listen, upstream_faults

Front = Literal["none", "nginx", "apache", "haproxy", "caddy"]
T = TypeVar("T")


class _FrontServer(NamedTuple):
    """
    The configuration of a front server, in `deploy`, and the command of Hedgerow that works with it.

    *version* are the commands, of which one is there, that print the version of the front server.
    """

    file: str
    command: Literal["protect", "serve"]
    version: tuple[tuple[str, str], ...]


_FRONTS: dict[Front, _FrontServer] = {
    "nginx": _FrontServer("nginx/pages-through.conf", "protect", (("nginx", "-v"),)),
    "apache": _FrontServer("apache/hedgerow.conf", "protect", (("apache2", "-v"), ("httpd", "-v"))),
    "haproxy": _FrontServer("haproxy/haproxy.cfg", "protect", (("haproxy", "-v"),)),
    "caddy": _FrontServer("caddy/Caddyfile", "serve", (("caddy", "version"),)),
}
_UPSTREAM, _PROTECT, _SERVE = "127.0.0.1:8000", "127.0.0.1:8080", "127.0.0.1:8090"
"""The addresses in the files of `deploy`."""
_USER = "admin"
_TIMEOUT = 5.0
_MAX_BODY = 1 << 24
_PORTS = {"http": 80, "https": 443}
_ALSO = ":/usr/sbin:/usr/local/sbin"
"""Folders of servers that only root's PATH has."""
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_TEMPLATE = """\
# Settings of Hedgerow. Check changes with `hedgerow check {name}`. All settings: docs/settings.md

# true: decide and record, but enforce nothing and change no page. "links": also mark links. false: enforce.
observe = {observe}

[proxy]
# The site to protect, and the address for visitors{of_front}.
upstream = {upstream}
listen = {listen}
{serve}
[identity]
# The servers whose X-Forwarded-For is believed. Name only your own front servers: anybody else could forge addresses.
{trusted}

[responses]
# Shown to people who were refused by mistake: an e-mail address, a web address, or text.
contact = {contact}

[admin]
# Dashboard, health and metrics. Keep it on a private address. Without a user or a token only this machine gets in.
listen = "127.0.0.1:8081"
"""


def run(
    upstream: Annotated[str, Option(metavar="URL", help="The site to protect, such as http://127.0.0.1:8000.")] = "",
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Address for visitors, or for the front server.")] = "",
    front: Annotated[
        Front | None, Option(metavar="|".join(get_args(Front)), help="Server in front that terminates TLS.")
    ] = None,
    contact: Annotated[str | None, Option(help="Contact for refused people; may be empty.")] = None,
    observe: Annotated[
        bool | None, Option("--observe/--enforce", help="Observe first, or enforce from the start.")
    ] = None,
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="File to write; never overwritten.")] = Path(
        "hedgerow.toml"
    ),
) -> None:
    """
    Ask five questions, write a settings file, and show how to go on.

    It also asks for a password of the dashboard.

    What options answer is not asked. Without a terminal nothing is asked: --upstream is needed, the rest has defaults.
    """
    if output.exists():
        raise HedgerowError(f"{readable(str(output))} exists already and is not overwritten; use --output")
    upstream = upstream or _ask("The site to protect", "http://127.0.0.1:8000" if sys.stdin.isatty() else "")
    if not upstream:
        raise SettingsError(["name the site to protect: hedgerow init --upstream http://127.0.0.1:8000"])
    _refuse([f"--upstream: {sentence}" for _, sentence in upstream_faults(upstream)])
    front = front or _choice(_ask(f"The server in front of Hedgerow ({', '.join(get_args(Front))})", "nginx"))
    server = _FRONTS.get(front)
    command = server.command if server is not None else "protect"
    default = ":8080" if server is None else _SERVE if command == "serve" else _PROTECT
    listen = listen or _ask("The address that Hedgerow listens on", default)
    _refuse([f"--listen: {sentence}" for _, sentence in listen_faults("listen", listen)])
    contact = contact if contact is not None else _ask("Contact for people who are refused by mistake", "")
    observe = observe if observe is not None else _confirm("Observe first, and enforce nothing yet", default=True)
    password = _ask_password()
    text = settings_text(output.name, upstream, listen, front, contact, observe=observe)
    if password:
        text += f"\n{user_settings(_USER, password)}"
    # As a check of what is written here: a fault would be ours.
    read_settings(text, name=str(output), environment={})
    try:
        with output.open("x", encoding="utf-8") as file:
            if password:
                output.chmod(0o640)
            file.write(text)
    except OSError as error:
        raise HedgerowError(f"{readable(str(output))}: cannot be written: {error.strerror}") from None
    typer.echo(f"{readable(str(output))} is written")
    typer.echo(asyncio.run(_checked(upstream)), err=True)
    for said in (check_listen(listen), check_front(front, server) if server is not None else ""):
        if said:
            typer.echo(said, err=True)
    if server is not None:
        typer.echo(f"\n# ---- For {front}, with these addresses; replace shop.example by the name of your site ----\n")
        typer.echo(front_configuration(server, upstream, listen))
    if password:
        typer.echo(f"Log in to the dashboard at http://127.0.0.1:8081/ as {_USER}.")
    typer.echo(f"Start it with: hedgerow {command} --config {readable(str(output))}")


def settings_text(name: str, upstream: str, listen: str, front: Front, contact: str, *, observe: bool) -> str:
    """Return the settings file."""
    server = _FRONTS.get(front)
    serves = server is not None and server.command == "serve"
    trusted = f'trusted_proxies = ["127.0.0.1/32", "::1/128"]  # {front}, if it runs on this machine'
    serve = f"\n[serve]\n# {front} asks here about each request.\nlisten = {json.dumps(listen)}\n" if serves else ""
    return _TEMPLATE.format(
        name=name,
        observe="true" if observe else "false",
        of_front=f", which are here the requests of {front}" if server is not None and not serves else "",
        upstream=json.dumps(upstream),
        listen=json.dumps(_PROTECT if serves else listen),
        serve=serve,
        trusted=trusted if server is not None else "trusted_proxies = []",
        contact=json.dumps(contact, ensure_ascii=False),
    )


def front_configuration(server: _FrontServer, upstream: str, listen: str) -> str:
    """Return the configuration of the front server with the addresses of this site."""
    scheme, _, host = upstream.rstrip("/").partition("://")
    address = host if ":" in host.rpartition("]")[2] else f"{host}:{_PORTS[scheme]}"
    # A front server on this machine connects to a listener on all addresses by this one.
    own = f"127.0.0.1{listen}" if listen.startswith(":") else listen.replace("0.0.0.0:", "127.0.0.1:", 1)
    text = _deployed(server.file)
    # In one pass, because the new addresses may be among the old ones.
    parts = {_UPSTREAM: address, _PROTECT: own, _SERVE: own}
    for number, old in enumerate(parts):
        text = text.replace(old, f"\0{number}")
    for number, new in enumerate(parts.values()):
        text = text.replace(f"\0{number}", new)
    return text


def _deployed(name: str) -> str:
    """Read a file of `deploy`: from the package, or from the clone that is installed in place."""
    packaged = files("hedgerow.data").joinpath("deploy", name)
    if packaged.is_file():
        return packaged.read_text("utf-8")
    return (Path(__file__).parents[3] / "deploy" / name).read_text("utf-8")


async def _checked(upstream: str) -> str:
    """Ask the site for its start page, and return what came of it."""
    from hedgerow.web.http_client.pool import parse_origin, request_once

    origin = parse_origin(upstream)
    headers = [(b"host", origin.authority), (b"user-agent", b"hedgerow-init"), (b"accept", b"text/html")]
    try:
        response, _ = await request_once(origin, b"GET", b"/", headers, seconds=_TIMEOUT, limit=_MAX_BODY)
    except (UpstreamError, OSError, ValueError) as error:
        return f"warning: {upstream} does not answer: {readable(str(error))}; start the site, or correct the address"
    return f"{upstream} answers with status {response.status}"


def check_listen(listen: str) -> str:
    """Return a warning if Hedgerow will not be able to listen there, or ""."""
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family, dualstack_ipv6=not host).close()
    except OSError as error:
        reason = str(error.strerror).partition(" (while ")[0]
        return f"warning: Hedgerow cannot listen on {listen} now: {reason}"
    return ""


def check_front(front: Front, server: _FrontServer, ports: Sequence[int] = (80, 443)) -> str:
    """Return whether the front server is installed here, its version, and whether anything listens on its *ports*."""
    version = next(filter(None, (_version(*command) for command in server.version)), "")
    if not version:
        return (
            f"warning: {front} is not installed on this machine; if it runs on another one, name its address in "
            "trusted_proxies, and let Hedgerow listen where it can be reached"
        )
    served = [str(port) for port in ports if _is_served(port)]
    if not served:
        nowhere = " or ".join(map(str, ports))
        return f"{front} is installed ({version}), and does not run: nothing listens on port {nowhere}"
    return f"{front} is installed ({version}); port {' and '.join(served)} is in use here"


def _version(name: str, option: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + _ALSO)
    if path is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - the front server that the operator has named
            [path, option], capture_output=True, text=True, timeout=_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _VERSION.search(done.stdout + done.stderr)
    return found[0] if found else "version unknown"


def _is_served(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _ask(question: str, default: str) -> str:
    return str(_prompt(lambda: typer.prompt(question, default=default, show_default=default != ""), default)).strip()


def _ask_password() -> str:
    question = f"Password of {_USER} for the dashboard, 10 characters or more (empty: none)"
    if not sys.stdin.isatty():
        return ""
    ask = partial(typer.prompt, default="", show_default=False, hide_input=True)
    # Nobody sees what is typed, and a mistake would lock the operator out.
    while first := str(ask(question)):
        if ask("The same password again") == first:
            break
        typer.echo("These are two different passwords.")
    return first


def _confirm(question: str, *, default: bool) -> bool:
    return _prompt(lambda: typer.confirm(question, default=default), default)


def _prompt(ask: Callable[[], T], default: T) -> T:
    return ask() if sys.stdin.isatty() else default


def _choice(text: str) -> Front:
    found = next((one for one in get_args(Front) if one == text.lower()), None)
    if found is None:
        raise SettingsError([f"no front server is called {readable(text)!r}; use one of {', '.join(get_args(Front))}"])
    front: Front = found
    return front


def _refuse(faults: list[str]) -> None:
    if faults:
        raise SettingsError(faults)

"""`hedgerow client SERVER`: the ban-list client as a sidecar of another server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import signal
import socket
from pathlib import Path
from typing import Annotated

import uvicorn
import uvloop
from typer import Argument, Option

from hedgerow.cli.processes import bind, check_listen, stop_on_sigterm, url_of
from hedgerow.cli.start import exit_on_sigterm
from hedgerow.core.address import check_network
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.proxy.server import make_server
from hedgerow.services.banlist.client import Client
from hedgerow.services.banlist.list_files import FileFormat, ListFiles
from hedgerow.services.banlist.middleware import Sidecar
from hedgerow.settings import load_settings
from hedgerow.web.log_format import log_to_stderr

log = logging.getLogger("hedgerow")


def run(
    server: Annotated[str, Argument(metavar="SERVER", help="Address of a hedgerow serve, such as https://host:8090.")],
    token_file: Annotated[Path, Option(metavar="FILE", help="File with the token of this client.")],
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Address for servers on this machine.")] = "127.0.0.1:8091",
    trust: Annotated[
        list[str] | None,
        Option(metavar="NETWORK", help="Network of servers that may send requests; default 127.0.0.1/32."),
    ] = None,
    nginx: Annotated[Path | None, Option(metavar="FILE", help="Keep a file for nginx's geo module up to date.")] = None,
    map_file: Annotated[
        Path | None,
        Option("--map", metavar="FILE", help="Keep a map for HAProxy (map_ip) or Apache (RewriteMap) up to date."),
    ] = None,
    reload: Annotated[
        str, Option(metavar="COMMAND", help="Command to run after a file has changed, such as 'nginx -s reload'.")
    ] = "",
    account_cookie: Annotated[
        str, Option(metavar="NAME", help="Name of the account cookie, as in the server's settings.")
    ] = "",
    ca_file: Annotated[
        Path | None, Option(metavar="FILE", help="CA certificates for https connections to the server.")
    ] = None,
    observe: Annotated[bool, Option("--observe", help="Refuse no request, only send visits.")] = False,
) -> None:
    log_to_stderr(load_settings(None).logging)
    check_listen(listen=listen)
    trust = trust or ["127.0.0.1/32"]
    try:
        for network in trust:
            check_network(network)
    except ValueError as error:
        raise SettingsError([f"--trust: {error}"]) from None
    client = Client(
        server, read_token(token_file), trusted_proxies=trust, account_cookie=account_cookie,
        ca_file=str(ca_file or ""), observe=observe,
    )  # fmt: skip
    kinds: tuple[tuple[Path | None, FileFormat], ...] = ((nginx, "nginx"), (map_file, "map"))
    files = ListFiles(client.local, {path: kind for path, kind in kinds if path is not None}, shlex.split(reload))
    with exit_on_sigterm(), bind(listen, "--listen") as local:
        sidecar = make_server(Sidecar(client), *local.getsockname()[:2])
        try:
            files.start()
        except OSError as error:
            raise HedgerowError(f"cannot write {error.filename}: {error.strerror}") from None
        with contextlib.closing(files):
            log.info("lists from %s, listening at %s", server, url_of(local))
            uvloop.run(_serve(sidecar, local))
    log.info("%d visits sent, %d dropped", client.link.sent, client.link.dropped)


def read_token(path: Path) -> str:
    """Return the token in a file. It is not an option, because other users can read command lines."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise HedgerowError(f"cannot read the token in {path}: {getattr(error, 'strerror', error)}") from None
    if not token.isascii() or not token or " " in token:
        raise HedgerowError(f"{path} contains no token: one line without spaces, as in [[serve.clients]] of the server")
    return token


async def _serve(server: uvicorn.Server, local: socket.socket) -> None:
    def stop() -> None:
        server.should_exit = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)
    with stop_on_sigterm(stop):
        await server.serve(sockets=[local])

"""`hedgerow client SERVER`: the ban-list client as a sidecar of another server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import signal
import socket
from pathlib import Path

import uvicorn
import uvloop

from hedgerow.cli.interrupt import exit_on_sigterm
from hedgerow.cli.processes import bind, check_listen, stop_on_sigterm, url_of
from hedgerow.core.address import check_network
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.proxy.server import make_server
from hedgerow.services.banlist.client import Client
from hedgerow.services.banlist.list_files import FileFormat, ListFiles
from hedgerow.services.banlist.sidecar import Sidecar

log = logging.getLogger("hedgerow")


def run(
    server: str,
    *,
    token_file: Path,
    listen: str,
    trust: list[str],
    nginx: Path | None,
    map_file: Path | None,
    reload: str,
    account_cookie: str,
    ca_file: Path | None,
    observe: bool,
) -> None:
    """Serve until told to stop."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    check_listen(listen=listen)
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
    with contextlib.ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        door = stack.enter_context(bind(listen, "--listen"))
        sidecar = make_server(Sidecar(client), *door.getsockname()[:2])
        try:
            files.start()
        except OSError as error:
            raise HedgerowError(f"cannot write {error.filename}: {error.strerror}") from None
        stack.callback(files.close)
        log.info("asking %s, answering at %s", server, url_of(door))
        uvloop.run(_serve(sidecar, door))
    log.info("%d visits sent, %d dropped", client.link.sent, client.link.dropped)


def read_token(path: Path) -> str:
    """The token in a file; a command line is everybody's to read."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise HedgerowError(f"cannot read the token in {path}: {getattr(error, 'strerror', error)}") from None
    if not token.isascii() or not token or " " in token:
        raise HedgerowError(f"{path} holds no token: one line, without spaces, as in [[serve.clients]] of the server")
    return token


async def _serve(server: uvicorn.Server, door: socket.socket) -> None:
    def stop() -> None:
        server.should_exit = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)
    with stop_on_sigterm(stop):
        await server.serve(sockets=[door])

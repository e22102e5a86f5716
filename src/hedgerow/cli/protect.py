"""`hedgerow protect UPSTREAM`: the reverse proxy."""

from __future__ import annotations

import contextlib
import logging
import socket
from pathlib import Path

import msgspec

from hedgerow.cli.processes import bind, check_listen, run_processes, url_of
from hedgerow.errors import SettingsError
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.upstream.pool import Upstream
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.checks import upstream_faults
from hedgerow.web.asgi import Hedgerow

log = logging.getLogger("hedgerow")


def run(upstream: str, *, listen: str, config: Path | None, observe: bool, workers: int, admin: str) -> None:
    """Serve until told to stop."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

    def read() -> Settings:
        return _with_options(load_settings(config), upstream, listen, admin, observe=observe)

    settings = read()
    if not settings.proxy.upstream:
        raise SettingsError(["name the site to protect: hedgerow protect http://127.0.0.1:8000"])
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(bind(settings.proxy.listen, "--listen"))
        side = stack.enter_context(bind(settings.admin.listen, "--admin")) if settings.admin.listen else None
        run_processes(
            workers, read, door, side,
            lambda settings, site: Hedgerow(build_proxy(settings), site=site),
            lambda: _announce(settings, door, side),
        )  # fmt: skip


def _with_options(settings: Settings, upstream: str, listen: str, admin: str, *, observe: bool) -> Settings:
    """Settings with what was typed in place of what was written; faults in it are wrong use."""
    replace = msgspec.structs.replace
    if upstream:
        faults = [f"{name}: {sentence}" for name, sentence in upstream_faults(upstream)]
        if faults:
            raise SettingsError(faults)
        settings = replace(settings, proxy=replace(settings.proxy, upstream=upstream))
    check_listen(listen=listen, admin=admin)
    if listen:
        settings = replace(settings, proxy=replace(settings.proxy, listen=listen))
    if admin:
        settings = replace(settings, admin=replace(settings.admin, listen=admin))
    return replace(settings, observe=True) if observe else settings


def build_proxy(settings: Settings) -> Proxy:
    """The reverse proxy under these settings."""
    proxy = settings.proxy
    upstream = Upstream(
        proxy.upstream,
        most_connections=proxy.connections,
        connect_timeout=proxy.connect_timeout,
        head_timeout=proxy.response_timeout,
        read_timeout=proxy.idle_timeout,
        write_timeout=proxy.idle_timeout,
    )
    return Proxy(upstream, preserve_host=proxy.preserve_host, message_limit=proxy.websocket_message)


def _announce(settings: Settings, door: socket.socket, side: socket.socket | None) -> None:
    mode = ", observing only" if settings.observe else ""
    log.info("protecting %s at %s%s", settings.proxy.upstream, url_of(door), mode)
    if side is not None:
        log.info("overview, health and metrics at %s", url_of(side))

"""`hedgerow serve`: decisions for other servers, and lists for ban-list clients."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
from pathlib import Path

import msgspec
import uvloop

from hedgerow.adapters.admin import Admin
from hedgerow.adapters.server import make_server
from hedgerow.adapters.service import Service
from hedgerow.adapters.site import Site
from hedgerow.cli.protect import bind, check_listen, collect_less, limits_of, serve_on, url_of
from hedgerow.errors import SettingsError
from hedgerow.settings import Settings, load_settings

log = logging.getLogger("hedgerow")


def run(*, listen: str, config: Path | None, observe: bool, admin: str) -> None:
    """Serve until told to stop."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    check_listen(listen=listen, admin=admin)

    def read() -> Settings:
        return _with_options(load_settings(config), listen, admin, observe=observe)

    settings = read()
    if not settings.identity.trusted_proxies and not settings.serve.clients:
        raise SettingsError(
            ['name the servers that may ask, in trusted_proxies in [identity], such as ["127.0.0.1/32"]']
        )
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(bind(settings.serve.listen, "--listen"))
        side = stack.enter_context(bind(settings.admin.listen, "--admin")) if settings.admin.listen else None
        spoe = stack.enter_context(bind(settings.serve.spoe, "spoe in [serve]")) if settings.serve.spoe else None
        site = Site(settings)
        service = make_server(
            Service(site, spoe=spoe), *door.getsockname()[:2],
            limits=limits_of(settings), graceful=math.ceil(settings.proxy.shutdown_timeout),
        )  # fmt: skip
        servers = [(service, door)]
        if side is not None:
            servers.append((make_server(Admin(site), *side.getsockname()[:2], lifespan=False), side))
        # Until its handler is there, a SIGHUP would end us; it waits until then (see `serve_on`).
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        collect_less()
        log.info("deciding for other servers at %s%s", url_of(door), ", observing only" if settings.observe else "")
        if spoe is not None:
            log.info("HAProxy asks at %s", url_of(spoe).removeprefix("http://"))
        if side is not None:
            log.info("overview, health and metrics at %s", url_of(side))
        try:
            uvloop.run(serve_on(servers, site, read))
        finally:
            site.close()


def _with_options(settings: Settings, listen: str, admin: str, *, observe: bool) -> Settings:
    replace = msgspec.structs.replace
    if listen:
        settings = replace(settings, serve=replace(settings.serve, listen=listen))
    if admin:
        settings = replace(settings, admin=replace(settings.admin, listen=admin))
    return replace(settings, observe=True) if observe else settings

"""`hedgerow protect UPSTREAM`: the reverse proxy."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
import typer

from hedgerow.cli.interrupt import exit_on_sigterm
from hedgerow.cli.options import AdminListener, Config, Observe, WorkerCount, log_to_stderr
from hedgerow.cli.processes import bind, run_processes, url_of, with_options
from hedgerow.errors import SettingsError
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.upstream.pool import Upstream
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.checks import upstream_faults
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow

log = logging.getLogger("hedgerow")


def run(
    upstream: Annotated[
        str, typer.Argument(metavar="UPSTREAM", help="The site to protect, such as http://127.0.0.1:8000.")
    ] = "",
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for visitors.")] = "",
    config: Config = None,
    observe: Observe = False,
    workers: WorkerCount = 1,
    admin: AdminListener = "",
) -> None:
    """Run as a reverse proxy in front of a web site."""
    log_to_stderr()

    def read() -> Settings:
        settings = load_settings(config)
        if upstream:
            if faults := [f"{name}: {sentence}" for name, sentence in upstream_faults(upstream)]:
                raise SettingsError(faults)
            proxy = msgspec.structs.replace(settings.proxy, upstream=upstream)
            settings = msgspec.structs.replace(settings, proxy=proxy)
        return with_options(settings, "proxy", listen=listen, admin=admin, observe=observe)

    settings = read()
    if not settings.proxy.upstream:
        raise SettingsError(["name the site to protect: hedgerow protect http://127.0.0.1:8000"])
    with exit_on_sigterm(), bind(settings.proxy.listen, "--listen") as public:

        def announce() -> None:
            mode = ", observing only" if settings.observe else ""
            log.info("protecting %s at %s%s", settings.proxy.upstream, url_of(public), mode)

        def application(settings: Settings, site: Site) -> Hedgerow:
            return Hedgerow(build_proxy(settings), site=site)

        run_processes(workers, read, public, application, announce)


def build_proxy(settings: Settings) -> Proxy:
    """Return the reverse proxy for these settings."""
    proxy = settings.proxy
    upstream = Upstream(
        proxy.upstream,
        max_connections=proxy.connections,
        connect_timeout=proxy.connect_timeout,
        head_timeout=proxy.response_timeout,
        read_timeout=proxy.idle_timeout,
        write_timeout=proxy.idle_timeout,
    )
    return Proxy(upstream, preserve_host=proxy.preserve_host, message_limit=proxy.websocket_message)

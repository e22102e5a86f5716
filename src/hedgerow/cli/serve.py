"""`hedgerow serve`: decisions for other servers, and lists for ban-list clients."""

from __future__ import annotations

import contextlib
import logging
from typing import Annotated

import typer

from hedgerow.cli.interrupt import exit_on_sigterm
from hedgerow.cli.options import AdminListener, Config, Observe, WorkerCount, log_to_stderr
from hedgerow.cli.processes import bind, run_processes, url_of, with_options
from hedgerow.errors import SettingsError
from hedgerow.services.decision_service import DecisionService
from hedgerow.settings import Settings, load_settings

log = logging.getLogger("hedgerow")


def run(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for other servers.")] = "",
    config: Config = None,
    observe: Observe = False,
    workers: WorkerCount = 1,
    admin: AdminListener = "",
) -> None:
    """Decide for other servers (forward-auth), and keep ban-list clients up to date."""
    log_to_stderr()

    def read() -> Settings:
        return with_options(load_settings(config), "serve", listen=listen, admin=admin, observe=observe)

    settings = read()
    if not settings.identity.trusted_proxies and not settings.serve.clients:
        raise SettingsError(
            ['name the servers that may send requests, as trusted_proxies in [identity], such as ["127.0.0.1/32"]']
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        public = stack.enter_context(bind(settings.serve.listen, "--listen"))
        spoe = stack.enter_context(bind(settings.serve.spoe, "spoe in [serve]")) if settings.serve.spoe else None

        def announce() -> None:
            mode = ", observing only" if settings.observe else ""
            log.info("deciding for other servers at %s%s", url_of(public), mode)
            if spoe is not None:
                log.info("HAProxy connects to %s", url_of(spoe).removeprefix("http://"))

        run_processes(workers, read, public, lambda _, site: DecisionService(site, spoe=spoe), announce)

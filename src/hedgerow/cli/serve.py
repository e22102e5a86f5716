"""`hedgerow serve`: decisions for other servers, and lists for ban-list clients."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import msgspec

from hedgerow.cli.interrupt import exit_on_sigterm
from hedgerow.cli.processes import bind, check_listen, run_processes, url_of
from hedgerow.errors import SettingsError
from hedgerow.services.decision_service import DecisionService
from hedgerow.settings import Settings, load_settings

log = logging.getLogger("hedgerow")


def run(*, listen: str, config: Path | None, observe: bool, workers: int, admin: str) -> None:
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
        stack.enter_context(exit_on_sigterm())
        door = stack.enter_context(bind(settings.serve.listen, "--listen"))
        side = stack.enter_context(bind(settings.admin.listen, "--admin")) if settings.admin.listen else None
        spoe = stack.enter_context(bind(settings.serve.spoe, "spoe in [serve]")) if settings.serve.spoe else None

        def announce() -> None:
            log.info("deciding for other servers at %s%s", url_of(door), ", observing only" if settings.observe else "")
            if spoe is not None:
                log.info("HAProxy asks at %s", url_of(spoe).removeprefix("http://"))
            if side is not None:
                log.info("overview, health and metrics at %s", url_of(side))

        run_processes(workers, read, door, side, lambda _, site: DecisionService(site, spoe=spoe), announce)


def _with_options(settings: Settings, listen: str, admin: str, *, observe: bool) -> Settings:
    replace = msgspec.structs.replace
    if listen:
        settings = replace(settings, serve=replace(settings.serve, listen=listen))
    if admin:
        settings = replace(settings, admin=replace(settings.admin, listen=admin))
    return replace(settings, observe=True) if observe else settings

"""`hedgerow protect` and `hedgerow serve`: the reverse proxy, and the decision service for other servers."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Annotated

import msgspec
from typer import Argument, Option

from hedgerow.cli.main import AdminListener, Config, Observe, StrictStart, WorkerCount
from hedgerow.cli.processes import (
    bind,
    check_dangers,
    for_other_servers,
    observing,
    run_processes,
    url_of,
    with_options,
)
from hedgerow.cli.start import exit_on_sigterm
from hedgerow.errors import SettingsError
from hedgerow.proxy.acme import prepare
from hedgerow.proxy.own_address import OwnAddresses
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.tls import Certificate
from hedgerow.services.decision_service import DecisionService, asked_host
from hedgerow.services.forward_auth import ForwardAuth
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.checks import upstream_faults
from hedgerow.settings.operation_tables import TlsSettings
from hedgerow.settings.sites import with_every_site
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.http_client.pool import Upstream
from hedgerow.web.log_format import log_to_stderr
from hedgerow.web.sites import Sites, refuse_host

log = logging.getLogger("hedgerow")


def protect(
    upstream: Annotated[
        str, Argument(metavar="UPSTREAM", help="The site to protect, such as http://127.0.0.1:8000.")
    ] = "",
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Address for visitors.")] = "",
    config: Config = None,
    observe: Observe = "",
    workers: WorkerCount = 1,
    admin: AdminListener = "",
    tls: Annotated[
        tuple[str, str] | None,
        Option(
            metavar="CERT KEY", help="Serve https with this certificate and key; new files are used without a restart."
        ),
    ] = None,
    acme: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Obtain and renew a certificate for this host name; may be repeated."),
    ] = None,
    strict_start: StrictStart = False,
) -> None:
    def read() -> Settings:
        settings = load_settings(config)
        if tls is not None or acme:
            settings = msgspec.structs.replace(settings, tls=_tls_with_options(settings.tls, tls, acme))
        if upstream:
            if faults := [f"{name}: {sentence}" for name, sentence in upstream_faults(upstream)]:
                raise SettingsError(faults)
            # Also that of each site that names none.
            settings = with_every_site(settings, lambda one: _with_upstream(one, upstream, before=settings))
        log_to_stderr(settings.logging)
        return with_options(settings, "proxy", listen=listen, admin=admin, observe=observe)

    def checked() -> Settings:
        settings = read()
        check_upstreams(settings)
        return settings

    settings = checked()
    check_dangers(settings, strict=strict_start)
    certificate = _certificate(settings)
    with exit_on_sigterm(), bind(settings.proxy.listen, "--listen") as public:

        def announce() -> None:
            mode = observing(settings)
            scheme = "http" if certificate is None else "https"
            protected = settings.proxy.upstream or "the sites below"
            log.info("protecting %s at %s%s", protected, url_of(public, scheme), mode)
            for entry in settings.site:
                own = observing(entry.settings)
                hosts = ", ".join(entry.hosts)
                log.info("site %s (%s): protecting %s%s", entry.name, hosts, entry.settings.proxy.upstream, own)

        def application(settings: Settings, site: Site, _: Sites) -> Hedgerow:
            return Hedgerow(build_proxy(settings) if settings.proxy.upstream else refuse_host, site=site)

        run_processes(workers, checked, public, application, announce, config=config, certificate=certificate)


def check_upstreams(settings: Settings) -> None:
    """Raise SettingsError unless every site has an upstream. There may be no site but those of `[[site]]`."""
    if not settings.proxy.upstream and not (settings.site and settings.unknown_hosts == "refuse"):
        more = ', or set unknown_hosts = "refuse" to serve only the hosts of [[site]]' if settings.site else ""
        raise SettingsError([f"name the site to protect: hedgerow protect http://127.0.0.1:8000{more}"])
    if faults := [
        f'site.{number}: the site {entry.name} needs an upstream, such as upstream = "http://127.0.0.1:8000"'
        for number, entry in enumerate(settings.site)
        if not entry.settings.proxy.upstream
    ]:
        raise SettingsError(faults)


def _with_upstream(settings: Settings, upstream: str, *, before: Settings) -> Settings:
    """Return settings with the upstream of the command line, unless a site has another than the file's common one."""
    if settings.proxy.upstream != before.proxy.upstream:
        return settings
    return msgspec.structs.replace(settings, proxy=msgspec.structs.replace(settings.proxy, upstream=upstream))


def _tls_with_options(tls: TlsSettings, files: tuple[str, str] | None, names: list[str] | None) -> TlsSettings:
    if files is not None:
        tls = msgspec.structs.replace(tls, certificate=files[0], key=files[1])
    if names:
        tls = msgspec.structs.replace(tls, acme=tuple(names))
    if faults := [f"tls.{name}: {sentence}" for name, sentence in tls.faults()]:
        raise SettingsError(faults)
    return tls


def _certificate(settings: Settings) -> Certificate | None:
    """Return the certificate for visitors, with those of single sites, if there are any."""
    tls = settings.tls
    own = [(entry, entry.settings.tls) for entry in settings.site if entry.settings.tls.certificate]
    if tls.is_obtained:
        path = str(prepare(settings))
        certificate = Certificate(path, path, minimum=tls.minimum)
    elif tls.certificate or own:
        first = tls if tls.certificate else own[0][1]
        certificate = _load_certificate(first, tls)
    else:
        return None
    others = {host: one for entry, table in own for one in [_load_certificate(table, tls)] for host in entry.hosts}
    certificate.add(others)
    return certificate


def _load_certificate(files: TlsSettings, common: TlsSettings) -> Certificate:
    """Return the certificate in *files*, and log that it expires soon."""
    certificate = Certificate(files.certificate, files.key, minimum=common.minimum)
    if warning := certificate.facts.warning(time.time()):
        log.warning("the certificate %s %s", files.certificate, warning)
    return certificate


def build_proxy(settings: Settings) -> Proxy:
    """Return the reverse proxy for these settings."""
    proxy = settings.proxy
    upstream = Upstream(
        proxy.upstream, max_connections=proxy.connections, connect_timeout=proxy.connect_timeout,
        head_timeout=proxy.response_timeout, read_timeout=proxy.idle_timeout, write_timeout=proxy.idle_timeout,
    )  # fmt: skip
    return Proxy(
        upstream, preserve_host=proxy.preserve_host, message_limit=proxy.websocket_message,
        own_addresses=OwnAddresses(upstream.origin, proxy.own_addresses) if proxy.rewrite_addresses else None,
    )  # fmt: skip


def serve(
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Address for other servers.")] = "",
    config: Config = None,
    observe: Observe = "",
    workers: WorkerCount = 1,
    admin: AdminListener = "",
    strict_start: StrictStart = False,
) -> None:
    def read() -> Settings:
        settings = with_options(load_settings(config), "serve", listen=listen, admin=admin, observe=observe)
        log_to_stderr(settings.logging)
        # No page passes through here that could have the script for a clearance.
        return with_every_site(settings, lambda one: one.without_clearances())

    settings = read()
    if not settings.identity.trusted_proxies and not settings.serve.clients:
        raise SettingsError(
            ['name the servers that may send requests, as trusted_proxies in [identity], such as ["127.0.0.1/32"]']
        )
    check_dangers(settings, strict=strict_start)
    with contextlib.ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        public = stack.enter_context(bind(settings.serve.listen, "--listen"))
        spoe = stack.enter_context(bind(settings.serve.spoe, "spoe in [serve]")) if settings.serve.spoe else None

        def announce() -> None:
            mode = observing(settings)
            log.info("deciding for other servers at %s%s", url_of(public), mode)
            if spoe is not None:
                log.info("HAProxy connects to %s", url_of(spoe).removeprefix("http://"))

        def application(_: Settings, site: Site, sites: Sites) -> DecisionService | ForwardAuth:
            return ForwardAuth(site=site) if site.name else DecisionService(site, spoe=spoe, sites=sites)

        run_processes(
            workers, lambda: with_every_site(read(), for_other_servers), public, application, announce, config=config,
            host_of=asked_host,
        )  # fmt: skip

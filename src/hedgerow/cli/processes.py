"""Listeners, processes, signals and reloading, for `hedgerow protect` and `hedgerow serve`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import uvicorn
import uvloop

from hedgerow.corrupt_files import reporting_only
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.proxy.acme import AcmeThread, Answers
from hedgerow.proxy.redirect import Redirect
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits
from hedgerow.proxy.tls import Certificate
from hedgerow.proxy.workers import Workers
from hedgerow.settings import Settings
from hedgerow.settings.checks import check_admin_listen, socket_path, split_listen
from hedgerow.settings.dangers import dangers
from hedgerow.settings.load import START_SETTINGS, START_TABLES
from hedgerow.settings.sites import DEFAULT, with_every_site
from hedgerow.unused_memory import release_unused_memory
from hedgerow.watch.relay import socket_pair
from hedgerow.web.admin.listener import bind_socket_file
from hedgerow.web.admin.sites import AdminOfSites
from hedgerow.web.app import Site, StoreFactory
from hedgerow.web.run_file import write_run_file
from hedgerow.web.sites import HostOf, MakeApplication, Sites, host_of, settings_of_sites
from hedgerow.web.stores import prepare_shared, side_stores, worker_stores

log = logging.getLogger("hedgerow")

_BACKLOG = 2048
_PUBLISH_EVERY = 1.0
# Seconds after a reload: by then requests that use what it has replaced have ended.
_RELEASE_AFTER = 30.0
_LEAST_ENTRIES = 30
_OTHER_FILES = 200

ReadSettings = Callable[[], Settings]


@dataclass(frozen=True)
class _Listeners:
    """The sockets of one process: for visitors, for the operator, and for plain http beside https."""

    public: socket.socket | None = None
    admin: socket.socket | None = None
    redirect: socket.socket | None = None
    https_port: int = 0
    certificate: Certificate | None = None


def with_options(
    settings: Settings, table: Literal["proxy", "serve"], *, listen: str, admin: str, observe: str
) -> Settings:
    """Return *settings* with the options of the command line; *listen* belongs to *table*."""
    check_listen(listen=listen, admin=admin)
    replace = msgspec.structs.replace
    if listen:
        settings = replace(settings, **{table: replace(getattr(settings, table), listen=listen)})
    if admin:
        settings = replace(settings, admin=replace(settings.admin, listen=admin))
    if not observe:
        return settings
    mode: Literal["links", True] = "links" if observe == "links" else True
    return with_every_site(settings, lambda one: replace(one, observe=mode))


def check_dangers(settings: Settings, *, strict: bool) -> None:
    """Log settings that may harm. If *strict*, raise SettingsError instead."""
    found = [f"{name}: {sentence}" for name, sentence in dangers(settings)]
    if strict and found:
        raise SettingsError(found)
    for sentence in found:
        log.warning("%s", sentence)


def observing(settings: Settings) -> str:
    """Return what the log says at the start if nothing is enforced."""
    if not settings.observe:
        return ""
    return ", observing only" if settings.is_neutral else ", observing only, with marked links"


def run_processes(
    workers: int,
    read: ReadSettings,
    public: socket.socket,
    application: MakeApplication,
    announce: Callable[[], None],
    *,
    config: Path | None = None,
    certificate: Certificate | None = None,
    host_of: HostOf = host_of,
) -> None:
    """
    Serve visitors at *public*, and the operator at the admin listener of the settings, until a signal comes.

    *config* is the file of the settings, which commands find in the run file. With a *certificate*, visitors are served
    with TLS. *host_of* returns the host that a visitor asked for, if there are several sites.
    """
    # A SIGHUP without a handler would end the process; it waits until there is one (see `serve_on` and `Workers`).
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    settings = read()
    with contextlib.ExitStack() as stack:
        stack.enter_context(reporting_only(only=False))
        admin = stack.enter_context(bind(settings.admin.listen, "--admin")) if settings.admin.listen else None
        plain = settings.tls.plain_listen if certificate is not None else ""
        redirect = stack.enter_context(bind(plain, "redirect in [tls]")) if plain else None
        listeners = _Listeners(public, admin, redirect, public.getsockname()[1], certificate)

        def announce_all() -> None:
            announce()
            if admin is not None:
                log.info("dashboard, health and metrics at %s", url_of(admin))
            if redirect is not None:
                log.info("redirecting %s to https", url_of(redirect))

        run_file = write_run_file(settings, config)
        if run_file is not None:
            stack.callback(run_file.close)
        else:
            log.warning("no run file can be written, so commands need --directory or --config: see docs/deploy.md")
        if workers == 1:
            _run_sites(read, listeners, application, None, announce_all, config=config, host_of=host_of)
            return
        sockets = {}
        for name, own in ({DEFAULT: settings} | settings_of_sites(settings)).items():
            prepare_shared(own)
            sockets[name] = socket_pair()

        def stores_of_background(name: str) -> StoreFactory:
            return lambda settings, _: side_stores(settings, sockets[name][1])

        def stores_of_worker(name: str) -> StoreFactory:
            return lambda settings, ledger: worker_stores(settings, sockets[name][0], ledger)

        def run_background() -> None:
            _run_sites(
                read, replace(listeners, public=None), application, stores_of_background, config=config, host_of=host_of
            )

        def run_worker() -> None:
            _run_sites(
                lambda: with_every_site(read(), lambda one: per_worker(one, workers)),
                replace(listeners, admin=None, redirect=None), application, stores_of_worker, host_of=host_of,
            )  # fmt: skip

        announce_all()
        log.info("%d workers and a background process", workers)
        # All processes get the same signal to stop. Visits that workers still send wait in the socket.
        names = [f"worker {number}" for number in range(1, workers + 1)]
        Workers([("background process", run_background), *((name, run_worker) for name in names)]).run()


def per_worker(settings: Settings, workers: int) -> Settings:
    """Return the settings of one of several workers: each counts a part of the entries to the site."""
    rotating = settings.rotating
    entries = min(rotating.entries, max(_LEAST_ENTRIES, rotating.entries // workers))
    return msgspec.structs.replace(settings, rotating=msgspec.structs.replace(rotating, entries=entries))


def for_other_servers(settings: Settings) -> Settings:
    """Return the settings for deciding on requests whose pages other servers send: their links have no marks."""
    return msgspec.structs.replace(settings, rotating=msgspec.structs.replace(settings.rotating, entries=0))


def _run_sites(
    read: ReadSettings,
    listeners: _Listeners,
    application: MakeApplication,
    stores_of: Callable[[str], StoreFactory] | None,
    announce: Callable[[], None] = lambda: None,
    *,
    config: Path | None = None,
    host_of: HostOf = host_of,
) -> None:
    """Serve in this process until a signal comes. *stores_of* returns what builds the stores of a site with a name."""
    settings = read()
    public, admin, redirect = listeners.public, listeners.admin, listeners.redirect

    def make_site(settings: Settings, name: str, default: Site | None) -> Site:
        factory = stores_of(name or DEFAULT) if stores_of is not None else None
        site = Site(settings, stores=factory, name=name, common_lists=default.lists if default is not None else None)
        site.config = config
        # The background process of several workers serves no visitors: its parent tells all of them.
        site.request_reload = partial(os.kill, os.getpid() if public is not None else os.getppid(), signal.SIGHUP)
        return site

    site = make_site(settings, "", None)
    with contextlib.ExitStack() as stack:
        stack.callback(site.close)
        sites = Sites(
            settings, site, make_application=application, make_site=make_site, host_of=host_of,
            fixed=stores_of is not None,
        )  # fmt: skip
        stack.callback(sites.close)
        servers: list[tuple[uvicorn.Server, socket.socket]] = []
        if public is not None:
            server = make_server(
                sites, *public.getsockname()[:2],
                limits=_limits_of(settings), grace_period=math.ceil(settings.proxy.shutdown_timeout),
                trusts=lambda peer: site.app.gate.identifier.trusts(peer),  # noqa: PLW0108 - a reload replaces it
                refused=site.counters.refused_connections, certificate=listeners.certificate,
            )  # fmt: skip
            servers.append((server, public))
        if admin is not None:
            servers.append((make_server(AdminOfSites(sites), "127.0.0.1", 0, lifespan=False), admin))
        answers = Answers()
        if redirect is not None:
            plain = make_server(Redirect(listeners.https_port, answers), *redirect.getsockname()[:2], lifespan=False)
            servers.append((plain, redirect))
        reduce_garbage_collection()
        announce()
        if redirect is not None and settings.tls.is_obtained:
            stack.callback(_start_acme(settings, answers, site).close)
        uvloop.run(serve_on(servers, sites, read))


def _start_acme(settings: Settings, answers: Answers, site: Site) -> AcmeThread:
    def report(problem: str) -> None:
        site.certificate_problem = problem

    thread = AcmeThread(settings, answers, report)
    thread.start()
    return thread


def reduce_garbage_collection() -> None:
    """
    Collect garbage less often: pages create no reference cycles, and collections took a tenth of the time.

    The oldest generation must have its turn nevertheless. Websockets are cycles, and live until they belong to it.
    """
    gc.freeze()
    gc.set_threshold(20_000, 5, 5)


def check_listen(**options: str) -> None:
    """Raise SettingsError if a listen option is invalid."""
    for option, text in options.items():
        if text:
            try:
                check_admin_listen(text) if option == "admin" else split_listen(text)
            except ValueError as error:
                raise SettingsError([f"--{option}: {error}"]) from None


@contextlib.contextmanager
def bind(listen: str, option: str) -> Iterator[socket.socket]:
    """Bind a listening socket before anything else is started, so that a port in use is one line, not a traceback."""
    with contextlib.ExitStack() as stack:
        try:
            bound = stack.enter_context(_bound(listen))
        except OSError as error:
            # Remove Python's addition, which repeats the address.
            reason = str(error.strerror).partition(" (while ")[0]
            raise HedgerowError(f"cannot listen on {listen}: {reason}; choose another with {option}") from None
        yield bound


def _bound(listen: str) -> contextlib.AbstractContextManager[socket.socket]:
    if path := socket_path(listen):
        return bind_socket_file(path)
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    return socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=family == socket.AF_INET6 and not host
    )


def most_connections(settings: Settings) -> int:
    """
    Return how many connections of clients there can be, after allowing this process all files that it may open.

    A process without a free file accepts nobody, so some are reserved for the upstream, stores and lookups.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    proxy = settings.proxy
    wanted = proxy.client_connections + proxy.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # More than wanted would only hide a leak.
        higher = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        # A sandbox may forbid it.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (higher, hard))
            soft = higher
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return proxy.client_connections
    # Half of the files, where even the upstream could take all of them.
    possible = max(soft - proxy.connections - _OTHER_FILES, soft // 2)
    log.warning("%d connections of clients at most: this process may open only %d files (ulimit -n)", possible, soft)
    return possible


def _limits_of(settings: Settings) -> ServerLimits:
    proxy = settings.proxy
    return ServerLimits(
        connections=most_connections(settings), connections_per_address=proxy.connections_per_address,
        request_line=proxy.longest_url, header_bytes=proxy.header_bytes, header_count=proxy.headers,
        head_timeout=proxy.head_timeout, body_timeout=proxy.idle_timeout, message=proxy.websocket_message,
    )  # fmt: skip


def url_of(bound: socket.socket, scheme: str = "http") -> str:
    if bound.family == socket.AF_UNIX:
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


async def serve_on(servers: Sequence[tuple[uvicorn.Server, socket.socket]], sites: Sites, read: ReadSettings) -> None:
    """Run each of *servers* on its socket until one of them ends or a signal comes."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    tasks = [asyncio.ensure_future(server.serve(sockets=[bound])) for server, bound in servers]

    def stop(*, at_once: bool = False) -> None:
        sites.closing()
        stopped.set()
        for each, _ in servers:
            each.force_exit = at_once and each.should_exit
            each.should_exit = True

    # A second Ctrl-C does not wait for downloads.
    loop.add_signal_handler(signal.SIGINT, lambda: stop(at_once=True))
    # Handled even without a settings file: a SIGHUP must not end the process.
    loop.add_signal_handler(signal.SIGHUP, _reload, sites, read)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    with stop_on_sigterm(stop):
        publishing = asyncio.ensure_future(_publish_metrics(sites))
        waiting = asyncio.ensure_future(stopped.wait())
        # The background process has no server if there is no admin listener.
        await asyncio.wait([*tasks[:1], waiting], return_when=asyncio.FIRST_COMPLETED)
        stop()
        await asyncio.gather(*tasks, waiting)
        publishing.cancel()
        await asyncio.wait([publishing])


@contextlib.contextmanager
def stop_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """
    Call *stop* in the running event loop on SIGTERM; ignore SIGTERM after that.

    The loop's own `add_signal_handler` is not used, because a loop that closes restores the default action. A second
    SIGTERM would then end the process before its last visits are written.
    """
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(stop))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


async def _publish_metrics(sites: Sites) -> None:
    """Publish the metrics of this process to the background process, if there are several."""
    while sites.default.stores.worker_metrics is not None and not sites.default.closed:
        for site in sites:
            site.publish_metrics()
        await asyncio.sleep(_PUBLISH_EVERY)


def _reload(sites: Sites, read: ReadSettings) -> None:
    """Read the settings again. Settings with faults change nothing."""
    try:
        settings = read()
    except SettingsError as error:
        for fault in error.faults:
            log.error("not reloaded: %s", fault)  # noqa: TRY400 - a fault of the operator
        return
    befores = {name: site.app.settings for name, site in sites.all().items()}
    try:
        sites.reload(settings)
    except SettingsError as error:
        for fault in error.faults:
            log.error("not reloaded: %s", fault)  # noqa: TRY400 - likewise
        return
    except HedgerowError as error:
        log.error("not reloaded: %s", error)  # noqa: TRY400 - likewise
        return
    afters = {name: site.app.settings for name, site in sites.all().items()}
    delayed = [
        name if site == DEFAULT else f"{name} of the site {site}"
        for site, before in befores.items()
        if site in afters
        for name in _changed_at_start(before, afters[site])
    ]
    log.info("reloaded the settings")
    asyncio.get_running_loop().call_later(_RELEASE_AFTER, release_unused_memory)
    if delayed:
        log.warning("changes in %s take effect at the next start", ", ".join(delayed))


def _changed_at_start(old: Settings, new: Settings) -> list[str]:
    """Return the tables and settings that are read at start only, and that differ."""
    changed = [name for name in START_TABLES if getattr(new, name) != getattr(old, name)]
    for table, names in START_SETTINGS.items():
        before, after = getattr(old, table), getattr(new, table)
        changed += [f"{table}.{name}" for name in names if getattr(after, name) != getattr(before, name)]
    return changed

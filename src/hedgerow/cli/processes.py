"""What `hedgerow protect` and `hedgerow serve` have in common: listeners, processes, signals, reloading."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
import uvloop

from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits
from hedgerow.proxy.workers import Workers
from hedgerow.settings import Settings
from hedgerow.settings.checks import split_listen
from hedgerow.watch.relay import pair
from hedgerow.web.admin.app import Admin
from hedgerow.web.app import Site
from hedgerow.web.stores import SiteStores, prepare_shared, side_stores, worker_stores

log = logging.getLogger("hedgerow")

_BACKLOG = 2048
_TELL_EVERY = 1.0
_AT_START_ONLY = ("directory", "proxy", "state", "lists", "ledger", "admin", "serve")
_OF_THE_WATCH = ("enabled", "queue", "sessions")

Application = Callable[[Settings, Site], Any]
"""Makes what answers at the door."""


def run_processes(
    workers: int,
    read: Callable[[], Settings],
    door: socket.socket,
    side: socket.socket | None,
    application: Application,
    announce: Callable[[], None],
) -> None:
    """Serve until told to stop: visitors at *door*, the operator at *side*; *announce* says so before it begins."""
    if workers == 1:
        # Until its handler is there, a SIGHUP would end us; it waits until then (see `serve_on`).
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        _run_site(read, door, side, application, lambda _: None, announce)
        return
    settings = read()
    prepare_shared(settings)
    sending, listening = pair()

    def beside() -> None:
        _run_site(read, None, side, application, lambda settings: side_stores(settings, listening))

    def serve() -> None:
        _run_site(read, door, None, application, lambda settings: worker_stores(settings, sending))

    announce()
    log.info("%d workers, and a process beside them", workers)
    # Who comes last is stopped by the same signal as the rest: what workers still have to tell waits in the socket.
    Workers([("process beside the workers", beside), *((f"worker {n}", serve) for n in range(1, workers + 1))]).run()


def _run_site(
    read: Callable[[], Settings],
    door: socket.socket | None,
    side: socket.socket | None,
    application: Application,
    stores: Callable[[Settings], SiteStores | None],
    announce: Callable[[], None] = lambda: None,
) -> None:
    """Serve in this process until told to stop."""
    settings = read()
    site = Site(settings, stores=stores(settings))
    servers: list[tuple[uvicorn.Server, socket.socket]] = []
    if door is not None:
        server = make_server(
            application(settings, site), *door.getsockname()[:2],
            limits=_limits_of(settings), graceful=math.ceil(settings.proxy.shutdown_timeout),
        )  # fmt: skip
        servers.append((server, door))
    if side is not None:
        servers.append((make_server(Admin(site), *side.getsockname()[:2], lifespan=False), side))
    collect_less()
    announce()
    try:
        uvloop.run(serve_on(servers, site, read))
    finally:
        site.close()


def collect_less() -> None:
    """
    Have Python look for cycles less often.

    A page makes hundreds of objects without a cycle: looking for one after every 700 took a tenth of the time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def check_listen(**options: str) -> None:
    """Stop where an option that names a listener is wrong."""
    for option, text in options.items():
        if text:
            try:
                split_listen(text)
            except ValueError as error:
                raise SettingsError([f"--{option}: {error}"]) from None


@contextlib.contextmanager
def bind(listen: str, option: str) -> Iterator[socket.socket]:
    """A listening socket, bound before anything else is started: a port in use is one line, not a traceback."""
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    try:
        bound = socket.create_server(
            (host, port),
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=family == socket.AF_INET6 and not host,
        )
    except OSError as error:
        # Without what Python adds to it, which names the address a second time.
        reason = str(error.strerror).partition(" (while ")[0]
        raise HedgerowError(f"cannot listen on {listen}: {reason}; choose another with {option}") from None
    with bound:
        yield bound


def _limits_of(settings: Settings) -> ServerLimits:
    proxy = settings.proxy
    return ServerLimits(
        request_line=proxy.longest_url,
        header_bytes=proxy.header_bytes,
        header_count=proxy.headers,
        head_timeout=proxy.head_timeout,
        body_timeout=proxy.idle_timeout,
        message=proxy.websocket_message,
    )


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def serve_on(
    servers: Sequence[tuple[uvicorn.Server, socket.socket]], site: Site, read: Callable[[], Settings]
) -> None:
    """Run *servers*, each on its socket, until one of them ends or a signal comes."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    tasks = [asyncio.ensure_future(server.serve(sockets=[bound])) for server, bound in servers]

    def stop(*, at_once: bool = False) -> None:
        site.closing = True
        told.set()
        for each, _ in servers:
            each.force_exit = at_once and each.should_exit
            each.should_exit = True

    loop.add_signal_handler(signal.SIGTERM, stop)
    # Somebody who presses Ctrl-C a second time does not want to wait for downloads.
    loop.add_signal_handler(signal.SIGINT, lambda: stop(at_once=True))
    # Without a settings file, too: nobody who sends a SIGHUP means to end us.
    loop.add_signal_handler(signal.SIGHUP, _reload, site, read)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    telling = asyncio.ensure_future(_tell(site))
    waiting = asyncio.ensure_future(told.wait())
    # The process beside workers has no server where the operator wants none.
    await asyncio.wait([*tasks[:1], waiting], return_when=asyncio.FIRST_COMPLETED)
    stop()
    await asyncio.gather(*tasks, waiting)
    telling.cancel()
    await asyncio.wait([telling])


async def _tell(site: Site) -> None:
    """Where there are several processes, let the one beside the workers know what this one has counted."""
    while site.stores.worker_metrics is not None and not site.closed:
        site.publish_metrics()
        await asyncio.sleep(_TELL_EVERY)


def _reload(site: Site, read: Callable[[], Settings]) -> None:
    """Take the settings file as it is now; one with faults changes nothing."""
    try:
        settings = read()
    except SettingsError as error:
        for fault in error.faults:
            log.error("not reloaded: %s", fault)  # noqa: TRY400 - the fault is the operator's, not ours
        return
    before = site.app.settings
    late = [name for name in _AT_START_ONLY if getattr(settings, name) != getattr(before, name)]
    late += [f"watch.{name}" for name in _OF_THE_WATCH if getattr(settings.watch, name) != getattr(before.watch, name)]
    try:
        site.reload(settings)
    except HedgerowError as error:
        log.error("not reloaded: %s", error)  # noqa: TRY400 - likewise
        return
    log.info("reloaded the settings")
    if late:
        log.warning("what changed in %s takes effect at the next start", ", ".join(late))

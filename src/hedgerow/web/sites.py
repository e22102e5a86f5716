"""
Several sites in one process: which one a request is for, and how they start, reload and end.

Each `[[site]]` is a `Site` of its own, with its own stores in its own directory. Nothing is shared but the common
lists, and blocks where the settings say so. `Sites` is an ASGI application in front of the applications of all sites:
it chooses by `Host` before anything is decided.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from hedgerow.core.decision import Block
from hedgerow.errors import SettingsError
from hedgerow.settings import Settings
from hedgerow.settings.load import SiteEntry
from hedgerow.settings.sites import DEFAULT
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope, Send
from hedgerow.web.paths import site_directory

log = logging.getLogger("hedgerow")

T = TypeVar("T")

MakeApplication = Callable[[Settings, Site, "Sites"], Any]
"""Makes the ASGI application of a site, one of all sites."""
MakeSite = Callable[[Settings, str, Site], Site]
"""Makes the site with a name, beside the one at the top level of the settings."""
HostOf = Callable[[Scope], bytes | None]
"""Returns the host that a visitor asked for, or None for a request that is for no site in particular."""

BY_NAME = b"\0"
"""With this in front, the name of a site stands for a host. No header can contain it."""
_MAX_HOST = 255
_REFUSAL = b"This host is not served here.\n"
_REFUSAL_HEADERS = [
    (b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_REFUSAL)),
    (b"cache-control", b"no-store"),
]  # fmt: skip


def settings_of_sites(settings: Settings) -> dict[str, Settings]:
    """Return the complete settings of each site, with the directory of its own data."""
    return {
        entry.name: msgspec.structs.replace(entry.settings, directory=str(site_directory(settings, entry.name)))
        for entry in settings.site
    }


def settings_of_site(settings: Settings, name: str) -> Settings:
    """Return the settings of the site *name*; "" and "default" mean the one at the top level of the file."""
    if name in {"", DEFAULT}:
        return settings
    found = settings_of_sites(settings)
    if name not in found:
        names = ", ".join([DEFAULT, *found])
        raise SettingsError([f"there is no site {name!r}; there are {names}"])
    return found[name]


def host_of(scope: Scope) -> bytes:
    """Return the Host header: the last one, as the proxy sends it on."""
    host = b""
    for name, value in scope["headers"]:
        if name == b"host":
            host = value
    return host


class HostTable(Generic[T]):
    """
    What belongs to which host. An exact name comes before a wildcard, and a long wildcard before a short one.

    `*.example.org` is every name below example.org, at any depth, and not example.org itself.

    >>> table = HostTable({"a.example": "A", "*.a.example": "B", "*.x.a.example": "C"}, "other")
    >>> [table.find(host) for host in (b"A.example:80", b"b.a.example", b"1.x.a.example.", b"example", b"")]
    ['A', 'B', 'C', 'other', 'other']
    """

    def __init__(self, hosts: Mapping[str, T], other: T) -> None:
        self._exact = {host.lower().encode(): one for host, one in hosts.items() if not host.startswith("*.")}
        self._below = {host[1:].lower().encode(): one for host, one in hosts.items() if host.startswith("*.")}
        self._other = other

    def find(self, host: bytes) -> T:
        found = self._exact.get(host)
        if found is not None or len(host) > _MAX_HOST:
            return self._other if found is None else found
        name = host.lower()
        if not name.endswith(b"]"):
            start, colon, port = name.rpartition(b":")
            name = start if colon and port.isdigit() else name
        name = name.removesuffix(b".")
        if (found := self._exact.get(name)) is not None:
            return found
        while self._below and (dot := name.find(b".", 1)) > 0:
            name = name[dot:]
            if (found := self._below.get(name)) is not None:
                return found
        return self._other


@dataclass(eq=False)
class RunningSite:
    """A site and its application. *active* are the requests and websockets that it serves now."""

    entry: SiteEntry
    site: Site
    app: AsgiApp
    active: int = 0
    _messages: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    _lifespan: asyncio.Task[None] | None = None
    _idle: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.active += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.active -= 1
            if not self.active and self._idle is not None:
                self._idle.set()

    def start(self) -> None:
        """Tell the application that it starts. It runs until `stop`."""
        self._messages.put_nowait({"type": "lifespan.startup"})
        self._lifespan = asyncio.ensure_future(self.app({"type": "lifespan"}, self._messages.get, _ignore))

    async def stop(self, patience: float) -> None:
        """Wait for its requests, but not longer than *patience* seconds, and close it with its site."""
        # Detained clients leave at once.
        self.site.closing = True
        if self.active:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), patience)
        if self._lifespan is not None:
            self._messages.put_nowait({"type": "lifespan.shutdown"})
            await self._lifespan
        await asyncio.to_thread(self.site.close)


async def _ignore(_message: Message) -> None:
    pass


class AllSites(Protocol):
    """What the admin listener sees of the sites of a process."""

    @property
    def unknown_hosts(self) -> int:
        """Requests that were refused because no site has their host."""

    def all(self) -> dict[str, Site]: ...


@dataclass(frozen=True)
class FixedSites:
    """The sites of a middleware, by name, which stay the same."""

    sites: Mapping[str, Site]
    unknown_hosts: int = 0

    def all(self) -> dict[str, Site]:
        return dict(self.sites)


class Sites:
    """
    All sites of a process. *default* is the one at the top level of the settings.

    Without any `[[site]]` it passes everything on to the application of *default*. With *fixed*, sites cannot be added
    or removed by a reload.
    """

    def __init__(
        self,
        settings: Settings,
        default: Site,
        *,
        make_application: MakeApplication,
        make_site: MakeSite | None = None,
        host_of: HostOf = host_of,
        fixed: bool = False,
    ) -> None:
        self.default = default
        self.settings = settings
        self.unknown_hosts = 0
        """Requests that were refused because no site has their host."""
        self._make_application = make_application
        self._make_site = make_site or new_site
        self._host_of = host_of
        self._fixed = fixed
        self._default_app: AsgiApp = make_application(settings, default, self)
        self._stopping: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.running: dict[str, RunningSite] = {}
        self._table: HostTable[AsgiApp] | None = None
        with contextlib.ExitStack() as opened:
            opened.callback(self.close)
            self.running = {entry.name: self._open(settings, entry) for entry in settings.site}
            opened.pop_all()
        self._use(settings)

    def all(self) -> dict[str, Site]:
        """Return all sites by name, first the one at the top level of the settings, as "default"."""
        return {DEFAULT: self.default} | {name: one.site for name, one in self.running.items()}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._start(scope, receive, send)
        if self._table is None:
            return self._default_app(scope, receive, send)
        host = self._host_of(scope)
        return (self._default_app if host is None else self._table.find(host))(scope, receive, send)

    def app_for(self, host: bytes) -> AsgiApp:
        """Return the application that answers requests for *host*."""
        found = self._default_app if self._table is None else self._table.find(host)
        return found.app if isinstance(found, RunningSite) else found

    # ---- Start and end

    def _open(self, settings: Settings, entry: SiteEntry) -> RunningSite:
        own = settings_of_site(settings, entry.name)
        site = self._make_site(own, entry.name, self.default)
        try:
            return RunningSite(entry, site, self._make_application(own, site, self))
        except BaseException:
            site.close()
            raise

    async def _start(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start the applications of all sites, and end them with the server."""
        self._loop = asyncio.get_running_loop()
        for one in self.running.values():
            one.start()

        async def received() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                # The server has waited for the requests of all sites.
                await asyncio.gather(*self._stopping, *(one.stop(0) for one in self.running.values()))
            return message

        await self._default_app(scope, received, send)

    def close(self) -> None:
        """Close the sites that are still open, but not the one at the top level of the settings."""
        for one in self.running.values():
            one.site.close()

    def closing(self) -> None:
        """Let go of detained clients: the process is about to end."""
        for site in self.all().values():
            site.closing = True

    async def disconnect(self) -> None:
        """Close what belongs to the running event loop."""
        for site in self.all().values():
            await site.disconnect()

    # ---- Reload

    def reload(self, settings: Settings) -> None:
        """Apply other settings to all sites, add new ones and remove others: everything, or after an error nothing."""
        added = [entry for entry in settings.site if entry.name not in self.running]
        kept = [entry for entry in settings.site if entry.name in self.running]
        removed = self.running.keys() - {entry.name for entry in settings.site}
        if self._fixed and (added or removed):
            names = ", ".join(sorted({entry.name for entry in added} | removed))
            raise SettingsError([f"sites are added and removed only at a start if there are several workers: {names}"])
        with contextlib.ExitStack() as undo:
            changes = [self.default.prepare(settings)]
            undo.callback(changes[0].discard)
            for entry in kept:
                change = self.running[entry.name].site.prepare(settings_of_site(settings, entry.name))
                changes.append(change)
                undo.callback(change.discard)
            opened: dict[str, RunningSite] = {}
            for entry in added:
                opened[entry.name] = self._open(settings, entry)
                undo.callback(opened[entry.name].site.close)
            undo.pop_all()
        # Nothing can fail from here on.
        for change in changes:
            change.apply()
        for entry in kept:
            self.running[entry.name].entry = entry
        gone = [self.running[name] for name in removed]
        everything = self.running | opened
        self.running = {entry.name: everything[entry.name] for entry in settings.site}
        self._use(settings)
        self._begin_and_end(opened.values(), gone, settings.proxy.shutdown_timeout)

    def _begin_and_end(self, opened: Any, gone: list[RunningSite], patience: float) -> None:
        if self._loop is None:
            return
        for one in opened:
            log.info("added the site %s (%s)", one.entry.name, ", ".join(one.entry.hosts))
            one.start()
        for one in gone:
            log.info("removed the site %s", one.entry.name)
            task = asyncio.ensure_future(one.stop(patience))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    def _use(self, settings: Settings) -> None:
        """Send requests to the sites of these settings."""
        self.settings = settings
        hosts: dict[str, AsgiApp] = {}
        for one in self.running.values():
            hosts |= dict.fromkeys((*one.entry.hosts, BY_NAME.decode() + one.entry.name), one)
        share_blocks([(one.entry, one.site) for one in self.running.values()])
        other = self._refuse if settings.unknown_hosts == "refuse" else self._default_app
        self._table = HostTable(hosts, other) if hosts else None

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a host that no site has."""
        self.unknown_hosts += 1
        await refuse_host(scope, receive, send)

    def __iter__(self) -> Iterator[Site]:
        return iter(self.all().values())


def share_blocks(sites: Sequence[tuple[SiteEntry, Site]]) -> None:
    """Let the sites whose settings say so block each other's crawlers."""
    sharing = [site for entry, site in sites if entry.share_blocks]
    for _, site in sites:
        others = [other for other in sharing if other is not site] if site in sharing else []
        site.on_block = partial(_block_at, others) if others else None
        site.app.gate.on_block = site.on_block


def _block_at(sites: Sequence[Site], block: Block) -> None:
    for site in sites:
        site.stores.state.commit(block)


async def refuse_host(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for a host that no site has: 421, Misdirected Request."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 421, "headers": _REFUSAL_HEADERS})
        await send({"type": "http.response.body", "body": _REFUSAL})
        return
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
        return
    await receive()
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send({"type": "websocket.http.response.start", "status": 421, "headers": _REFUSAL_HEADERS})
        await send({"type": "websocket.http.response.body", "body": _REFUSAL})
    else:
        await send({"type": "websocket.close", "code": 1008})


def new_site(settings: Settings, name: str, default: Site) -> Site:
    """Open the site *name* with stores for one process."""
    return Site(
        settings, tokens=default.tokens, account_of=default.account_of, name=name, common_lists=default.lists,
    )  # fmt: skip

"""
The forms of Hedgerow, each as a real server in front of the same small site, for the same requests.

A form is asked over HTTP from any address of this machine's loopback; what it decided is read from its ledger. Time
stands still for all of them until a script moves it, and all have the same key: a link that is minted once opens in
each.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import socketserver
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import msgspec

from driving import KEY, START, Clock, Entries, settings
from hedgerow.lists.model import Listing, Lists
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.proxy.proxy import Proxy
from hedgerow.proxy.server import make_server
from hedgerow.services.banlist.client import Client
from hedgerow.services.banlist.middleware import AsgiClient
from hedgerow.services.decision_service import DecisionService
from hedgerow.settings import Settings
from hedgerow.web import asgi, wsgi
from hedgerow.web.app import Site
from hedgerow.web.http_client.pool import Upstream
from hedgerow.web.stores import build_state

from .servers import PATIENCE, Running, answers, free_port, wait_for

HOST = "shop.example"
SEALS = [Key(1, KEY, 0.0)]
TOKEN = "token-of-the-shop"
BASE = """
[identity]
trusted_proxies = ["127.0.0.1/32"]
account_cookie = "sid"
{identity}
[challenge]
store = "memory"
difficulty = 50
hardest = 100
[bots]
dns = false
[[serve.clients]]
name = "shop"
token = "token-of-the-shop"
"""
DEPLOY = Path(__file__).parents[2] / "deploy"


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def send(
    port: int, target: str, *, address: str, method: str = "GET", headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"", host: str = HOST,
) -> Got:  # fmt: skip
    """One request from *address*, its headers in this order."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=(address, 0))
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in (("Host", host), *headers):
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        with connection.getresponse() as answer:
            return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def page(target: str) -> tuple[int, str, bytes]:
    """What the site answers."""
    path = target.partition("?")[0]
    if path.endswith(".css"):
        return 200, "text/css", b"a { color: green }"
    if path.startswith("/api/"):
        return 200, "application/json", b"{}"
    links = "".join(f'<a href="/item/{n}">{n}</a> ' for n in range(5))
    return 200, "text/html; charset=utf-8", f"<!DOCTYPE html><html><body>{path} {links}</body></html>".encode()


def wsgi_site(environ: Any, start_response: Any) -> list[bytes]:
    status, kind, body = page(environ["PATH_INFO"])
    start_response(f"{status} OK", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


async def asgi_site(scope: Any, receive: Any, send_: Any) -> None:
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send_({"type": f"lifespan.{step}.complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send_({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send_({"type": "websocket.send", "text": message["text"]})
        return
    status, kind, body = page(scope["path"])
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send_({"type": "http.response.start", "status": status, "headers": headers})
    await send_({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class _Threaded(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class WsgiServer:
    """A threaded WSGI server; `app` may be changed between requests."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._server = _Threaded(("127.0.0.1", 0), _Quiet)
        self._server.set_app(self._current)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def _current(self, environ: Any, start_response: Any) -> Any:
        return self.app(environ, start_response)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class AsgiServer:
    """uvicorn in a thread; `app` may be changed between requests."""

    def __init__(self, app: Any) -> None:
        self.app = app

        async def current(scope: Any, receive: Any, send_: Any) -> None:
            await self.app(scope, receive, send_)

        self._server = make_server(current, "127.0.0.1", 0, grace_period=1, lifespan=False)
        self._thread = threading.Thread(target=asyncio.run, args=(self._server.serve(),))
        self._thread.start()
        wait_for("uvicorn", lambda: self._server.started or not self._thread.is_alive())
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Once, or again."""
        self._server.should_exit = True
        self._thread.join()


class Form:
    """One form under way. `use` begins anew under other settings; `entries` is its ledger."""

    name = ""
    rewrites = True
    """Whether its pages have marks and traps, and its answers are seen."""

    def __init__(self) -> None:
        self.clock = Clock(START)
        self.entries = Entries()
        self.site: Site | None = None
        self.port = 0

    def use(self, text: str, lists: Iterable[Listing], *, observe: bool, identity: str = "") -> None:
        self.rest()
        self.clock.now = START
        self.entries = Entries()
        said = settings(("observe = true\n" if observe else "") + BASE.format(identity=identity) + text)
        # Where no page passes through, none can have the script for a clearance.
        self.site = self.make_site(said if self.rewrites else said.without_clearances(), lists)
        self.begin(self.site)

    def make_site(self, said: Settings, lists: Iterable[Listing]) -> Site:
        return Site(said, tokens=TokenCodecs(SEALS), state=build_state(said), ledger=self.entries, lists=Lists(lists))

    def begin(self, site: Site) -> None:
        raise NotImplementedError

    def ask(self, target: str, **options: Any) -> Got:
        """Ask, and wait until that is written down: some forms do so when the answer is out."""
        known = len(self.entries)
        got = send(self.port, target, **options)
        wait_for("the visit in the ledger", lambda: len(self.entries) > known)
        return got

    def rest(self) -> None:
        if self.site is not None:
            self.site.close()
            self.site = None

    def stop(self) -> None:
        self.rest()


class ProxyForm(Form):
    name = "proxy"

    def __init__(self, site_port: int) -> None:
        super().__init__()
        self._upstream = f"http://127.0.0.1:{site_port}"
        self._server = AsgiServer(asgi_site)
        self.port = self._server.port

    def begin(self, site: Site) -> None:
        self._server.app = asgi.Hedgerow(Proxy(Upstream(self._upstream)), site=site, clock=self.clock)

    def stop(self) -> None:
        super().stop()
        self._server.stop()


class AsgiForm(Form):
    name = "asgi"

    def __init__(self) -> None:
        super().__init__()
        self._server = AsgiServer(asgi_site)
        self.port = self._server.port

    def begin(self, site: Site) -> None:
        self._server.app = asgi.Hedgerow(asgi_site, site=site, clock=self.clock)

    def stop(self) -> None:
        super().stop()
        self._server.stop()


class WsgiForm(Form):
    name = "wsgi"

    def __init__(self) -> None:
        super().__init__()
        self._server = WsgiServer(wsgi_site)
        self.port = self._server.port
        self._app: wsgi.Hedgerow | None = None

    def begin(self, site: Site) -> None:
        self._server.app = self._app = wsgi.Hedgerow(wsgi_site, site=site, clock=self.clock)

    def rest(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = self.site = None

    def stop(self) -> None:
        super().stop()
        self._server.stop()


class ForwardAuthForm(Form):
    """Behind real nginx, by the configuration in `deploy/`."""

    name = "forward-auth"
    rewrites = False

    def __init__(self, program: str, folder: Path, site_port: int) -> None:
        super().__init__()
        self._server = AsgiServer(asgi_site)
        self.nginx = DeployedNginx(program, folder, "forward-auth.conf", {8090: self._server.port, 8000: site_port})
        self.port = self.nginx.port

    def begin(self, site: Site) -> None:
        self._server.app = DecisionService(site, self.clock)

    def stop(self) -> None:
        super().stop()
        self.nginx.stop()
        self._server.stop()


class ClientForm(Form):
    """The ban-list client in an ASGI application; its ledger is that of the server."""

    name = "client"
    rewrites = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._desk = AsgiServer(asgi_site)
        self._server = AsgiServer(asgi_site)
        self.port = self._server.port
        self.client: Client | None = None

    def make_site(self, said: Settings, lists: Iterable[Listing]) -> Site:
        """With lists in a file: the client gets them from there."""
        for old in self._folder.glob("lists.sqlite*"):
            old.unlink()
        said = msgspec.structs.replace(said, directory=str(self._folder))
        site = Site(said, tokens=TokenCodecs(SEALS), state=build_state(said), ledger=self.entries)
        assert site.follower is not None
        site.follower.store.put(lists)
        site.follower.refresh()
        return site

    def begin(self, site: Site) -> None:
        service = DecisionService(site, self.clock)
        service.banlist.open()
        self._service = service
        self._desk.app = service
        self.client = Client(
            f"http://127.0.0.1:{self._desk.port}", TOKEN, trusted_proxies=["127.0.0.1/32"], account_cookie="sid",
            clock=self.clock, observe=site.app.settings.observe,
        )  # fmt: skip
        self.client.start()
        assert self.client.link.ready.wait(PATIENCE)
        self._server.app = AsgiClient(asgi_site, self.client)

    def ask(self, target: str, **options: Any) -> Got:
        """Ask, and wait until the server has decided and the client knows."""
        assert self.client is not None
        assert self.site is not None
        got = super().ask(target, **options)
        blocked = {block.key for block in self.site.blocks(self.clock())}
        wait_for("the client's blocks", lambda: {b.key for b in self.client.local.everything()[1]} == blocked)
        return got

    def rest(self) -> None:
        if self.client is not None:
            self.site.closing = True
            self.client.close()
            self._service.banlist.close()
            self.client = None
        super().rest()

    def stop(self) -> None:
        super().stop()
        self._server.stop()
        self._desk.stop()


class DeployedNginx:
    """nginx with a file of `deploy/nginx/`, its ports changed to those that are free here."""

    def __init__(self, program: str, folder: Path, name: str, ports: dict[int, int], paths: Any = None) -> None:
        self.port = free_port()
        self.log = folder / "error.log"
        text = (DEPLOY / "nginx" / name).read_text()
        for written, meant in ports.items():
            assert f":{written}" in text
            text = text.replace(f":{written}", f":{meant}")
        for written, meant in (paths or {}).items():
            assert written in text
            text = text.replace(written, str(meant))
        # There they are short, so that the site stays open where nobody answers; here somebody does, if slowly.
        text = re.sub(r"_timeout \d+s;", f"_timeout {PATIENCE:.0f}s;", text)
        assert "listen 80;" in text
        text = text.replace("listen 80;", f"listen 127.0.0.1:{self.port};")
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.config = folder / "nginx.conf"
        self.config.write_text(
            f"user root;\ndaemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log {self.log} warn;\n"
            f"events {{ worker_connections 256; }}\nhttp {{\naccess_log off;\n{temporary}{text}\n}}\n"
        )
        self.command = [program, "-p", str(folder), "-c", "nginx.conf", "-e", str(self.log)]
        self.running = Running(self.command, self.log, cwd=folder)
        wait_for("nginx", lambda: answers(self.port) or not self.running.alive)
        assert self.running.alive, self.running.said()

    def stop(self) -> None:
        self.running.stop()


def mint(kind: Any, address: str, target: str = "", parent: str = "/") -> str:
    """A marked link, or a trap, as a page of the site would have it for the visitor at *address*."""
    seal = TokenCodecs(SEALS).of(HOST)
    return "/~" + seal.seal(kind, visitor_digest(address), page_digest(parent), target.encode()).decode()


def visitor_cookie(*addresses: str) -> str:
    """The cookie in which a browser carries the visitors that it was."""
    seal = TokenCodecs(SEALS).of(HOST)
    digests = [visitor_digest(address) for address in addresses]
    return "hedgerow=" + seal.seal("visitor", digests[-1], bytes(len(digests[-1])), b"".join(digests)).decode()

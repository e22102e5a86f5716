"""Websockets through Hedgerow: a real server, a client and a browser."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser
from websockets import Subprotocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import Server, ServerConnection, serve

from driving import traps_in

from . import browsing
from .servers import PATIENCE, Protect

PROTOCOLS = [Subprotocol("talk.v1")]
PAGE = """<!DOCTYPE html><html><head><title>Talk</title><link rel="icon" href="data:,"></head><body>
<a href="/">Here</a>
<script>
window.talk = () => new Promise((resolve, reject) => {
  const said = [], socket = new WebSocket("ws://" + location.host + "/echo?a=%20b", ["talk.v2", "talk.v1"]);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { said.push("open " + socket.protocol); socket.send("hello, \\u00fcber"); };
  socket.onmessage = event => {
    if (typeof event.data === "string") { said.push(event.data); socket.send(new Uint8Array(70000).fill(7)); }
    else { said.push(new Uint8Array(event.data).every(b => b === 7) + " " + event.data.byteLength);
           socket.send("close me"); }
  };
  socket.onerror = () => said.push("error");
  socket.onclose = event => { said.push(event.code + " " + event.reason); resolve(said); };
});
</script></body></html>"""


class Talk:
    """A websocket server that echoes, and has a page."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.closed: list[tuple[int | None, str | None]] = []
        self.server: Server = serve(
            self._echo, "127.0.0.1", 0, process_request=self._page, subprotocols=PROTOCOLS, max_size=None
        )
        self.port = self.server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def _page(self, connection: ServerConnection, request: Any) -> Any:
        if "upgrade" not in {word.strip().lower() for word in request.headers.get("Connection", "").split(",")}:
            answer = connection.respond(HTTPStatus.OK, PAGE)
            del answer.headers["Content-Type"]
            answer.headers["Content-Type"] = "text/html; charset=utf-8"
            return answer
        if request.path == "/private":
            return connection.respond(HTTPStatus.UNAUTHORIZED, "log in\n")
        self.asked.append((request.path, request.headers.get("X-Forwarded-For")))
        return None

    def _echo(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for message in connection:
                if message == "close me":
                    connection.close(4001, "as you wish")
                    break
                connection.send(message)
        self.closed.append((connection.close_code, connection.close_reason))

    def stop(self) -> None:
        self.server.shutdown()
        self._thread.join(10)


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    server = Talk()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def gate(talk: Talk, protect: Callable[..., Protect]) -> Protect:
    return protect(f"http://127.0.0.1:{talk.port}")


def test_of_a_browser(browser: Browser, talk: Talk, gate: Protect) -> None:
    with browsing.tab(browser) as page:
        watch = browsing.Watch(page.context, gate.url)
        page.goto(gate.url + "/")
        assert browsing.baits(page), "it is a page like any other"
        assert page.evaluate("window.talk()") == [
            "open talk.v1",
            "hello, über",
            "true 70000",
            "4001 as you wish",
        ]
        assert watch.complaints == []
    assert talk.asked[-1] == ("/echo?a=%20b", "127.0.0.1")


def test_of_a_client(talk: Talk, gate: Protect, address: Callable[[], str]) -> None:
    who = address()
    url = gate.url.replace("http:", "ws:") + "/echo"
    with connect(url, source_address=(who, 0), subprotocols=PROTOCOLS, max_size=None, proxy=None) as socket:
        big = "x" * 3_000_000
        socket.send(big)
        assert socket.recv() == big
        assert socket.ping().wait(PATIENCE)
        socket.send(["in ", "pieces"])
        assert socket.recv() == "in pieces"
        socket.close(4321, "enough")
    assert talk.asked[-1] == ("/echo", who)
    with pytest.raises(InvalidStatus) as refused:
        connect(gate.url.replace("http:", "ws:") + "/private", source_address=(who, 0), proxy=None)
    assert refused.value.response.status_code == 401
    assert refused.value.response.body == b"log in\n"


def test_of_somebody_blocked_is_refused(talk: Talk, gate: Protect, address: Callable[[], str]) -> None:
    who = address()
    transport = httpx.HTTPTransport(local_address=who, trust_env=False)
    with httpx.Client(transport=transport, base_url=gate.url, timeout=PATIENCE, trust_env=False) as client:
        trap = traps_in(client.get("/", headers={"accept": "text/html"}).content)[0]
        assert client.get(trap).status_code == 403
    asked = len(talk.asked)
    with pytest.raises(InvalidStatus) as refused:
        connect(gate.url.replace("http:", "ws:") + "/echo", source_address=(who, 0), proxy=None)
    assert refused.value.response.status_code == 403
    assert refused.value.response.headers["hedgerow-decision"].startswith("refuse; code=trap")
    assert len(talk.asked) == asked

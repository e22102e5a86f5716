"""A `hedgerow serve` in this process, on a real port, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from driving import Entries, settings
from hedgerow.proxy.server import make_server
from hedgerow.services.banlist.client import Client
from hedgerow.services.decision_service import DecisionService
from hedgerow.web.app import Site

TOKEN = "token-of-the-shop"
PATIENCE = 120.0


def wait_for(what: str, there: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)


class Served:
    """A service under way; `stop` and `start` again on the same port."""

    def __init__(self, folder: Any, text: str = "") -> None:
        said = f"directory = '{folder}'\n{text}\n[[serve.clients]]\nname = 'shop'\ntoken = '{TOKEN}'\n"
        self.settings = settings(said).without_clearances()
        self.port = 0
        self.running = False
        self.start()

    def start(self) -> None:
        self.entries = Entries()
        self.site = Site(self.settings, ledger=self.entries)
        self.server = make_server(DecisionService(self.site), "127.0.0.1", self.port, grace_period=1)
        self._thread = threading.Thread(target=asyncio.run, args=(self.server.serve(),))
        self._thread.start()
        wait_for("the service", lambda: self.server.started or not self._thread.is_alive())
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.running = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def store(self) -> Any:
        return self.site.follower.store

    def stop(self) -> None:
        if self.running:
            self.running = False
            kept = list(self.entries)
            self.site.closing = True
            self.server.should_exit = True
            self._thread.join()
            self.kept = kept


@contextlib.contextmanager
def served(folder: Any, text: str = "") -> Iterator[Served]:
    service = Served(folder, text)
    try:
        yield service
    finally:
        service.stop()


@contextlib.contextmanager
def following(service: Served, *, token: str = TOKEN, **options: Any) -> Iterator[Client]:
    """A client whose lists have come."""
    client = Client(service.url, token, **options)
    client.start()
    try:
        if token == TOKEN:
            assert client.link.ready.wait(PATIENCE)
        yield client
    finally:
        client.close()


__all__ = ["PATIENCE", "TOKEN", "Served", "following", "served", "wait_for"]

"""
The connection of a client to its server: one thread follows the lists, another sends visits.

A request only appends its visit to a queue. While the server is unavailable, the queue keeps the newest visits; older
ones are dropped and counted. The lists stay unchanged, and continue from their version when the server is back.

Uses `http.client`, not `hedgerow.web.http_client`: a client runs within somebody else's application, in threads
without an event loop, and needs no more than two blocking connections.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import random
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import msgspec

from hedgerow.errors import DECODE_ERRORS, HedgerowError
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import (
    HEARTBEAT,
    LISTS_PATH,
    MOST_VISITS,
    VISITS_PATH,
    ListMessage,
    VisitMessage,
)

log = logging.getLogger(__name__)

_OK, _UNAUTHORIZED = 200, 401
_REJECTED = frozenset({400, 413})
_BATCH_INTERVAL = 0.2
_MIN_RETRY, _MAX_RETRY = 0.2, 5.0
_TIMEOUT = 3 * HEARTBEAT
_ERRORS = (OSError, http.client.HTTPException, UnicodeError, *DECODE_ERRORS)


class ServerLink:
    """A connection to the server at *address* with a *token*. At most *queue* visits wait."""

    def __init__(self, address: str, token: str, local: LocalLists, *, queue: int = 10_000, ca_file: str = "") -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
            raise HedgerowError(f"{address!r} is not the address of a server, such as https://hedgerow.example:8090")
        self._server = parts
        self._tls = ssl.create_default_context(cafile=ca_file or None) if parts.scheme == "https" else None
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._local = local
        self._waiting: deque[VisitMessage] = deque()
        self._most = queue
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._following: http.client.HTTPConnection | None = None
        self._failing: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.ready = threading.Event()
        """Set once the lists have arrived for the first time."""
        self.dropped = 0
        """The number of visits that were not sent because the server was unavailable or rejected them."""
        self.sent = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Start the threads, once, in the process that handles requests."""
        with self._lock:
            if not self._threads and not self._stop.is_set():
                for run, name in ((self._follow, "hedgerow-client-lists"), (self._send, "hedgerow-client-visits")):
                    self._threads.append(threading.Thread(target=run, name=name, daemon=True))
                    self._threads[-1].start()

    def add(self, visit: VisitMessage) -> None:
        """Queue a visit. Never waits."""
        self._waiting.append(visit)
        if len(self._waiting) > self._most:
            self._drop(1)
        if not self._wake.is_set():
            self._wake.set()

    def _drop(self, count: int) -> None:
        with self._lock:
            while count > 0 and self._waiting:
                self._waiting.popleft()
                self.dropped += 1
                count -= 1

    def close(self) -> None:
        """Send the waiting visits if the server accepts them, and disconnect."""
        self._stop.set()
        self._wake.set()
        following = self._following
        if following is not None and following.sock is not None:
            # Its thread waits for data, which ends now.
            with contextlib.suppress(OSError):
                following.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._server.hostname or "", self._server.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT)

    def _wait(self, seconds: float) -> float:
        """Wait before the next try, not as long as other clients, and return how long to wait after it."""
        self._stop.wait(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        return min(2 * seconds, _MAX_RETRY)

    def _follow(self) -> None:
        wait = _MIN_RETRY
        while not self._stop.is_set():
            try:
                for lines in self._batches():
                    self._local.take(lines)
                    self.ready.set()
                    self._log_state("lists", None)
                    wait = _MIN_RETRY
            except _ERRORS as error:
                self._log_state("lists", error)
            wait = self._wait(wait)

    def _batches(self) -> Iterator[list[ListMessage]]:
        """Yield the messages from one version to the next."""
        connection = self._following = self._connect()
        try:
            connection.request("GET", f"{LISTS_PATH}?since={quote(self._local.version)}", headers=self._headers)
            with connection.getresponse() as response:
                if response.status != _OK:
                    raise http.client.HTTPException(_error_text(response))
                batch: list[ListMessage] = []
                for text in response:
                    line = msgspec.json.decode(text, type=ListMessage)
                    batch.append(line)
                    if line.at:
                        yield batch
                        batch = []
        finally:
            self._following = None
            connection.close()

    def _send(self) -> None:
        connection: http.client.HTTPConnection | None = None
        wait = _MIN_RETRY
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                with self._lock:
                    batch = [self._waiting.popleft() for _ in range(min(MOST_VISITS, len(self._waiting)))]
                try:
                    connection = connection or self._connect()
                    self._post(connection, batch)
                    wait = _MIN_RETRY
                except _ERRORS as error:
                    self._log_state("visits", error)
                    if connection is not None:
                        connection.close()
                    connection = None
                    with self._lock:
                        self._waiting.extendleft(reversed(batch))
                    self._drop(len(self._waiting) - self._most)
                    if self._stop.is_set():
                        break
                    wait = self._wait(wait)
            if self._stop.is_set():
                break
            # Send several visits together.
            self._stop.wait(_BATCH_INTERVAL)
        if connection is not None:
            connection.close()
        self._drop(len(self._waiting))

    def _post(self, connection: http.client.HTTPConnection, batch: list[VisitMessage]) -> None:
        """Send a batch. If the server rejects it, it is dropped."""
        connection.request("POST", VISITS_PATH, msgspec.json.encode(batch), self._headers)
        with connection.getresponse() as response:
            error = _error_text(response)
        if response.status in _REJECTED:
            log.error("the server rejected %d visits: %s", len(batch), error)
            with self._lock:
                self.dropped += len(batch)
        elif response.status != _OK:
            raise http.client.HTTPException(error)
        else:
            self.sent += len(batch)
            self._log_state("visits", None)

    def _log_state(self, what: str, error: Exception | None) -> None:
        """Log the first error after a success, and the first success after an error."""
        if error is None and what in self._failing:
            self._failing.discard(what)
            log.info("the server %s is back for %s", self._server.netloc, what)
        elif error is not None and what not in self._failing and not self._stop.is_set():
            self._failing.add(what)
            log.warning("cannot reach the server %s for %s: %s", self._server.netloc, what, error)


def _error_text(response: http.client.HTTPResponse) -> str:
    text = response.read().decode("latin-1")
    if response.status == _UNAUTHORIZED:
        return "it does not know this token; see [[serve.clients]] in its settings"
    return f"{response.status} {text.strip()[:200]!a}"

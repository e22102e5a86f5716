"""
The client's line to its server: two threads, one that follows the lists and one that sends visits.

A request only leaves its visit in a queue. While the server is away the queue keeps the newest visits; the oldest are
dropped and counted. Lists stay as they are meanwhile, and go on from their version when the server is back.
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

from hedgerow.errors import HedgerowError
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

_OK = 200
_UNKNOWN = 401
_BAD = frozenset({400, 413})
_PAUSE = 0.2
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
_PATIENCE = 3 * HEARTBEAT
_FAULTS = (OSError, http.client.HTTPException, msgspec.MsgspecError, UnicodeError)


class ServerLink:
    """To the server at *address*, with a *token*; at most *queue* visits wait."""

    def __init__(self, address: str, token: str, local: LocalLists, *, queue: int = 10_000, ca_file: str = "") -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
            raise HedgerowError(f"{address!r} is not the address of a server, such as https://hedgerow.example:8090")
        self._where = parts
        self._tls = ssl.create_default_context(cafile=ca_file or None) if parts.scheme == "https" else None
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._local = local
        self._waiting: deque[VisitMessage] = deque()
        self._most = queue
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._following: http.client.HTTPConnection | None = None
        self._complaints: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.ready = threading.Event()
        """Set once the lists have come for the first time."""
        self.dropped = 0
        """Visits that were not sent because the server was away, or would not have them."""
        self.sent = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Open the line, once; in the process that answers requests."""
        with self._lock:
            if not self._threads and not self._stop.is_set():
                self._threads = [
                    threading.Thread(target=self._follow, name="hedgerow-client-lists", daemon=True),
                    threading.Thread(target=self._send, name="hedgerow-client-visits", daemon=True),
                ]
                for thread in self._threads:
                    thread.start()

    def add(self, seen: VisitMessage) -> None:
        """Leave a visit to be sent. Never waits."""
        self._waiting.append(seen)
        if len(self._waiting) > self._most:
            self._drop(1)
        if not self._wake.is_set():
            self._wake.set()

    def _drop(self, count: int) -> None:
        with self._lock:
            while count and self._waiting:
                self._waiting.popleft()
                self.dropped += 1
                count -= 1

    def close(self) -> None:
        """Send what waits, where the server takes it, and hang up."""
        self._stop.set()
        self._wake.set()
        following = self._following
        if following is not None and following.sock is not None:
            # What it waits for ends.
            with contextlib.suppress(OSError):
                following.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._where.hostname or "", self._where.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=_PATIENCE, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=_PATIENCE)

    # ---- Lists

    def _follow(self) -> None:
        wait = _FIRST_WAIT
        while not self._stop.is_set():
            try:
                for lines in self._batches():
                    self._local.take(lines)
                    self.ready.set()
                    self._well("lists")
                    wait = _FIRST_WAIT
            except _FAULTS as error:
                self._complain("lists", error)
            # Not all at once: a server that comes back has many clients.
            self._stop.wait(wait * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            wait = min(2 * wait, _LONGEST_WAIT)

    def _batches(self) -> Iterator[list[ListMessage]]:
        """Lines from the server, from one version to the next."""
        connection = self._following = self._connect()
        try:
            connection.request("GET", f"{LISTS_PATH}?since={quote(self._local.version)}", headers=self._headers)
            with connection.getresponse() as answer:
                if answer.status != _OK:
                    raise http.client.HTTPException(_said(answer))
                batch: list[ListMessage] = []
                for text in answer:
                    line = msgspec.json.decode(text, type=ListMessage)
                    batch.append(line)
                    if line.at:
                        yield batch
                        batch = []
        finally:
            self._following = None
            connection.close()

    # ---- Visits

    def _send(self) -> None:
        connection: http.client.HTTPConnection | None = None
        wait = _FIRST_WAIT
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = self._take_batch()
                try:
                    connection = connection or self._connect()
                    taken = self._post(connection, batch)
                except _FAULTS as error:
                    self._complain("visits", error)
                    if connection is not None:
                        connection.close()
                    connection, taken = None, False
                if taken:
                    wait = _FIRST_WAIT
                    continue
                self._put_back(batch)
                if self._stop.is_set():
                    break
                self._stop.wait(wait * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                wait = min(2 * wait, _LONGEST_WAIT)
            if self._stop.is_set():
                break
            # Not for every single visit: some come together.
            self._stop.wait(_PAUSE)
        if connection is not None:
            connection.close()
        self._drop(len(self._waiting))

    def _take_batch(self) -> list[VisitMessage]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(MOST_VISITS, len(self._waiting)))]

    def _put_back(self, batch: list[VisitMessage]) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(batch))
        self._drop(len(self._waiting) - self._most)

    def _post(self, connection: http.client.HTTPConnection, batch: list[VisitMessage]) -> bool:
        """Whether the server has taken a batch. One that it will never take is dropped."""
        connection.request("POST", VISITS_PATH, msgspec.json.encode(batch), self._headers)
        with connection.getresponse() as answer:
            said = _said(answer)
        if answer.status in _BAD:
            log.error("the server would not have %d visits: %s", len(batch), said)
            with self._lock:
                self.dropped += len(batch)
            return True
        if answer.status != _OK:
            raise http.client.HTTPException(said)
        self.sent += len(batch)
        self._well("visits")
        return True

    # ---- What is said of it

    def _complain(self, what: str, error: Exception) -> None:
        """Once, until it is well again."""
        if what not in self._complaints and not self._stop.is_set():
            self._complaints.add(what)
            log.warning("the server %s cannot be reached for %s: %s", self._where.netloc, what, error)

    def _well(self, what: str) -> None:
        if what in self._complaints:
            self._complaints.discard(what)
            log.info("the server %s is back for %s", self._where.netloc, what)


def _said(answer: http.client.HTTPResponse) -> str:
    if answer.status == _UNKNOWN:
        answer.read()
        return "it does not know this token; see [[serve.clients]] in its settings"
    return f"{answer.status} {answer.read().decode('latin-1').strip()[:200]!a}"

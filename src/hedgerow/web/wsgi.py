"""
The WSGI middleware: Hedgerow around a Flask or Django application, or any other.

    app = Hedgerow(app)                                  # defaults
    app = Hedgerow(app, config="hedgerow.toml")          # settings from a file
    app = Hedgerow(app, account_of=lambda headers: ...)  # the site's own idea of an account

It is the ASGI middleware, run without an event loop (`sync_driver`): the same decisions and the same responses, in the
thread that the server has for the request. Put it outermost, so that it sees addresses from the root of the site. WSGI
has no websockets.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, MutableMapping
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote_to_bytes

from hedgerow.core.visit import Visit
from hedgerow.request.account import AccountOf
from hedgerow.settings import Settings, load_settings
from hedgerow.web import asgi
from hedgerow.web.app import App, Site
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.robots_fetch import KEPT, learn_robots
from hedgerow.web.sync_driver import IN_THREAD, Blocking, StepLock, drive, send

log = logging.getLogger(__name__)

Environ = MutableMapping[str, Any]
Write = Callable[[bytes], object]


class StartResponse(Protocol):
    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: Any = ..., /) -> Write: ...


WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]

_PIECE = 65_536
_SAFE = "/:@!$&'()*+,;=~"
_RAW = ("RAW_URI", "REQUEST_URI")
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Hedgerow:
    """
    Stands around a WSGI application.

    *settings* or the file *config* say how; without either the defaults and the environment do. *clock* gives the time
    of a visit in seconds since 1970. What it needs is opened at the first request, in the process that answers it: a
    server may load the application first and divide into processes then. It is closed when the process ends.
    """

    def __init__(
        self,
        app: WsgiApp,
        *,
        settings: Settings | None = None,
        config: str | Path | None = None,
        account_of: AccountOf | None = None,
        site: Site | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        if settings is None and site is None:
            # Here and now: faults in the settings belong to the start.
            settings = load_settings(Path(config) if config is not None else None)
        self._make = partial(_Core, _Inner(app), settings=settings, account_of=account_of, site=site, clock=clock)
        self._lock = StepLock()
        self._core: _Core | None = None
        self._process = 0

    @property
    def site(self) -> Site:
        """What stands behind it, in this process."""
        return self._here().site

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._lock:
            core, self._core = self._core, None
        if core is not None and self._process == os.getpid():
            atexit.unregister(self.close)
            self._lock.close_given_up()
            # Under the lock: what the garbage collector closes meanwhile must not wait for a store that this closes.
            with self._lock:
                core.site.close()

    def _here(self) -> _Core:
        core = self._core
        if core is not None and self._process == os.getpid():
            return core
        with self._lock:
            if self._core is None or self._process != os.getpid():
                self._core, self._process = self._make(), os.getpid()
                self._core.lock = self._lock
                atexit.register(self.close)
            return self._core

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        core = self._here()
        closers: list[Callable[[], object]] = []
        scope = scope_of(environ)
        scope["hedgerow.environ"], scope["hedgerow.closers"] = environ, closers
        messages = drive(core(scope, _received(environ), send), self._lock)
        answer = _Answer(messages, closers)
        try:
            answer.begin(start_response)
        except BaseException:
            answer.close()
            raise
        return answer


class _Answer:
    """The body on its way to the server, and what must be closed behind it."""

    def __init__(self, messages: Generator[Message], closers: list[Callable[[], object]]) -> None:
        self._messages = messages
        self._closers = closers
        self._pieces: Iterator[bytes] = iter(())

    def begin(self, start_response: StartResponse) -> None:
        """Have the answer begun, which may take all that the application does."""
        start = next(self._messages)
        status: int = start["status"]
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        # Not before the first piece is there: an application may fail until then, and its server shows that.
        first = next(self._messages, None)
        start_response(f"{status} {_PHRASES.get(status, 'Unknown')}", headers)
        pieces = (message.get("body", b"") for message in self._messages)
        self._pieces = (piece for piece in chain([first.get("body", b"") if first else b""], pieces) if piece)

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        """By the server, when the answer has been sent or its client has left."""
        self._messages.close()
        while self._closers:
            self._closers.pop()()


def scope_of(environ: Environ) -> Scope:
    """A request of WSGI as one of ASGI."""
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1") or b"/"
    headers = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_")
    ]
    headers += [
        (name.encode(), environ[key].encode("latin-1"))
        for name, key in (("content-type", "CONTENT_TYPE"), ("content-length", "CONTENT_LENGTH"))
        if environ.get(key)
    ]
    peer = environ.get("REMOTE_ADDR") or ""
    return {
        "type": "http",
        "method": environ["REQUEST_METHOD"],
        "path": path.decode("utf-8", "replace"),
        "raw_path": _as_sent(environ, path),
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": headers,
        "client": (peer, 0) if peer else None,
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "http_version": environ.get("SERVER_PROTOCOL", "").partition("/")[2],
    }


def _as_sent(environ: Environ, path: bytes) -> bytes:
    """The path as it was sent, where the server tells and nobody has changed it since; else as it is usually sent."""
    for name in _RAW:
        raw = environ.get(name, "").partition("?")[0].encode("latin-1", "replace")
        if raw.startswith(b"/") and unquote_to_bytes(raw) == path:
            return bytes(raw)
    return quote(path, safe=_SAFE).encode()


def environ_of(scope: Scope) -> Environ:
    """The request as the application is to see it: without our markers, cookies and ETags."""
    before: Environ = scope["hedgerow.environ"]
    environ = {name: value for name, value in before.items() if not name.startswith("HTTP_")}
    for name, value in scope["headers"]:
        if name not in {b"content-type", b"content-length"}:
            environ["HTTP_" + name.decode("latin-1").upper().replace("-", "_")] = value.decode("latin-1")
    raw: bytes = scope["raw_path"]
    query = scope["query_string"].decode("latin-1")
    path = unquote_to_bytes(raw).decode("latin-1")
    mount = before.get("SCRIPT_NAME", "")
    if mount and not path.startswith(mount + "/") and path != mount:
        mount = ""
    environ |= {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": mount,
        "PATH_INFO": path[len(mount) :],
        "QUERY_STRING": query,
        "hedgerow": scope.get("hedgerow", {}),
    }
    for name in _RAW:
        if name in environ:
            environ[name] = raw.decode("latin-1") + ("?" + query if query else "")
    return environ


def _received(environ: Environ) -> Receive:
    """The request's body, for who must read it in the application's place."""
    length: int | None = None
    if environ.get("CONTENT_LENGTH", "").isdigit():
        length = int(environ["CONTENT_LENGTH"])
    elif not environ.get("wsgi.input_terminated"):
        length = 0

    async def receive() -> Message:
        nonlocal length
        most = _PIECE if length is None else min(_PIECE, length)
        body: bytes = await Blocking(partial(environ["wsgi.input"].read, most)) if most else b""
        if length is not None:
            if most and not body:
                return {"type": "http.disconnect"}
            length -= len(body)
        return {"type": "http.request", "body": body, "more_body": bool(body) if length is None else length > 0}

    return receive


class _Core(asgi.Hedgerow):
    """The middleware itself, run by `sync_driver`."""

    waiter = IN_THREAD
    # An environ is a dictionary: some servers sort it, and then every browser would look like a forged one.
    in_order = False
    lock: StepLock

    def __init__(self, app: _Inner, **options: Any) -> None:
        super().__init__(app, **options)
        self._inner = app

    def _fetch_robots(self, app: App, visit: Visit, scope: Scope) -> None:
        robots_compliance = app.gate.identifier.bot_verifier.robots_compliance
        if robots_compliance is None or not robots_compliance.due(visit.host, visit.at):
            return
        headers = [pair for pair in scope["headers"] if pair[0] in KEPT]
        headers += [(b"user-agent", b"Hedgerow"), (b"accept", b"text/plain")]
        inner = {
            **scope, "method": "GET", "raw_path": b"/robots.txt", "query_string": b"", "headers": headers,
            "hedgerow.closers": [],
        }  # fmt: skip

        def ask() -> None:
            try:
                messages = list(drive(self._inner(inner, _nothing, send), StepLock()))
                for close in inner["hedgerow.closers"]:
                    close()
            except Exception as error:  # noqa: BLE001 - whatever the application breaks on, visits go on
                log.info("the robots.txt of %s cannot be read: %s", ascii(visit.host), ascii(str(error)))
                return
            with self.lock:
                learn_robots(
                    robots_compliance, visit, messages[0]["status"], b"".join(m.get("body", b"") for m in messages)
                )

        threading.Thread(target=ask, name="hedgerow-robots", daemon=True).start()


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class _Inner:
    """The application, as an ASGI application for the middleware to stand around."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - it reads by itself
        said: list[Any] = []
        written: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Write:
            if exc_info is not None and sent:
                raise exc_info[1].with_traceback(exc_info[2])
            said[:] = [int(status[:3]), [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers]]
            return written.append

        sent = False
        result = await Blocking(partial(self._app, environ_of(scope), start_response))
        if (close := getattr(result, "close", None)) is not None:
            scope["hedgerow.closers"].append(close)
        pieces = iter(result)
        left: int | None = None
        while True:
            piece = await Blocking(partial(next, pieces, None))
            body = b"".join((*written, piece or b""))
            written.clear()
            if not sent and (body or piece is None):
                if not said:
                    raise RuntimeError("the application has not called start_response")
                sent = True
                left = _length(said[1])
                await send({"type": "http.response.start", "status": said[0], "headers": said[1]})
            if left is not None:
                left -= len(body)
            if piece is None or (sent and left is not None and left <= 0):
                # Where the application says how long it is, its last piece is known for the last.
                await send({"type": "http.response.body", "body": body})
                return
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})


def _length(headers: list[tuple[bytes, bytes]]) -> int | None:
    found = next((value for name, value in headers if name.lower() == b"content-length"), b"")
    return int(found) if found.isdigit() else None

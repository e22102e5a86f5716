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
from hedgerow.request.robots_compliance import RobotsCompliance
from hedgerow.settings import Settings, load_settings
from hedgerow.web import asgi
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.robots import read_robots
from hedgerow.web.sync_driver import IN_THREAD, StepLock, blocking, drive, send

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
    Protects a WSGI application.

    *settings* or the file *config* configure it, otherwise the defaults and the environment. *clock* returns the time
    of a visit in seconds since 1970. Stores are opened at the first request, in the process that handles it, because a
    server may fork after it has loaded the application. They are closed when the process ends.
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
            # Faults in the settings must stop the start.
            settings = load_settings(Path(config) if config is not None else None)
        self._make = partial(
            _Core, _WsgiAsAsgi(app), settings=settings, config=config, account_of=account_of, site=site, clock=clock
        )
        self._lock = StepLock()
        self._core: _Core | None = None
        self._process = 0

    @property
    def site(self) -> Site:
        """The site of this process."""
        return self._here().site

    def close(self) -> None:
        """Write everything that is pending, and stop."""
        with self._lock:
            core, self._core = self._core, None
        if core is not None and self._process == os.getpid():
            atexit.unregister(self.close)
            self._lock.close_ended()
            # Under the lock: a coroutine that the garbage collector closes now must not wait for a closing store.
            with self._lock:
                core.close()

    def _here(self) -> _Core:
        core = self._core
        if core is not None and self._process == os.getpid():
            return core
        with self._lock:
            if self._core is None or self._process != os.getpid():
                self._core, self._process = self._make(), os.getpid()
                for one in (self._core, *self._core.others):
                    one.lock = self._lock  # type: ignore[attr-defined]
                atexit.register(self.close)
            return self._core

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        core = self._here()
        closers: list[Callable[[], object]] = []
        scope = scope_of(environ) | {"hedgerow.environ": environ, "hedgerow.closers": closers}
        response = _Response(drive(core(scope, _receive_from(environ), send), self._lock), closers)
        try:
            response.begin(start_response)
        except BaseException:
            response.close()
            raise
        return response


class _Response:
    """A response body, and what must be closed after it."""

    def __init__(self, messages: Generator[Message], closers: list[Callable[[], object]]) -> None:
        self._messages = messages
        self._closers = closers
        self._pieces: Iterator[bytes] = iter(())

    def begin(self, start_response: StartResponse) -> None:
        """Run the application until the response has started."""
        start = next(self._messages)
        status: int = start["status"]
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        # Wait for the first piece: an application may fail until then, and its server reports that.
        first = next(self._messages, {})
        start_response(f"{status} {_PHRASES.get(status, 'Unknown')}", headers)
        self._pieces = filter(None, (message.get("body", b"") for message in chain([first], self._messages)))

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        """Called by the server after the response is sent or its client has left."""
        self._messages.close()
        while self._closers:
            self._closers.pop()()


def scope_of(environ: Environ) -> dict[str, Any]:
    """Return a WSGI request as an ASGI scope."""
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1") or b"/"
    names = {name: name[5:] for name in environ if name.startswith("HTTP_")}
    names |= {name: name for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(name)}
    peer = environ.get("REMOTE_ADDR") or ""
    return {
        "type": "http",
        "method": environ["REQUEST_METHOD"],
        "path": path.decode("utf-8", "replace"),
        "raw_path": _raw_path(environ, path),
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": [
            (name.replace("_", "-").lower().encode("latin-1"), environ[key].encode("latin-1"))
            for key, name in names.items()
        ],
        "client": (peer, 0) if peer else None,
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "http_version": environ.get("SERVER_PROTOCOL", "").partition("/")[2],
    }


def _raw_path(environ: Environ, path: bytes) -> bytes:
    """Return the path as it was sent, if the server provides it and nothing has changed it; else its usual encoding."""
    for name in _RAW:
        raw = environ.get(name, "").partition("?")[0].encode("latin-1", "replace")
        if raw.startswith(b"/") and unquote_to_bytes(raw) == path:
            return bytes(raw)
    return quote(path, safe=_SAFE).encode()


def environ_of(scope: Scope) -> Environ:
    """Return the request for the application: without markers, and without cookies and ETags of the middleware."""
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
        "wsgi.url_scheme": scope["scheme"],
        "hedgerow": scope.get("hedgerow", {}),
    }
    for name in _RAW:
        if name in environ:
            environ[name] = raw.decode("latin-1") + ("?" + query if query else "")
    return environ


def _receive_from(environ: Environ) -> Receive:
    """Return a `receive` for the request's body, for pages that read it instead of the application."""
    length: int | None = None
    if environ.get("CONTENT_LENGTH", "").isdigit():
        length = int(environ["CONTENT_LENGTH"])
    elif not environ.get("wsgi.input_terminated"):
        length = 0

    async def receive() -> Message:
        nonlocal length
        size = _PIECE if length is None else min(_PIECE, length)
        body: bytes = await blocking(partial(environ["wsgi.input"].read, size)) if size else b""
        if length is not None:
            if size and not body:
                return {"type": "http.disconnect"}
            length -= len(body)
        return {"type": "http.request", "body": body, "more_body": bool(body) if length is None else length > 0}

    return receive


class _Core(asgi.Hedgerow):
    """The middleware itself, run by `sync_driver`."""

    waiter = IN_THREAD
    # Some servers sort the environ, and then every browser would look forged.
    in_order = False
    lock: StepLock

    def _read_robots(self, compliance: RobotsCompliance, visit: Visit, scope: Scope) -> None:
        closers: list[Callable[[], object]] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self.app(scope, receive, send)
            for close in closers:
                await blocking(close)

        reading = read_robots(app, {**scope, "hedgerow.closers": closers}, compliance, visit, self.waiter)
        thread = threading.Thread(target=list, args=(drive(reading, self.lock),), name="hedgerow-robots", daemon=True)
        thread.start()


class _WsgiAsAsgi:
    """The application as an ASGI application, for the middleware."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - it reads by itself
        started: list[Any] = []
        written: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Write:
            if exc_info is not None and sent:
                raise exc_info[1].with_traceback(exc_info[2])
            started[:] = [int(status[:3]), [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers]]
            return written.append

        sent = False
        result = await blocking(partial(self._app, environ_of(scope), start_response))
        if (close := getattr(result, "close", None)) is not None:
            scope["hedgerow.closers"].append(close)
        pieces = iter(result)
        remaining: int | None = None
        while True:
            piece = await blocking(partial(next, pieces, None))
            body = b"".join((*written, piece or b""))
            written.clear()
            if not sent and (body or piece is None):
                if not started:
                    raise RuntimeError("the application has not called start_response")
                sent = True
                length = next((value for name, value in started[1] if name.lower() == b"content-length"), b"")
                remaining = int(length) if length.isdigit() else None
                await send({"type": "http.response.start", "status": started[0], "headers": started[1]})
            if remaining is not None:
                remaining -= len(body)
            if piece is None or (sent and remaining is not None and remaining <= 0):
                # If the application has announced a length, its last piece is known to be the last.
                await send({"type": "http.response.body", "body": body})
                return
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})

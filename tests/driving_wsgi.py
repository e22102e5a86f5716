"""Drives the WSGI middleware as a server would, in process; and a WSGI application for it to stand around."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.validate import validator

from driving import Answer, Answering, Around, pairs_of
from hedgerow.wsgi import Hedgerow


class WsgiApplication(Answering):
    """A WSGI application that remembers what it was asked."""

    def __init__(self, *chunks: bytes, **options: Any) -> None:
        super().__init__(*chunks, **options)
        self.environs: list[dict[str, Any]] = []
        self.closed = 0

    def __call__(self, environ, start_response):
        self.environs.append(environ)
        answer = self.answer_to(environ)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer["headers"]]
        start_response(f"{answer['status']} Said", headers)
        return _Body(self, answer["chunks"])


class _Body:
    def __init__(self, app: WsgiApplication, chunks: Sequence[bytes]) -> None:
        self._app = app
        self._chunks = iter(chunks)

    def __iter__(self):
        return self._chunks

    def close(self) -> None:
        self._app.closed += 1


def environ_for(target: str, peer: str, method: str, headers: Any, body: bytes) -> dict[str, Any]:
    path, _, query = target.partition("?")
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": target,
        "REMOTE_ADDR": peer,
        "SERVER_NAME": "example.org",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    for name, value in pairs_of(headers):
        key = name.decode().upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value.decode("latin-1")
    return environ


class WsgiClient(Around):
    """Asks the WSGI middleware; the same hands as `driving.Client`."""

    application, middleware = WsgiApplication, Hedgerow

    def get(
        self, target: str = "/", *, peer: str = "192.0.2.1", method: str = "GET", headers: Any = (), body: bytes = b""
    ) -> Answer:
        return ask(self.hedgerow, environ_for(target, peer, method, headers, body))


def ask(app: Any, environ: dict[str, Any]) -> Answer:
    """What *app* answers; and both sides must keep to the letter of WSGI."""
    said: list[Any] = []

    def start_response(status, headers, _=None):
        said[:] = [status, headers]
        return lambda _: None

    result = validator(app)(environ, start_response)
    try:
        pieces = list(result)
    finally:
        result.close()
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in said[1]]
    messages = [{"type": "http.response.body", "body": piece} for piece in pieces]
    return Answer(int(said[0][:3]), headers, b"".join(pieces), messages)

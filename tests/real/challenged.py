"""A small site behind a Hedgerow that challenges everybody until they have solved one, in a thread of its own."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from html import escape
from typing import Any

import uvicorn

from driving import KEY, Entries, settings
from hedgerow.challenge import captcha as puzzle
from hedgerow.challenge import interfaces
from hedgerow.challenge.prices import ClearancePrice
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.challenge import endpoint as challenging
from hedgerow.web.stores import build_state

SUSPECT = Decision("challenge", (Evidence("identity", "suspect", 0.5, "Too many wrong links."),))
TOO_MANY = Decision("refuse", (Evidence("identity", interfaces.TOO_MANY, 1.0, "Asked too often."),))
_FORM = """<!DOCTYPE html><html lang=en><title>Write</title><h1>Write</h1>
<form id=plain method=post action="/comment?id=7"><input name=who value="Änne &amp; Bob"><textarea name=text>one
two</textarea><input type=hidden name=submit value=x><button>Send</button></form>
<form id=parts method=post action=/upload enctype=multipart/form-data><input name='say "hi"' value="<b>ä</b>">
<input type=file name=file><button>Send parts</button></form>"""


class Challenged:
    """The site; `told` is what the hooks heard, `sent` what the site itself was posted."""

    def __init__(self, text: str = "", *, elsewhere: str = "") -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.fetched: list[str] = []
        self.told: list[tuple[str, ...]] = []
        self.solved_ = False
        self.decision = SUSPECT
        self.answers: dict[bytes, str] = {}
        self._elsewhere = elsewhere
        self._text = text

    # Hooks

    def issued(self, _visit: Any, kind: str, _at: float, *, again: bool) -> None:
        self.told.append(("issued", kind, "again" if again else "first"))

    def needs_clearance(self, _visit: Any, _decision: Decision) -> bool:
        return False

    async def price(self, visit) -> ClearancePrice:  # noqa: ARG002 - one shape
        return ClearancePrice()

    async def solved(self, _visit: Any, _key: str, kind: str, _at: float, *, asked: bool = True) -> None:  # noqa: ARG002
        self.solved_ = True
        self.told.append(("solved", kind))

    def failed(self, _visit: Any, failure: str, _kind: str | None, _at: float) -> None:
        self.told.append(("failed", failure))

    def reset(self) -> None:
        self.solved_, self.decision = False, SUSPECT
        self.told.clear()
        self.sent.clear()
        self.fetched.clear()

    def answer_of(self, source: str) -> str:
        """What the image or the recording says that has this address."""
        return self.answers[base64.b64decode(source.partition(",")[2])]

    # The site

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = dict(scope["headers"])
        path = scope["path"]
        if scope["method"] == "POST":
            target = path + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
            self.sent.append((target, headers.get(b"content-type", b""), body))
        else:
            self.fetched.append(path)
        status, extra = 200, []
        if path == "/login":
            status, extra = 302, [(b"location", self._elsewhere.encode())]
        content = (
            _FORM if path == "/write" else f"<!DOCTYPE html><html lang=en><title>Site</title><h1>{escape(path)}</h1>"
        )
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", b"text/html; charset=utf-8"), *extra],
            }
        )
        await send({"type": "http.response.body", "body": content.encode()})

    # The server

    def _remember(self, make: Any) -> Any:
        def made() -> puzzle.Captcha:
            found = make()
            self.answers[found.content] = found.answer
            return found

        return made

    @contextlib.contextmanager
    def serve(self) -> Iterator[Challenged]:
        make_image, make_audio = challenging.make_image, challenging.make_audio
        challenging.make_image = self._remember(puzzle.make_image)
        challenging.make_audio = self._remember(puzzle.make_audio)
        text = "[traps]\nenabled = false\n" + self._text
        own = settings(text)
        site = Site(own, tokens=TokenCodecs([Key(1, KEY, 0.0)]), state=build_state(own), ledger=Entries(), hooks=self)
        challenging.make_image, challenging.make_audio = make_image, make_audio

        async def decide(_visit: object, _: str | None = None) -> Decision:
            return PASS if self.solved_ else self.decision

        site.app.gate.decide = decide  # type: ignore[method-assign]
        self.site = site
        server = uvicorn.Server(uvicorn.Config(Hedgerow(self, site=site), log_level="error", lifespan="off"))
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
            thread.start()
            while not server.started:
                time.sleep(0.01)
            try:
                yield self
            finally:
                server.should_exit = True
                thread.join(10)
                site.close()


def axe_faults(page: Any, axe: str) -> list[str]:
    """The serious faults that axe-core finds on a page."""
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations', 'incomplete']})")
    return [
        f"{fault['id']} ({fault['impact']}): {json.dumps([n['html'][:200] for n in fault['nodes']])}"
        for fault in found["violations"]
        if fault["impact"] in {"serious", "critical", "moderate"}
    ]

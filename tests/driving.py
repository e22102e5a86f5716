"""Drives Hedgerow in process: a clock that stands still, a client with any address and headers, small applications."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from html import unescape
from typing import Any, NamedTuple

from hedgerow.core.ledger import Entry
from hedgerow.lists.model import Lists
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Mode, Placement, Rules
from hedgerow.markers.token import Key, TokenCodec, TokenCodecs
from hedgerow.settings import Settings, read_settings
from hedgerow.traps.bait import Bait
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.stores import build_state

KEY = bytes(range(64))
START = 1_800_000_000.0
PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Hedges</title></head>\n<body>\n"
    b'<p><a href="/one">one</a> and <a href="/two">two</a> and <a href="/three">three</a>.</p>\n</body></html>\n'
)
HTML = (b"content-type", b"text/html; charset=utf-8")
OFF = '[marker]\nmode = "off"\nrules = []\n'
"""Settings under which no link is marked: for tests about bait alone."""
OPEN: list[Site] = []
"""Sites of clients; closed when their test ends, or their threads would go on into the next."""
_SHARE = rb"(?:share[-_][a-z]{5}|[a-z]{5}[-_]share)"
_SEALED = rb'"((?:/~|[^"]*[?;]~=)[A-Za-z0-9_.-]{28,})"'
_WRAPPER = rb'<(?:span(?= [^>]*(?:hidden|popover))|datalist) class="[a-z]{5}" [^>]+><a|<noscript><a class="[a-z]{5}"'
_TEXT_TRAP = rb"(?:" + _WRAPPER + rb") href=" + _SEALED + rb">([^<]*)</a></\w+>"
TRAP = re.compile(_TEXT_TRAP + rb'|<a class="' + _SHARE + rb'" href=' + _SEALED + rb"></a>")
"""A hidden link, with text or without."""
_MARKED = re.compile(rb'href="(/~[\w-]{40,}|[^"]*[?;]~=[\w.-]{28,})"')
_STYLE = re.compile(
    rb"<style>(?:\.(" + _SHARE + rb")\.\1(?:,\.([a-z]{5})\.\2)?|\.([a-z]{5})\.\3)\{display:none!important\}</style>"
)


def settings(text: str = "") -> Settings:
    """Settings from TOML and nothing of the machine's own."""
    return read_settings(text, environment={})


def traps_in(body: bytes) -> list[str]:
    """The hidden links of a page."""
    return [unescape((found[1] or found[3]).decode()) for found in TRAP.finditer(body)]


def texts_in(body: bytes) -> list[str]:
    """The texts of the hidden links of a page that have one."""
    return [unescape(found[2].decode()) for found in TRAP.finditer(body) if found[2]]


def marked_links_in(body: bytes) -> list[str]:
    """The marked links of a page that people can see."""
    hidden = traps_in(body)
    found = [unescape(one.decode()) for one in _MARKED.findall(body)]
    return [link for link in found if link not in hidden]


def without_bait(body: bytes) -> bytes:
    return _STYLE.sub(b"", TRAP.sub(b"", body))


def bait_rewriter(
    seal: TokenCodec, visitor: bytes, page: bytes, placement: Placement = "spread", every: int = 3, mode: Mode = "off",
    *, has_text: bool = False,
) -> PageRewriter:  # fmt: skip
    """What puts bait into a page, and leaves its links alone unless *mode* says otherwise."""
    place = PageLocation(b"http", b"example.org", b"/")
    bait = Bait(visitor, page, has_text=has_text)
    rewriter = PageRewriter(place, Rules(mode), b"/~", SkeletonCache(), seal, visitor, page)
    rewriter.add_bait(bait.style, bait.link_start, placement, every, wrappers=bait.wrappers, text_style=bait.text_style)
    return rewriter


def form_of(start: bytes) -> str:
    """The form of a hidden link with text, by how it starts."""
    return re.sub(r' class="\w+"', "", start.decode())


def visitors_by_form(page: bytes) -> dict[str, bytes]:
    """For each form of hidden links with text, a visitor for whom those of *page* are written so."""
    found: dict[str, bytes] = {}
    for number in range(200):
        visitor = b"%06d" % number
        wrappers = Bait(visitor, page, has_text=True).wrappers
        assert wrappers is not None
        for before, _ in wrappers:
            found.setdefault(form_of(before), visitor)
    return found


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Entries(list[Entry]):
    """A ledger that is a list."""

    lost = 0
    failing = False
    errors = 0
    pending = 0
    close = list[Entry].clear


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    messages: list[dict[str, Any]]

    def header(self, name: str) -> bytes | None:
        found = [value for key, value in self.headers if key.lower() == name.encode()]
        assert len(found) < 2, f"{name} is there {len(found)} times"
        return found[0] if found else None


def pairs_of(headers: dict[str, str | bytes] | Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers as bytes, behind the one that names the host. Without others, they are those of a browser."""
    if isinstance(headers, dict):
        headers = [(k.encode(), v if isinstance(v, bytes) else v.encode("latin-1")) for k, v in headers.items()]
    own = [] if any(name in {b"accept", b"sec-fetch-dest"} for name, _ in headers) else [(b"accept", b"text/html")]
    return [(b"host", b"example.org"), *own, *headers]


class Answering:
    """Answers everything alike, unless *react* says otherwise."""

    def __init__(
        self,
        *chunks: bytes,
        status: int = 200,
        headers: Iterable[tuple[bytes, bytes]] = (HTML,),
        react: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None,
    ) -> None:
        self.answer = {"status": status, "headers": list(headers), "chunks": chunks or (PAGE,)}
        self.react = react

    def answer_to(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {**self.answer, **((self.react(asked) if self.react else None) or {})}


class Application(Answering):
    """An ASGI application that remembers what it was asked."""

    def __init__(self, *chunks: bytes, **options: Any) -> None:
        super().__init__(*chunks, **options)
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope, receive, send) -> None:
        self.scopes.append(dict(scope))
        answer = self.answer_to(scope)
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": answer["status"], "headers": answer["headers"]})
        *chunks, last = answer["chunks"]
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": last})

    def seen(self, name: str, at: int = -1) -> bytes | None:
        """A header that it was asked with."""
        return dict(self.scopes[at]["headers"]).get(name.encode())


class Around:
    """
    A Hedgerow around *app*; `site`, `clock` and `entries` (its ledger, unless another is given) are at hand.

    Clients here run no scripts. With *silent* their pages have the script that obtains a clearance, and who has none
    is contained.
    """

    application: Callable[[], Any]
    middleware: Callable[..., Any]

    def __init__(
        self,
        app: Any = None,
        text: str = "",
        *,
        ledger: Any = None,
        account_of: Any = None,
        lists: Any = None,
        hooks: Any = None,
        silent: bool = False,
    ) -> None:
        self.app = self.application() if app is None else app
        self.clock = Clock()
        self.entries = Entries() if ledger is None else ledger
        own = settings(text) if silent else settings(text).without_clearances()
        self.site = Site(
            own, tokens=TokenCodecs([Key(1, KEY, 0.0)]), state=build_state(own),
            ledger=self.entries,
            account_of=account_of, lists=Lists() if lists is None else lists, hooks=hooks,
        )  # fmt: skip
        OPEN.append(self.site)
        self.hedgerow = self.middleware(self.app, site=self.site, clock=self.clock)


class Client(Around):
    """Asks the ASGI middleware."""

    application, middleware = Application, Hedgerow

    def get(self, target: str = "/", **options: Any) -> Answer:
        return asyncio.run(self.ask(target, **options))

    async def ask(
        self,
        target: str | bytes = "/",
        *,
        peer: str | None = "192.0.2.1",
        method: str = "GET",
        headers: dict[str, str | bytes] | Sequence[tuple[bytes, bytes]] = (),
        body: bytes = b"",
        **scope: Any,
    ) -> Answer:
        path, _, query = (target.encode("latin-1") if isinstance(target, str) else target).partition(b"?")
        scope = {
            "type": "http",
            "method": method,
            "path": path.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": query,
            "headers": pairs_of(headers),
            "client": (peer, 5000) if peer is not None else None,
            "scheme": "http",
            **scope,
        }
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.hedgerow(scope, receive, send)
        starts = [message for message in sent if message["type"] == "http.response.start"]
        bodies = [message for message in sent if message["type"] == "http.response.body"]
        assert len(starts) == 1, f"{len(starts)} starts"
        assert not bodies[-1].get("more_body"), "the answer has no end"
        assert all(message.get("more_body") for message in bodies[:-1]), "the answer goes on after its end"
        return Answer(
            starts[0]["status"], list(starts[0]["headers"]), b"".join(m.get("body", b"") for m in bodies), sent
        )

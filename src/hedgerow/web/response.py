"""
Rewrite a response on its way to the client, message by message.

A `ResponseRewriter` takes the place of the server's `send`. Most messages go straight through. The start of a page is
held back until its first bytes are there: only then is it known whether the page can be rewritten, whether these bytes
are all of it, and so what its headers must say.

Only `text/html` is rewritten, and only where its content coding and its charset can be undone and done again. Every
other body is passed on byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from hedgerow.core.decision import Decision
from hedgerow.core.request_kind import kind_of
from hedgerow.core.visit import Kind, Visit
from hedgerow.markers.html.charset import carried_charset, from_utf8, tells_charset, to_utf8
from hedgerow.markers.html.content_coding import BrokenCoding, Decoder, Encoder, codec
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.rewrite import PageRewriter, readable_address
from hedgerow.markers.token import VISITOR_BYTES, TokenCodec, page_digest, visitor_digest
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.traps.bait import Bait
from hedgerow.web.app import App
from hedgerow.web.asgi_types import Message, Send
from hedgerow.web.response_headers import (
    Headers,
    changed_headers,
    has_our_etag,
    header,
    is_html,
    marked_headers,
    permitting_headers,
    private_headers,
)

_SUCCESS = range(200, 300)
_PARTIAL = 206
_FOUND = 302
_NOT_MODIFIED = 304
_NO_BODY = frozenset({204, 205})
_PARTS = b"multipart/byteranges"
_XHTML = b"application/xhtml+xml"

# What may stand before a page proper. Atomic and possessive: otherwise a few dozen comments in a row could be split in
# millions of ways.
_PREAMBLE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[\t\n\f\r ]++|(?><!--.*?-->)|<\?[^>]*+>)*+", re.DOTALL)
# Some minifiers write "<!doctypehtml>", and browsers accept it.
_ROOT = re.compile(rb"<(?:!doctype|html(?=[\t\n\f\r />]))", re.IGNORECASE)
_UTF_8 = re.compile(rb"text/html; ?charset=utf-8", re.IGNORECASE)
_MAY_BEGIN = (b"<!doctype", b"<html ", b"<!--", b"<?")
_LONGEST_START = 8_192
_LARGEST_CARRIED = 1_048_576
_MOST_HELD = 2_097_152

_MOST_LINKED_VISITORS = 4
_COOKIE_AGE = 30 * 86_400


class _NotRewritable(Exception):  # noqa: N818 - an outcome, not a fault
    """The body must be passed on as it is; nothing of it has been sent yet."""

    def __init__(self, reason: Literal["coding", "broken", "charset", "fragment"]) -> None:
        self.reason = reason
        super().__init__(reason)


def beginning_of(start: bytes, *, final: bool) -> Literal["document", "fragment", "text"] | None:
    """
    Tell by its *start* whether a body is a whole page, a fragment of one, or no HTML, such as JSON under a wrong type.

    None where more must come to tell; with *final* nothing more comes.
    """
    preamble = _PREAMBLE.match(start)
    begins_at = preamble.end() if preamble else 0
    if _ROOT.match(start, begins_at):
        return "document"
    rest = start[begins_at:]
    if not final:
        is_unfinished = any(begin.startswith(rest.lower()) for begin in _MAY_BEGIN)
        if is_unfinished or rest.startswith((b"<!--", b"<?")):
            return None
    return "fragment" if rest.startswith(b"<") else "text"


def _decoded(decoder: Decoder, data: bytes, *, final: bool) -> Iterator[bytes]:
    yield from decoder.feed(data)
    if final:
        decoder.end()


@lru_cache(maxsize=1 << 12)
def _cookie_of(codec: TokenCodec, issued_to: bytes, visitors: bytes, *, secure: bool) -> bytes:
    """Return the cookie that names *visitors*. A client that does not keep it gets the same one with every page."""
    token = codec.seal("visitor", issued_to, bytes(VISITOR_BYTES), visitors)
    more = b"; Secure" if secure else b""
    return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%b" % (VISITOR_COOKIE, token, _COOKIE_AGE, more)


class ResponseRewriter:
    """
    Passes one response on; where it is a page, its links are marked and it gets hidden links.

    *request_headers* tell whether the client has the rewritten page and asks if it is still valid. Where the
    application answers with a part of a page, `is_range` is set and nothing is passed on: the caller must ask for the
    whole page.

    A visit that claimed to want an image, and is answered with a page, is decided on again as what it is: `visit` and
    `decision` then change. Where `is_stopped` is set, nothing has been passed on: the caller must refuse the visit.
    """

    def __init__(
        self,
        app: App,
        visit: Visit,
        decision: Decision,
        send: Send,
        *,
        scheme: str = "http",
        request_headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self.visit = visit
        self.decision = decision
        self.status = 0
        self.started = False
        self.is_range = False
        self.is_stopped = False
        self._app = app
        self._send = send
        self._secure = scheme == "https"
        self._request_headers = request_headers
        self._page = self._page_rewriter(scheme) if app.changes_pages and not visit.bot else None
        # The start of a page, as long as it is held back, and the body that has come since.
        self._start: Message | None = None
        self._held: list[bytes] = []
        self._is_rewriting = False
        self._is_over = False

    def _page_rewriter(self, scheme: str) -> PageRewriter:
        app, visit = self._app, self.visit
        prefix = app.settings.marker.prefix
        return PageRewriter(
            PageLocation(scheme.encode(), visit.host.encode("latin-1"), visit.target.encode("latin-1")),
            app.rules,
            prefix.encode(),
            app.skeletons,
            app.tokens.of(visit.host),
            visitor_digest(visit.visitor),
            app.gate.pages.remember(visit.target),
            # A readable address shows where the page is.
            shown_at=visit.raw_target.encode("latin-1")
            if visit.marker and visit.raw_target.startswith(prefix)
            else b"",
        )

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            # ASGI lets headers be missing, or be any iterable.
            message = {**message, "headers": list(message.get("headers", ()))}
            self.status = message["status"]
            if await self._must_hold(message):
                self._start = message
                return
            self.started = not self.is_stopped
        elif kind == "http.response.body" and self._start is not None:
            if not (self.is_range or self._is_over):
                await self._begin(message, self._start)
            return
        elif kind == "http.response.body" and self._is_rewriting:
            await self._go_on(message)
            return
        if not (self.is_range or self.is_stopped or self._is_over):
            await self._send(message)

    # ---- The start of a response

    async def _must_hold(self, start: Message) -> bool:
        """Return whether the response is a page to rewrite. The headers of one without a body are changed here."""
        page = self._page
        if page is not None and self._app.rules.marks:
            start["headers"] = marked_headers(start["headers"], page.mark)
        headers: Headers = start["headers"]
        if self.visit.bot:
            return False
        if self.status == _NOT_MODIFIED:
            if has_our_etag(header(self._request_headers, b"if-none-match")):
                start["headers"] = changed_headers(headers)
            return False
        content_type = header(headers, b"content-type")
        if not (is_html(content_type) or self._may_be_parts_of_page(content_type)):
            # A page in XHTML is not rewritten, and is a page all the same.
            is_xhtml = content_type[: len(_XHTML)].lower() == _XHTML
            if self.visit.kind == "page" and self.visit.method == "GET" and self.status in _SUCCESS and not is_xhtml:
                # Its address looked like a page's: an API, a download, git. Such visits come by the hundred.
                await self._decide_again("asset")
            return False
        if page is None:
            # The body is not read, so a fragment cannot be told from a page; but an image is never HTML.
            if self.visit.kind == "asset":
                await self._count_as_page()
            return False
        if self.visit.method == "HEAD" or self.status in _NO_BODY:
            start["headers"] = self._page_headers(page, headers)
            return False
        self.is_range = self.status == _PARTIAL and self.visit.method == "GET"
        return True

    def _may_be_parts_of_page(self, content_type: bytes) -> bool:
        """Return whether the response may be several parts of a page: the type of the parts is in the body."""
        is_multipart = self.status == _PARTIAL and content_type[: len(_PARTS)].lower() == _PARTS
        return is_multipart and kind_of(self.visit.method, self.visit.target) == "page"

    async def _count_as_page(self) -> None:
        """
        Decide again on a visit that claimed to be something else and is answered with a page.

        Error pages do not count: a person whose fifty images are missing gets fifty of them. Only a GET is stopped;
        any other request has been carried out, and its response is due.
        """
        kind: Kind = "prefetch" if self.visit.prefetch else "page"
        if self.visit.kind == kind or self.status not in _SUCCESS:
            return
        await self._decide_again(kind)
        self.is_stopped = (
            self.decision.action != "pass" and self.visit.method == "GET" and not self._app.settings.observe
        )

    async def _decide_again(self, kind: Kind) -> None:
        self.visit, self.decision = await self._app.gate.reclassify(self.visit, kind)

    # ---- The body of a page

    async def _begin(self, message: Message, start: Message) -> None:
        """Take the first body message of a page, and those after it until some of the page is settled."""
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        try:
            if not self._is_rewriting:
                self._open(start["headers"])
            piece = self._rewrite(body, final=not more)
        except _NotRewritable as outcome:
            await self._give_up(message, start, outcome.reason)
            return
        self._held.append(body)
        if not piece and more:
            return
        self._held.clear()
        if not self._is_fragment:
            await self._count_as_page()
        if self.is_stopped:
            self._is_over = True
            return
        if address := self._script_address():
            await self._redirect(address)
            return
        if not more:
            self._headers.append((b"content-length", b"%d" % len(piece)))
        self._start = None
        self.started = True
        await self._send({**start, "headers": self._headers})
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def _go_on(self, message: Message) -> None:
        more: bool = message.get("more_body", False)
        piece = self._rewrite(message.get("body", b""), final=not more)
        if piece or not more:
            await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def _give_up(self, message: Message, start: Message, reason: str) -> None:
        """Pass on what came, as it came."""
        if reason != "fragment":
            self._app.counters.count_skipped(reason, self.visit.target)
        self._start = None
        self._is_rewriting = False
        self.started = True
        await self._send(start)
        await self._send({**message, "body": b"".join([*self._held, message.get("body", b"")])})
        self._held.clear()

    def _script_address(self) -> bytes:
        """
        Return the readable address of a page that was asked for by an opaque one, but is owned by a script.

        Such a script (Next, Nuxt, Angular, ...) reads from the address which page it is. b"" for all other pages.
        """
        visit, page = self.visit, self._page
        if page is None or visit.marker is None or visit.method != "GET" or self.status not in _SUCCESS:
            return b""
        if not (page.is_marked and page.is_scripted):
            return b""
        token = page.codec.seal("page", page.issued_to, visit.marker.parent, page_digest(visit.target))
        return readable_address(page.location.target, token)

    async def _redirect(self, address: bytes) -> None:
        """Send the client to another address of the page instead of the page. Cookies are kept."""
        self.status = _FOUND
        self._start = None
        self._is_rewriting = False
        self._is_over = self.started = True
        cookies = [(name, value) for name, value in self._headers if name.lower() == b"set-cookie"]
        headers = [(b"location", address), (b"cache-control", b"no-store"), (b"content-length", b"0"), *cookies]
        await self._send({"type": "http.response.start", "status": _FOUND, "headers": headers})
        await self._send({"type": "http.response.body", "body": b""})

    def _open(self, headers: Headers) -> None:
        """Prepare to rewrite a page with these headers."""
        page, traps = self._page, self._app.settings.traps
        assert page is not None
        bait = Bait(page.issued_to, page.parent) if traps.enabled else None
        if bait is not None:
            page.add_bait(bait.style, bait.link_start, traps.placement, traps.every)
        self._headers = self._page_headers(page, headers, bait)
        self._content_type = header(headers, b"content-type")
        content_encoding = header(headers, b"content-encoding").strip().lower()
        self._coding: tuple[Decoder, Encoder] | None = None
        if content_encoding not in {b"", b"identity"}:
            self._coding = codec(content_encoding)
            if self._coding is None:
                raise _NotRewritable("coding")
        self._is_rewriting = True
        self._is_fragment = False
        # How the body begins, until that tells what it is.
        self._beginning: bytes | None = b""
        self._has_output = False
        self._fed = 0
        # A charset in which the body cannot be read as bytes, and the body so far.
        self._charset: str | None = None
        self._carried: list[bytes] = []
        self._carried_size = 0

    def _page_headers(self, page: PageRewriter, headers: Headers, bait: Bait | None = None) -> Headers:
        headers = changed_headers(headers)
        headers = permitting_headers(headers, bait.style_hash if bait is not None else None, base=page.needs_base)
        if not self._app.rules.marks:
            return headers
        headers = private_headers(headers)
        linked = self.visit.linked
        if page.issued_to not in linked:
            # Links this visitor to those that the browser was before.
            visitors = b"".join([*linked, page.issued_to][-_MOST_LINKED_VISITORS:])
            headers.append((b"set-cookie", _cookie_of(page.codec, page.issued_to, visitors, secure=self._secure)))
        return headers

    # ---- The bytes of a page

    def _rewrite(self, data: bytes, *, final: bool) -> bytes:
        """
        Take the next bytes of the body and return what the client gets of it now.

        Raises `_NotRewritable` only as long as nothing has been returned, and BrokenCoding where a body turns out to be
        damaged later: then the connection must be cut, as the upstream's would have been.
        """
        if self._coding is None:
            out = self._rewrite_text(data, final=final)
        else:
            out = self._recode(*self._coding, data, final=final)
        if out or final:
            self._has_output = True
        elif not self._has_output:
            # All of it is held until something comes out, and a coded body may decode to nothing for ever.
            self._fed += len(data)
            if self._fed > _MOST_HELD:
                raise _NotRewritable("broken")
        return out

    def _recode(self, decoder: Decoder, encoder: Encoder, data: bytes, *, final: bool) -> bytes:
        """Decode, rewrite and encode *data*, in steps: however much it decodes to, only a part is in memory."""
        out = []
        text: bytes | None = None
        try:
            for piece in _decoded(decoder, data, final=final):
                if text is not None and (rewritten := self._rewrite_text(text, final=False)):
                    out.append(encoder.feed(rewritten))
                text = piece
            if (text is not None or final) and (rewritten := self._rewrite_text(text or b"", final=final)):
                out.append(encoder.feed(rewritten))
        except BrokenCoding:
            if self._has_output:
                raise
            raise _NotRewritable("broken") from None
        if out or final:
            out.append(encoder.flush(final=final))
        return b"".join(out)

    def _rewrite_text(self, text: bytes, *, final: bool) -> bytes:
        page = self._page
        assert page is not None
        if self._beginning is not None:
            text = self._beginning + text
            if not self._recognise(text, final=final or len(text) > _LONGEST_START):
                self._beginning = text
                return b""
            self._beginning = None
        if self._charset is None:
            return page.feed(text, final=final)
        # Such a page is gathered, and rewritten in UTF-8 as a whole.
        self._carried.append(text)
        self._carried_size += len(text)
        if self._carried_size > _LARGEST_CARRIED:
            raise _NotRewritable("charset")
        if not final:
            return b""
        whole = to_utf8(b"".join(self._carried), self._charset)
        if whole is None:
            raise _NotRewritable("charset")
        self._check_beginning(whole, final=True)
        return from_utf8(page.feed(whole, final=True), self._charset)

    def _recognise(self, start: bytes, *, final: bool) -> bool:
        """Find out how the body must be read; False where more must come first."""
        if _ROOT.match(start) and _UTF_8.fullmatch(self._content_type):
            # Nearly every page.
            return True
        if not final and not tells_charset(self._content_type, start):
            return False
        self._charset = carried_charset(self._content_type, start)
        return self._charset is not None or self._check_beginning(start, final=final)

    def _check_beginning(self, start: bytes, *, final: bool) -> bool:
        """
        Find out whether the body is rewritten, and as what; False where more must come first.

        A fragment that a script asked for goes into another page, named by the referrer, and is marked as part of it.
        """
        beginning = beginning_of(start, final=final)
        if beginning == "text":
            raise _NotRewritable("fragment")
        if beginning == "fragment" and self.visit.kind not in {"page", "prefetch"}:
            page, app = self._page, self._app
            if page is None or not app.rules.marks:
                raise _NotRewritable("fragment")
            parent = resolve(self.visit.referrer.encode("latin-1"), page.location)
            page.treat_as_fragment(app.gate.pages.remember(parent[0].decode("latin-1")) if parent else page.parent)
            self._is_fragment = True
        return beginning is not None

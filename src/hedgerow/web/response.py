"""
Rewrites a response on its way to the client, message by message.

A `ResponseRewriter` takes the place of the server's `send` and forwards most messages unchanged. It holds the start of
a page until the first bytes of the body have arrived. Only then is it known whether the page can be rewritten, whether
these bytes are all of it, and what its headers must be.

Only `text/html` is rewritten, and only if its content coding and charset can be decoded and encoded again. Every other
body is forwarded byte for byte.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from hedgerow.challenge.clearance import own_cookie
from hedgerow.core.decision import CLOSED, Decision
from hedgerow.core.request_kind import kind_of
from hedgerow.core.visit import ELSEWHERE, INTO_WINDOW, Kind, Visit
from hedgerow.detectors.marker_integrity import next_generation
from hedgerow.markers.clean import SCRIPT_HASH
from hedgerow.markers.encoding import VISITOR_BYTES
from hedgerow.markers.html.charset import carried_charset, from_utf8, tells_charset, to_utf8
from hedgerow.markers.html.content_coding import BrokenCoding, Decoder, Encoder, codec
from hedgerow.markers.html.csp import forbids_scripts
from hedgerow.markers.html.listing import is_listing
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.rewrite import PageRewriter, readable_address
from hedgerow.markers.scripts import LINKS_HASH, WORKER_SCRIPT
from hedgerow.markers.token import TokenCodec, page_digest, visitor_digest
from hedgerow.request.browser_signs import asks_for_privacy, is_page_view
from hedgerow.request.client_kind import claims_styles
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.request.path_cookies import COPY, spread_cookie
from hedgerow.traps.bait import Bait
from hedgerow.web.app import App
from hedgerow.web.asgi_types import AsgiApp, Message, Receive, Scope, Send
from hedgerow.web.challenge.pages import CLEARANCE_SCRIPT
from hedgerow.web.response_headers import (
    POLICIES,
    Headers,
    changed_headers,
    has_our_etag,
    header,
    is_attachment,
    is_html,
    marked_headers,
    page_script,
    permitting_headers,
    private_headers,
)

_OK = 200
_SUCCESS = range(200, 300)
_PARTIAL = 206
_FOUND = 302
_NOT_MODIFIED = 304
_NO_BODY = frozenset({204, 205})
_PARTS = b"multipart/byteranges"
_HTML_PART = re.compile(rb"\ncontent-type[\t ]*:[\t ]*text/html", re.IGNORECASE)
_XHTML = b"application/xhtml+xml"

# What may precede a page. Atomic and possessive: otherwise a few dozen comments could be split in millions of ways.
_PREAMBLE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[\t\n\f\r ]++|(?><!--.*?-->)|<\?[^>]*+>)*+", re.DOTALL)
# Some minifiers write "<!doctypehtml>", and browsers accept it.
_ROOT = re.compile(rb"<(?:!doctype|html(?=[\t\n\f\r />]))", re.IGNORECASE)
_UTF_8 = re.compile(rb"text/html; ?charset=utf-8", re.IGNORECASE)
_MAY_BEGIN = (b"<!doctype", b"<html ", b"<!--", b"<?")
_MAX_START = 8_192
_MAX_TRANSCODED = 1_048_576
_MAX_HELD = 2_097_152
# Of a page larger than the limit, a coded one may not grow by more than this: gzip cannot, and no real page does.
_MAX_GROWTH = 1_200
_MAX_PIECE = 262_144
_PAUSE_AFTER = 0.004
_MAX_LINKED_VISITORS = 4
_COOKIE_AGE = 30 * 86_400


class _NotRewritable(Exception):  # noqa: N818 - an outcome, not a fault
    """The body must be forwarded unchanged; nothing of it has been sent yet."""

    def __init__(self, reason: Literal["coding", "broken", "charset", "fragment", "large"]) -> None:
        self.reason = reason
        super().__init__(reason)


def beginning_of(start: bytes, *, final: bool) -> Literal["document", "fragment", "text"] | None:
    """
    Tell by its *start* whether a body is a page, a fragment of one, or no HTML, such as JSON with a wrong type.

    Returns None if more bytes are needed; with *final* there are no more.
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
def visitor_cookie(codec: TokenCodec, issued_to: bytes, visitors: bytes, *, secure: bool) -> bytes:
    """Return the cookie that names *visitors*. A client that drops it gets the same one with every page."""
    token = codec.seal("visitor", issued_to, bytes(VISITOR_BYTES), visitors)
    name, more = own_cookie(VISITOR_COOKIE, secure=secure), b"; Secure" if secure else b""
    return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%b" % (name, token, _COOKIE_AGE, more)


class ResponseRewriter:
    """
    Forwards one response; if it is a page, its links are marked and hidden links are added.

    *request_headers* show whether the client has the rewritten page and asks if it is still valid. If the application
    responds with a part of a page, `is_range` is set and nothing is forwarded: the caller must request the whole page.

    A visit that claimed to want an image, and is answered with a page, is decided on again as a page view: `visit` and
    `decision` then change. If `is_stopped` is set, nothing has been forwarded: the caller must refuse the visit.
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
        self.answered_at = 0.0
        self.rewrite_seconds = 0.0
        self.started = False
        self.is_range = False
        self.is_stopped = False
        self._app = app
        self._send = send
        self._secure = scheme == "https"
        self._request_headers = request_headers
        paths = app.gate.engine.paths
        self._rule = paths.find(visit.target) if paths is not None else None
        is_changed = app.changes_pages and not visit.bot and not (self._rule is not None and self._rule.is_off)
        self._page = self._page_rewriter(scheme) if is_changed else None
        # The start of a page while it is held, and the body received since.
        self._start: Message | None = None
        self._held: list[bytes] = []
        self._is_rewriting = False
        self._is_over = False
        # What follows the body of a response that is forwarded.
        self._suffix = b""
        self._paused_at = time.perf_counter()

    def _page_rewriter(self, scheme: str) -> PageRewriter:
        app, visit = self._app, self.visit
        prefix = app.settings.marker.prefix
        is_opaque = visit.marker is not None and visit.raw_target.startswith(prefix)
        return PageRewriter(
            PageLocation(scheme.encode(), visit.host.encode("latin-1"), visit.target.encode("latin-1")),
            app.rules,
            prefix.encode(),
            app.skeletons,
            app.tokens.of(visit.host),
            visitor_digest(visit.visitor),
            app.gate.pages.remember(visit.target),
            at=visit.at,
            generation=next_generation(visit),
            # A readable address shows where the page is.
            shown_at=visit.raw_target.encode("latin-1") if is_opaque else b"",
            most_links=app.settings.marker.page_links,
        )

    async def request(self, app: AsgiApp, scope: Scope, receive: Receive) -> None:
        """Let the application respond."""
        await app(scope, receive, self)

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            # In ASGI the headers may be missing, or any iterable.
            message = {**message, "headers": list(message.get("headers", ()))}
            self.status, self.answered_at = message["status"], time.perf_counter()
            await self._refuse_closed(message["headers"])
            if self._app.license_link and is_html(header(message["headers"], b"content-type")):
                message["headers"].append((b"link", self._app.license_link))
            if not self.is_stopped and await self._must_hold(message):
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
        elif kind == "http.response.body" and self._suffix and not message.get("more_body", False):
            message = {**message, "body": message.get("body", b"") + self._suffix}
        if not (self.is_range or self.is_stopped or self._is_over):
            await self._send(message)

    def finish(self) -> None:
        """Complete `decision` when the response is over, or its client has left."""

    # ---- The start of a response

    async def _refuse_closed(self, headers: Headers) -> None:
        """Stop HTML of a page that opens only by a marked link, whatever the request says that the HTML is for."""
        visit = self.visit
        if visit.marker is None and not visit.bot and self._app.rules.is_closed(visit.target):
            content_type = header(headers, b"content-type")
            if is_html(content_type) or content_type[: len(_XHTML)].lower() == _XHTML:
                await self._count_as_page()

    async def _must_hold(self, start: Message) -> bool:
        """Return whether the response is a page to rewrite. The headers of a page without a body are changed here."""
        page = self._page
        self._mark_headers(start)
        headers: Headers = start["headers"]
        if self.visit.bot:
            return False
        if self.status == _NOT_MODIFIED:
            if has_our_etag(header(self._request_headers, b"if-none-match")):
                # The page in the browser's cache came with a policy that allows our style: it stays.
                start["headers"] = [pair for pair in changed_headers(headers) if pair[0].lower() not in POLICIES]
            return False
        content_type = header(headers, b"content-type")
        if page is not None and self._is_service_worker(headers, content_type):
            self._suffix = WORKER_SCRIPT
            start["headers"] = changed_headers(headers)
            return False
        if self._may_be_parts_of_page(content_type):
            return True
        if not is_html(content_type) or is_attachment(headers):
            if content_type[: len(_XHTML)].lower() == _XHTML:
                # Not rewritten, but a page.
                await self._count_as_page()
            elif self.visit.kind == "page" and self.visit.method == "GET" and self.status in _SUCCESS:
                # Only the address looked like a page's: an API, a download, git. Such visits come by the hundred.
                await self._decide_again("asset")
            return False
        if page is None:
            # Without reading the body, a fragment looks like a page; but an image is never HTML.
            if self.visit.kind == "asset":
                await self._count_as_page()
            return False
        if self.visit.method == "HEAD" or self.status in _NO_BODY:
            start["headers"] = self._page_headers(page, headers)
            return False
        self.is_range = self.status == _PARTIAL and self.visit.method == "GET"
        return True

    def _is_service_worker(self, headers: Headers, content_type: bytes) -> bool:
        """Return whether the response is a service worker, which must not take two marks for two pages."""
        return (
            "clean" in self._app.rules.modes
            and header(self._request_headers, b"service-worker") == b"script"
            and (self.visit.method, self.status) == ("GET", _OK)
            and b"javascript" in content_type.lower()
            and header(headers, b"content-encoding").strip().lower() in {b"", b"identity"}
        )

    def _spread_cookies(self, headers: Headers) -> Headers:
        """Return the headers with cookies that also reach opaque addresses, if the browser may have some."""
        cookies, hidden = header(self._request_headers, b"cookie"), self.visit.is_path_hidden
        if not (hidden or "opaque" in self._app.rules.modes or COPY in cookies):
            return headers
        path = self.visit.path.encode("latin-1")
        spread: Headers = []
        for pair in headers:
            if pair[0].lower() == b"set-cookie":
                values = spread_cookie(pair[1], path, cookies, self.visit.at, hidden=hidden)
                spread += [(pair[0], value) for value in values]
            else:
                spread.append(pair)
        return spread

    def _mark_headers(self, start: Message) -> None:
        if self._page is None or not self._app.rules.marks:
            return
        headers: Headers = start["headers"]
        # A script reads where its request ended, and may show that address or compare it with others.
        rules = self._app.rules
        if self.visit.kind != "call" or not rules.is_clean or rules.closes_pages:
            headers = marked_headers(headers, self._page.mark, self.status)
        start["headers"] = self._spread_cookies(headers)

    def _may_be_parts_of_page(self, content_type: bytes) -> bool:
        """Return whether the response may be several parts of a page. Their type is in the body, before the first."""
        is_multipart = self.status == _PARTIAL and content_type[: len(_PARTS)].lower() == _PARTS
        return is_multipart and kind_of(self.visit.method, self.visit.target) == "page"

    async def _count_as_page(self) -> None:
        """
        Decide again on a visit that claimed to be something else and is answered with a page.

        Error pages do not count: a person whose fifty images are missing gets fifty of them. Only a GET is stopped,
        because any other request has been carried out already. A closed page is not shown in any case.
        """
        kind: Kind = "prefetch" if self.visit.prefetch else "page"
        if self.visit.kind == kind or self.status not in _SUCCESS:
            return
        await self._decide_again(kind)
        is_refused = self.decision.action != "pass" and (self.visit.method == "GET" or self.decision.code == CLOSED)
        self.is_stopped = is_refused and not self.decision.observed

    async def _decide_again(self, kind: Kind) -> None:
        self.visit, self.decision = await self._app.gate.reclassify(self.visit, kind)

    # ---- The body of a page

    async def _begin(self, message: Message, start: Message) -> None:
        """Process the body messages of a page until there is output."""
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        if self._may_be_parts_of_page(header(start["headers"], b"content-type")):
            await self._begin_parts(message, start)
            return
        try:
            if not self._is_rewriting:
                self._open(start["headers"])
            piece = b"".join([part async for part in self._rewrite(body, final=not more)])
        except _NotRewritable as outcome:
            if outcome.reason != "fragment":
                await self._count_as_page()
                self._is_over = self.is_stopped
            if not self._is_over:
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

    async def _begin_parts(self, message: Message, start: Message) -> None:
        """Forward several parts of a file. Parts of a page are not forwarded: the caller requests the whole page."""
        held = b"".join([*self._held, message.get("body", b"")])
        head, end, _ = held[:_MAX_START].lstrip(b"\r\n").partition(b"\r\n\r\n")
        if not end and len(held) < _MAX_START and message.get("more_body", False):
            self._held = [held]
            return
        if not _HTML_PART.search(head):
            if self.visit.kind == "page":
                await self._decide_again("asset")
        elif self._page is not None:
            self.is_range = True
            return
        else:
            await self._count_as_page()
            self._is_over = self.is_stopped
        if not self._is_over:
            await self._give_up(message, start, "fragment")

    async def _go_on(self, message: Message) -> None:
        more: bool = message.get("more_body", False)
        out, size = [], 0
        async for piece in self._rewrite(message.get("body", b""), final=not more):
            out.append(piece)
            size += len(piece)
            if size > _MAX_PIECE:
                await self._send({"type": "http.response.body", "body": b"".join(out), "more_body": True})
                out, size = [], 0
        if size or not more:
            await self._send({"type": "http.response.body", "body": b"".join(out), "more_body": more})

    async def _give_up(self, message: Message, start: Message, reason: str) -> None:
        """Forward everything that was received, unchanged."""
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
        Return the readable address of a page that was requested by an opaque one, but is owned by a script.

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
        bait = None
        if self._has_hidden_links():
            has_policy = any(name.lower() in POLICIES for name, _ in headers)
            has_text = self._may_have_text_bait()
            bait = Bait(page.issued_to, page.parent, has_text=has_text, has_policy=has_policy)
            page.add_bait(
                bait.style, bait.link_start, traps.placement, traps.every, wrappers=bait.wrappers,
                text_style=bait.text_style,
            )  # fmt: skip
        self._headers = self._page_headers(page, headers, bait, self._add_scripts(page, headers))
        self._add_page_script(page)
        self._content_type = header(headers, b"content-type")
        content_encoding = header(headers, b"content-encoding").strip().lower()
        self._coding: tuple[Decoder, Encoder] | None = None
        if content_encoding not in {b"", b"identity"}:
            self._coding = codec(content_encoding)
            if self._coding is None:
                raise _NotRewritable("coding")
        self._is_rewriting = True
        self._is_fragment = False
        # The beginning of the body until its kind is known.
        self._beginning: bytes | None = b""
        self._has_output = False
        self._fed = self._decoded = 0
        # A charset in which the body cannot be scanned as bytes, and the body so far.
        self._charset: str | None = None
        self._collected: list[bytes] = []
        self._collected_size = 0

    def _has_hidden_links(self) -> bool:
        """Return whether the page gets hidden links, by the rule for its path or by the settings of the site."""
        said = self._rule.rule.traps if self._rule is not None else None
        return self._app.settings.traps.enabled if said is None else said

    def _may_have_text_bait(self) -> bool:
        """
        Return whether hidden links may have text: in a page that a browser with style sheets loads to show it.

        Not in a page that a script requests: the script may take a part of it, without our style.
        """
        return (
            self._app.settings.traps.text
            and self.visit.kind in {"page", "prefetch"}
            and claims_styles(
                self.visit.user_agent,
                header(self._request_headers, b"accept"),
                header(self._request_headers, b"sec-fetch-dest"),
            )
        )

    def _add_scripts(self, page: PageRewriter, headers: Headers) -> bytes:
        """Add the scripts that hide clean marks; return what a content security policy must allow."""
        if "clean" not in self._app.rules.modes or any(
            name.lower() in POLICIES and forbids_scripts(value) for name, value in headers
        ):
            return b""
        hashes = []
        if self._shows_mark():
            page.add_script()
            hashes.append(SCRIPT_HASH)
        if not self._app.rules.closes_pages:
            page.add_links_script()
            hashes.append(LINKS_HASH)
        return b" ".join(hashes)

    def _add_page_script(self, page: PageRewriter) -> None:
        """Have a visitor without a clearance obtain one while it reads the page, and have the page report signs."""
        app, own = self._app, self._app.settings.challenge
        if not app.clears_silently:
            return
        needs_clearance = app.gate.needs_clearance(self.visit, self.decision) and not self._is_framed()
        if self._reports_signs():
            attributes = b" data-signs" if needs_clearance else b' data-signs="only"'
        elif needs_clearance:
            attributes = b""
        else:
            return
        is_urgent = needs_clearance and self.decision.owes
        path = own.path.encode()
        # Scripts that show the pages of a site run an element that they have not seen before.
        urgent = b' data-urgent="%d"' % self.visit.at if is_urgent else b""
        self._headers, element = page_script(
            self._headers, self.visit.host.encode("latin-1"), path, path + CLEARANCE_SCRIPT,
            attributes + urgent, at_once=is_urgent,
        )  # fmt: skip
        page.add_clearance_script(element)

    def _is_framed(self) -> bool:
        """
        Return whether a page of another site, not only of another sub-domain, shows this one in itself.

        There the browser keeps no clearance, and each that is obtained would raise the price of the next.
        """
        is_other = header(self._request_headers, b"sec-fetch-site") == b"cross-site"
        return is_other and ELSEWHERE in self.visit.anomalies and INTO_WINDOW not in self.visit.anomalies

    def _reports_signs(self) -> bool:
        """Return whether the page reports how it is used: in a window of a browser that does not ask otherwise."""
        return (
            self._app.reports_signs
            and is_page_view(self.visit)
            and self.visit.visitor != ""
            and not asks_for_privacy(self._request_headers)
        )

    def _shows_mark(self) -> bool:
        """Return whether the browser shows an address with a clean mark, or what is left of one."""
        visit = self.visit
        return visit.raw_target not in {"", visit.target} and not visit.raw_target.startswith(
            self._app.settings.marker.prefix
        )

    def _page_headers(
        self, page: PageRewriter, headers: Headers, bait: Bait | None = None, script_hashes: bytes = b""
    ) -> Headers:
        headers = permitting_headers(
            changed_headers(headers), bait.style_hash if bait is not None else None,
            base=page.needs_base, script_hash=script_hashes,
        )  # fmt: skip
        if not self._app.rules.marks:
            return headers
        headers = private_headers(headers)
        linked = self.visit.linked
        if page.issued_to not in linked:
            # Links this visitor to the earlier ones of the same browser.
            visitors = b"".join([*linked, page.issued_to][-_MAX_LINKED_VISITORS:])
            # That of the page may be for another generation.
            of_site = self._app.tokens.of(self.visit.host)
            headers.append((b"set-cookie", visitor_cookie(of_site, page.issued_to, visitors, secure=self._secure)))
        return headers

    # ---- The bytes of a page

    async def _rewrite(self, data: bytes, *, final: bool) -> AsyncIterator[bytes]:
        """
        Take the next bytes of the body and yield the output for the client, in pieces.

        Other requests run in between, so that a large page does not stop them. Raises `_NotRewritable` only before the
        first output is sent. Raises BrokenCoding if the body is damaged later; then the connection must be cut, as the
        upstream's would have been.
        """
        self._paused_at = began = time.perf_counter()
        self._fed += len(data)
        has_output = False
        if self._coding is None:
            if out := await self._rewrite_text(data, final=final):
                has_output = True
                yield out
        else:
            async for out in self._recode(*self._coding, data, final=final):
                has_output = True
                yield out
        self.rewrite_seconds += time.perf_counter() - began
        if has_output or final:
            self._has_output = True
        elif not self._has_output and self._fed > _MAX_HELD:
            # The input is held until there is output, and a coded body may decode to nothing for ever.
            raise _NotRewritable("broken")

    async def _recode(self, decoder: Decoder, encoder: Encoder, data: bytes, *, final: bool) -> AsyncIterator[bytes]:
        """Decode, rewrite and encode *data* in steps, so that only a part of the decoded text is in memory."""
        has_output = False
        text: bytes | None = None
        try:
            for piece in _decoded(decoder, data, final=final):
                await self._pause()
                if not piece:
                    continue
                if text is not None and (rewritten := await self._rewrite_text(text, final=False)):
                    has_output = True
                    yield encoder.feed(rewritten)
                text = piece
            if (text is not None or final) and (rewritten := await self._rewrite_text(text or b"", final=final)):
                has_output = True
                yield encoder.feed(rewritten)
        except BrokenCoding:
            if self._has_output:
                raise
            raise _NotRewritable("broken") from None
        if has_output or final:
            yield encoder.flush(final=final)

    async def _pause(self) -> None:
        """Let other requests run if this one has been running for some milliseconds."""
        if time.perf_counter() - self._paused_at > _PAUSE_AFTER:
            await self._app.waiter.sleep(0)
            self._paused_at = time.perf_counter()

    async def _rewrite_text(self, text: bytes, *, final: bool) -> bytes:
        page = self._page
        assert page is not None
        self._decoded += len(text)
        self._limit_size(page)
        if self._beginning is not None:
            text = self._beginning + text
            is_enough = final or len(text) > _MAX_START
            listing = is_listing(text, self.visit.target, final=is_enough)
            if not self._recognise(text, final=is_enough) or listing is None:
                self._beginning = text
                return b""
            self._beginning = None
            if listing:
                page.remove_bait()
        if self._charset is None:
            return await self._feed(page, text, final=final)
        # Such a page is collected, and rewritten in UTF-8 as a whole.
        self._collected.append(text)
        self._collected_size += len(text)
        if self._collected_size > _MAX_TRANSCODED:
            raise _NotRewritable("charset")
        if not final:
            return b""
        whole = to_utf8(b"".join(self._collected), self._charset)
        if whole is None:
            raise _NotRewritable("charset")
        self._check_beginning(whole, final=True)
        return from_utf8(await self._feed(page, whole, final=True), self._charset)

    async def _feed(self, page: PageRewriter, text: bytes, *, final: bool) -> bytes:
        was_stopped = page.is_stopped
        steps = page.feeding(text, final=final)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                out: bytes = end.value
                break
            await self._pause()
        if page.is_stopped and not was_stopped:
            self._note_large()
        return out

    def _limit_size(self, page: PageRewriter) -> None:
        """Leave a page as it is from where it is too large; of one that was sent at once, everything."""
        if not page.is_stopped:
            if self._decoded > self._app.settings.marker.page_bytes:
                page.stop()
                self._note_large()
        elif self._decoded > _MAX_GROWTH * self._fed:
            raise BrokenCoding("the body is a compression bomb")

    def _note_large(self) -> None:
        if not self._has_output:
            raise _NotRewritable("large")
        self._app.counters.count_skipped("large", self.visit.target)

    def _recognise(self, start: bytes, *, final: bool) -> bool:
        """Find out how the body must be read; False if more bytes are needed."""
        if _ROOT.match(start) and _UTF_8.fullmatch(self._content_type):
            # Nearly every page.
            return True
        if not final and not tells_charset(self._content_type, start):
            return False
        self._charset = carried_charset(self._content_type, start)
        return self._charset is not None or self._check_beginning(start, final=final)

    def _check_beginning(self, start: bytes, *, final: bool) -> bool:
        """
        Find out whether the body is a page or a fragment; False if more bytes are needed.

        A fragment that a script requested becomes part of another page, named by the referrer, and is marked as such.
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

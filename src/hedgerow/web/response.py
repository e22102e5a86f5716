"""
The application's answer on its way to the client, message by message.

An `ResponseRewriter` stands in for the server's `send`. Most messages go straight through. The start of a page is held
back until its first piece is there: only then is it known whether the page can be read, whether the piece is all of it,
and so what its headers must say.
"""

from __future__ import annotations

from functools import lru_cache

from hedgerow.core.decision import Decision
from hedgerow.core.request_kind import kind_of
from hedgerow.core.visit import Kind, Visit
from hedgerow.markers.html.csp import allow_base, allow_style
from hedgerow.markers.prepare import PARAMETER, Fill, Preparer, based, is_deep
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.response_headers import keeps_referrers, marked_link, marked_refresh, private, widened_cookie
from hedgerow.markers.rewrite import PageWriter, Rewriter
from hedgerow.markers.rules import Spacing
from hedgerow.markers.token import VISITOR_BYTES, TokenCodec, page_digest, visitor_digest
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.traps.bait import Bait
from hedgerow.traps.robots_txt import LIMIT, disallow, refuse
from hedgerow.web.asgi_types import Message, Send
from hedgerow.web.html_response import Headers, NotRewritable, Outgoing, header, is_html, touched_headers
from hedgerow.web.site import Site

_OK = 200
_GOOD = range(200, 300)
_PARTIAL = 206
_FOUND = 302
_NOT_MODIFIED = 304
_NO_BODY = frozenset({204, 205})
_MISSING = frozenset({401, 403, 404, 410})
_PARTS = b"multipart/byteranges"
_XML = b"application/xhtml+xml"
_NOT_COUNTED = "fragment"
_POLICIES = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
_MOST_LINKED = 4
_COOKIE_AGE = 30 * 86_400


class ResponseRewriter:
    """
    One answer: passes it on, with bait where it is a page.

    *known* says that the client has the page, with bait, and asks whether it is still good. When the application
    answers with a part of a page, `is_range` is set and nothing is passed on: the caller asks again for the whole.

    A visit that claimed to want an image and is answered with a page is counted as what it is, and decided on anew:
    `visit` and `decision` are then others. Where that `is_stopped`, nothing has been passed on: the caller turns it
    away.
    """

    def __init__(
        self, site: Site, visit: Visit, decision: Decision, send: Send, *, scheme: str = "http", known: bool = False
    ) -> None:
        self.visit = visit
        self.decision = decision
        self.status = 0
        self.started = False
        self.is_range = False
        self.is_stopped = False
        self._site = site
        self._send = send
        self._page = Page(site, visit, scheme) if site.changes(visit) else None
        self._known = known
        self._start: Message | None = None
        self._outgoing: Outgoing | None = None
        self._headers: Headers = []
        self._raw: list[bytes] = []
        self._over = False

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            # ASGI lets headers be missing, or be anything that can be gone through once.
            start = {**message, "headers": list(message.get("headers", ()))}
            self.status = start["status"]
            if await self._must_hold(start):
                self._start = start
                return
            self.started = not self.is_stopped
            message = start
        elif kind == "http.response.body" and self._start is not None:
            if not (self.is_range or self._over):
                await self._begin(message, self._start)
            return
        elif kind == "http.response.body" and self._outgoing is not None:
            await self._go_on(message, self._outgoing)
            return
        if not (self.is_range or self.is_stopped or self._over):
            await self._send(message)

    async def _must_hold(self, start: Message) -> bool:
        """Whether the answer is a page to be changed; where it is one without a body its headers are set right."""
        if self._page is not None:
            start["headers"] = self._page.headers(start["headers"])
        headers: Headers = start["headers"]
        if self.visit.bot:
            return False
        if self.status == _NOT_MODIFIED:
            if self._known:
                start["headers"] = touched_headers(headers)
            return False
        content_type = header(headers, b"content-type")
        if not self._is_page(content_type):
            # A page in XML gets no bait, and is a page all the same.
            is_xml = content_type[: len(_XML)].lower() == _XML
            if self.visit.kind == "page" and self.visit.method == "GET" and self.status in _GOOD and not is_xml:
                # Its address looked like a page's: an API, a download, git. Such visits come by the hundred.
                self.visit, self.decision = await self._site.gate.correct_async(self.visit, "asset")
            return False
        if self._page is None:
            # Nothing is read, so a fragment is not told from a page; but no image is written in HTML.
            if self.visit.kind == "asset":
                await self._correct()
            return False
        if self.visit.method == "HEAD" or self.status in _NO_BODY:
            start["headers"] = self._page.page_headers(touched_headers(headers))
            return False
        self.is_range = self.status == _PARTIAL and self.visit.method == "GET"
        return True

    def _is_page(self, content_type: bytes) -> bool:
        """Whether the answer is a page, or several parts of what may be one: their own type is hidden among them."""
        if self.status == _PARTIAL and content_type[: len(_PARTS)].lower() == _PARTS:
            return kind_of(self.visit.method, self.visit.target) == "page"
        return is_html(content_type)

    async def _begin(self, message: Message, start: Message) -> None:
        """The first piece of a page, and those after it until something of the page is settled."""
        body: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        try:
            if self._outgoing is None:
                self._outgoing = self._open(start["headers"])
            piece = self._outgoing.feed(body, final=not more)
        except NotRewritable as untouchable:
            self._outgoing = None
            await self._give_up(message, start, untouchable.reason)
            return
        self._raw.append(body)
        if not piece and more:
            return
        self._raw.clear()
        if not self._outgoing.is_fragment:
            await self._correct()
        if self.is_stopped:
            self._over = True
            return
        elsewhere = self._page.shown_at() if self._page is not None and self.visit.method == "GET" else b""
        if elsewhere and self.status in _GOOD:
            await self._redirect(elsewhere)
            return
        if not more:
            self._headers.append((b"content-length", b"%d" % len(piece)))
        self._start = None
        self.started = True
        await self._send({**start, "headers": self._headers})
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def _redirect(self, address: bytes) -> None:
        """Send the client to another address of the page, in place of the page. What the site has set stays set."""
        self.status = _FOUND
        self._start = self._outgoing = None
        self._over = self.started = True
        cookies = [(name, value) for name, value in self._headers if name.lower() == b"set-cookie"]
        said = [(b"location", address), (b"cache-control", b"no-store"), (b"content-length", b"0")]
        await self._send({"type": "http.response.start", "status": _FOUND, "headers": [*said, *cookies]})
        await self._send({"type": "http.response.body", "body": b""})

    async def _correct(self) -> None:
        """
        The answer is a page: count the visit as one where it claimed to be something else.

        Not where the answer is an error: a person whose fifty images are missing got fifty pages that say so. And only
        a GET is stopped now; anything else has been carried out, and its answer is owed.
        """
        kind: Kind = "prefetch" if self.visit.prefetch else "page"
        if self.visit.kind == kind or self.status not in _GOOD:
            return
        self.visit, self.decision = await self._site.gate.correct_async(self.visit, kind)
        self.is_stopped = (
            self.decision.action != "pass" and self.visit.method == "GET" and not self._site.settings.observe
        )

    def _open(self, headers: Headers) -> Outgoing:
        """Make ready to read the page, and its headers to be sent."""
        assert self._page is not None
        rewriter, bait = self._page.rewriter()
        self._headers = self._page.page_headers(touched_headers(headers), bait)
        by_script = self.visit.kind not in {"page", "prefetch"}
        return Outgoing(
            header(headers, b"content-type"),
            header(headers, b"content-encoding"),
            rewriter,
            only_documents=by_script,
            fragments=self._page.fragment_rewriter() if by_script else None,
        )

    async def _go_on(self, message: Message, outgoing: Outgoing) -> None:
        more: bool = message.get("more_body", False)
        piece = outgoing.feed(message.get("body", b""), final=not more)
        if piece or not more:
            await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def _give_up(self, message: Message, start: Message, reason: str) -> None:
        """Pass on what came, as it came."""
        if reason != _NOT_COUNTED:
            self._site.pass_untouched(reason, self.visit.target)
        self._start = None
        self.started = True
        await self._send(start)
        held, self._raw = self._raw, []
        await self._send({**message, "body": b"".join([*held, message.get("body", b"")])})


class RobotsResponseRewriter(ResponseRewriter):
    """
    The site's robots.txt, with our links disallowed: gathered as a whole, made up where there is none.

    The application is always asked by GET, because the length of what a HEAD would get depends on all of it.
    """

    _size = 0

    async def __call__(self, message: Message) -> None:
        if self.visit.method == "HEAD" and self._start is None and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await super().__call__(message)

    async def _must_hold(self, start: Message) -> bool:
        coded = header(start["headers"], b"content-encoding")
        if start["status"] == _OK and coded:
            self._site.pass_untouched("coding", self.visit.target)
            return False
        return start["status"] == _OK or start["status"] in _MISSING

    async def _begin(self, message: Message, start: Message) -> None:
        piece = message.get("body", b"")
        self._raw.append(piece)
        self._size += len(piece)
        if message.get("more_body", False) and self._size <= LIMIT:
            return
        headers: Headers = start["headers"]
        if start["status"] == _OK and not is_html(header(headers, b"content-type")):
            body = self._ours(b"".join(self._raw))
            kept = touched_headers(headers)
        else:
            # None, or an application that answers everything with its start page.
            body = self._ours(b"")
            kept = [(b"content-type", b"text/plain; charset=utf-8")]
            self.status = _OK
        self._over = self.started = True
        kept.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": self.status, "headers": kept})
        await self._send({"type": "http.response.body", "body": b"" if self.visit.method == "HEAD" else body})

    def _ours(self, robots: bytes) -> bytes:
        """The site's robots.txt as we send it."""
        site = self._site
        if site.refused_agents:
            robots = refuse(robots, site.refused_agents)
        return disallow(robots, site.settings.marker.prefix) if site.disallows_marked else robots


@lru_cache(maxsize=1 << 12)
def _cookie_of(seal: TokenCodec, issued_to: bytes, known: bytes, *, secure: bool) -> bytes:
    """The cookie for a visitor. Who does not keep it gets the same with every page."""
    token = seal.seal("visitor", issued_to, bytes(VISITOR_BYTES), known)
    more = b"; Secure" if secure else b""
    return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%b" % (VISITOR_COOKIE, token, _COOKIE_AGE, more)


def _readable(target: bytes, token: bytes) -> bytes:
    return target + (b"&" if b"?" in target else b"?") + PARAMETER + b"=" + token


class Page:
    """The answer to one visit: which of its headers change, and how its HTML does."""

    def __init__(self, site: Site, visit: Visit, scheme: str) -> None:
        self._site = site
        self._visit = visit
        self._seal = site.seal(visit)
        self._prefix = site.settings.marker.prefix.encode()
        self._place = PageLocation(scheme.encode(), visit.host.encode("latin-1"), visit.target.encode("latin-1"))
        self._minted_for = visitor_digest(visit.visitor)
        self._parent = site.gate.pages.remember(visit.target)
        self._secure = scheme == "https"
        # Only an opaque address hides where the page is.
        self._marked = visit.asked.startswith(site.settings.marker.prefix) if visit.marker else False

    def rewriter(self) -> tuple[Rewriter, Bait | None]:
        """What rewrites the page, and the bait in it."""
        site, traps = self._site, self._site.settings.traps
        bait = Bait(self._minted_for, self._parent) if traps.enabled else None

        def preparer() -> Preparer:
            spacing = Spacing(traps.placement, traps.every) if traps.enabled else None
            return Preparer(self._place, site.rules, self._prefix, marked=self._marked, spacing=spacing)

        fills: dict[Fill, bytes] = {"here": self._visit.asked.encode("latin-1"), "base": based(self._place.target)}
        if bait is not None:
            fills |= {"style": bait.style, "lure": bait.lure}
        writer = self._writer = PageWriter(self._seal, self._minted_for, self._parent, fills)
        return Rewriter(preparer, writer, site.skeletons, (self._place, self._marked, id(site.rules))), bait

    def shown_at(self) -> bytes:
        """
        Where the page must be shown instead, as far as it has been written: in readable mode, because it is a script's.

        Such a script (Next, Nuxt, Angular, ...) looks at the address to tell which page it is. b"" where the page may
        stay where it is.
        """
        visit = self._visit
        if not self._marked or visit.marker is None or not self._writer.is_scripted:
            return b""
        token = self._seal.seal("page", self._minted_for, visit.marker.parent, page_digest(visit.target))
        return _readable(visit.target.encode("latin-1"), token)

    def fragment_rewriter(self) -> Rewriter | None:
        """
        What rewrites a fragment that a script has asked for, to put it into its page; None where links stay.

        Its links are marked as those of that page are, which the referrer names. It gets nothing else.
        """
        site = self._site
        if not site.rules.marks:
            return None
        page = resolve(self._visit.referrer.encode("latin-1"), self._place)
        parent = site.gate.pages.remember(page[0].decode("latin-1")) if page else self._parent

        def preparer() -> Preparer:
            return Preparer(self._place, site.rules, self._prefix, marked=False, inserted=True)

        writer = PageWriter(self._seal, self._minted_for, parent, {})
        return Rewriter(preparer, writer, site.skeletons, (self._place, "inserted", id(site.rules)))

    def headers(self, headers: Headers) -> Headers:
        """The headers of any answer, changed where they carry addresses."""
        if not self._site.rules.marks:
            return headers
        return [(name, self._header(name.lower(), value)) for name, value in headers]

    def page_headers(self, headers: Headers, bait: Bait | None = None) -> Headers:
        """Those that a page needs besides: it is for one visitor, no other site's business, and our style must hold."""
        if bait is not None:
            headers = [(n, allow_style(v, bait.style_hash) if n.lower() in _POLICIES else v) for n, v in headers]
        if self._marked and is_deep(self._place.target):
            headers = [(n, allow_base(v) if n.lower() in _POLICIES else v) for n, v in headers]
        if not self._site.rules.marks:
            return headers
        names = {name.lower() for name, _ in headers}
        kept = [
            (n, private(v) if n.lower() == b"cache-control" else v)
            for n, v in headers
            if n.lower() != b"referrer-policy" or keeps_referrers(v)
        ]
        if b"cache-control" not in names:
            kept.append((b"cache-control", b"private"))
        if not any(name.lower() == b"referrer-policy" for name, _ in kept):
            kept.append((b"referrer-policy", b"strict-origin-when-cross-origin"))
        cookie = self._cookie()
        return [*kept, (b"set-cookie", cookie)] if cookie else kept

    def _header(self, name: bytes, value: bytes) -> bytes:
        if name in {b"location", b"content-location"}:
            marked = self.mark(value)
            return value if marked is None else marked
        if name == b"refresh":
            return marked_refresh(value, self.mark)
        if name == b"link":
            return marked_link(value, self.mark)
        return widened_cookie(value) if name == b"set-cookie" else value

    def mark(self, url: bytes) -> bytes | None:
        """The marked form of a link of this page, or None where it stays as it is."""
        found = resolve(url, self._place)
        if found is None:
            return None
        target, fragment = found
        mode = self._site.rules.mode_of(target.decode("latin-1"))
        if mode == "opaque":
            return self._prefix + self._seal.seal("page", self._minted_for, self._parent, target) + fragment
        if mode == "readable":
            token = self._seal.seal("page", self._minted_for, self._parent, page_digest(target.decode("latin-1")))
            return _readable(target, token) + fragment
        return None

    def _cookie(self) -> bytes:
        """A cookie that links this visitor to those that the browser was before; b"" where it has it already."""
        known = self._visit.linked
        if self._minted_for in known:
            return b""
        all_known = b"".join([*known, self._minted_for][-_MOST_LINKED:])
        return _cookie_of(self._seal, self._minted_for, all_known, secure=self._secure)

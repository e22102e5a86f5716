"""
Responses to programs: byte for byte those of the application, unless the program goes from page to page.

The detector of programs says which it is, in the evidence of the decision. What only the response shows is remembered
here: that a page was given, where its links lead, and that files were listed.
"""

from __future__ import annotations

import msgspec

from hedgerow.core.request_kind import kind_of
from hedgerow.detectors.program_pages import CRAWLING, FIRST_PAGE, KNOWN_PAGE, LISTED_FILE
from hedgerow.markers.html.content_coding import BrokenCoding, codec
from hedgerow.markers.html.listing import is_listing
from hedgerow.markers.link_collector import LinkCollector
from hedgerow.request.program_history import MOST_LINKS, first_entry, folder_entry, page_entry
from hedgerow.web.asgi_types import Message
from hedgerow.web.response import ResponseRewriter, beginning_of
from hedgerow.web.response_headers import Headers, header, is_attachment, is_html

_SUCCESS = range(200, 300)
_PARTIAL, _MULTI_STATUS, _NOT_MODIFIED = 206, 207, 304
_MAX_START = 65_536


class ProgramResponseRewriter(ResponseRewriter):
    """Forwards one response to a program."""

    _links: LinkCollector | None = None
    _has_page = False

    async def __call__(self, message: Message) -> None:
        links = self._links
        await super().__call__(message)
        if links is not None and message["type"] == "http.response.body":
            await self._collect_from(links, message.get("body", b""))

    async def _collect_from(self, links: LinkCollector, body: bytes) -> None:
        for _ in links.feeding(body):
            await self._pause()

    def finish(self) -> None:
        if self._has_page and self._has_evidence(FIRST_PAGE):
            self._remember(first_entry(self.visit, self._links.targets if self._links is not None else ()))

    def _remember(self, entry: str) -> None:
        self.decision = self._app.gate.remember(self.visit, self.decision, entry)

    def _has_evidence(self, *codes: str) -> bool:
        return any(evidence.code in codes for evidence in self.decision.evidence)

    @property
    def _is_crawling(self) -> bool:
        return self._has_evidence(*CRAWLING)

    def _is_verified_by_s3(self, headers: Headers) -> bool:
        """
        Return whether this is a file from S3 for a client with a valid signature.

        S3 checks every signature, also for files that are public. That the application is S3, its response says.
        """
        authorization = header(self._request_headers, b"authorization")
        is_signed = authorization.startswith(b"AWS4-") or "X-Amz-Signature=" in self.visit.target
        return is_signed and header(headers, b"x-amz-request-id") != b""

    async def _must_hold(self, start: Message) -> bool:
        headers: Headers = start["headers"]
        if self.status == _MULTI_STATUS and self.visit.method == "PROPFIND":
            # WebDAV: the application itself has told the program which files there are.
            self._remember(folder_entry(self.visit))
        content_type = header(headers, b"content-type")
        is_page = self.status in _SUCCESS and is_html(content_type) and not is_attachment(headers)
        if self._page is None and is_page and self.visit.kind == "call" and self.visit.method == "GET":
            # Nothing is changed here, but whether the program gets a page is to be seen.
            return True
        if self._page is None or self.status == _NOT_MODIFIED or self._may_be_parts_of_page(content_type):
            return await super()._must_hold(start)
        if not is_page:
            # Nothing is marked, not even where a redirect leads.
            self._page = None
            return await super()._must_hold(start)
        if self._has_evidence(LISTED_FILE) or self._is_verified_by_s3(headers):
            await self._decide_again("asset")
            return False
        if self.visit.method == "HEAD":
            return await super()._must_hold(start) if self._is_crawling else False
        if self.status != _PARTIAL:
            return True
        await self._count_page()
        if self.is_stopped:
            return False
        self.is_range = self._is_crawling
        if not self.is_range:
            self._collect(headers)
        return self.is_range

    async def _begin(self, message: Message, start: Message) -> None:
        """Find out whether the page is given unchanged, as soon as its first bytes tell what it is."""
        headers: Headers = start["headers"]
        if self._is_rewriting or self._may_be_parts_of_page(header(headers, b"content-type")):
            await super()._begin(message, start)
            return
        self._held.append(message.get("body", b""))
        body, more = b"".join(self._held), message.get("more_body", False)
        text = _decoded_start(body, header(headers, b"content-encoding"))
        is_enough = not more or len(text) >= _MAX_START or len(body) > _MAX_START
        beginning = beginning_of(text, final=is_enough)
        listing = is_listing(text, self.visit.target, final=is_enough)
        if beginning is None or listing is None:
            return
        self._held.clear()
        message = {**message, "body": body}
        if beginning == "text":
            # Only its type says that it is HTML, such as that of an API.
            if self.visit.kind == "page" and self.visit.method == "GET":
                await self._decide_again("asset")
        else:
            await (self._count_as_page() if listing else self._count_page())
            if self.is_stopped:
                self._is_over = True
                return
            if self._page is None:
                pass
            elif listing:
                # Nothing speaks against going through folders one by one, even if they are numbered.
                self.decision = msgspec.structs.replace(self.decision, change=None)
                self._remember(folder_entry(self.visit))
            elif self._is_crawling:
                self._mark_headers(start)
                await super()._begin(message, start)
                return
            else:
                self._collect(headers)
                if self._links is not None:
                    await self._collect_from(self._links, body)
        await self._give_up(message, start, "fragment")

    async def _count_page(self) -> None:
        """Count a page that is no list of files. A program that has had too many today does not get it."""
        await self._count_as_page()
        is_feed = kind_of(self.visit.method, self.visit.target) != "page"
        if self.is_stopped or is_feed or self._has_evidence(KNOWN_PAGE):
            return
        declined = await self._app.gate.count_program_page(self.visit)
        if declined is not None:
            self.decision = declined
            self.is_stopped = not self._app.settings.observe
        elif self._page is None:
            self._remember(page_entry(self.visit))

    def _collect(self, headers: Headers) -> None:
        """Remember the links of a page that is given unchanged."""
        self._has_page = True
        coding = header(headers, b"content-encoding").strip().lower()
        found = codec(coding) if coding not in {b"", b"identity"} else None
        assert self._page is not None
        if found is not None or coding in {b"", b"identity"}:
            self._links = LinkCollector(self._page.location, found[0] if found is not None else None, MOST_LINKS)


def _decoded_start(body: bytes, content_encoding: bytes) -> bytes:
    """Return the beginning of a body without its coding; what cannot be decoded looks like a page."""
    coding = content_encoding.strip().lower()
    if coding in {b"", b"identity"}:
        return body[:_MAX_START]
    found = codec(coding)
    text = b""
    try:
        for piece in found[0].feed(body) if found is not None else (b"<html>",):
            text += piece
            if len(text) >= _MAX_START:
                break
    except BrokenCoding:
        return text or b"<html>"
    return text

"""
A page on its way out: decoded, baited, encoded again, in pieces.

Which answers are touched at all is decided here too: `text/html` alone, and only where every step can be undone and
done again. Whatever cannot be is passed on untouched, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from hedgerow.page.charset import carried_charset, from_utf8, to_utf8
from hedgerow.page.coding import BrokenCoding, Decoder, Encoder, codec

Headers = list[tuple[bytes, bytes]]

_DOCUMENT = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype|html)", re.IGNORECASE | re.DOTALL)
_LARGEST_CARRIED = 1_048_576
_LONGEST_MARK = 4
# Headers that speak of the very bytes of the body.
_OF_THE_BYTES = frozenset(
    {b"content-length", b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"}
)
_STRONG_MARK, _WEAK_MARK = b"-hs", b"-hw"
_OUR_ETAG = re.compile(rb'W/"([^"]*)-h([sw])"')


class Untouchable(Exception):  # noqa: N818 - an outcome, not a fault
    """The page must be passed on as it is; nothing of it has been given out yet."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Placer(Protocol):
    def feed(self, data: bytes, *, final: bool) -> bytes: ...


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The value of a header, or b""."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return b""


def is_html(content_type: bytes) -> bool:
    return content_type[:9].lower() == b"text/html" and content_type[9:10] in b"; \t"


def looks_like_document(start: bytes) -> bool:
    """Whether these first bytes are a whole page's and not a fragment's."""
    return _DOCUMENT.match(start) is not None


def touched_headers(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """
    The headers of a page that is not, to the byte, the upstream's any more.

    Its ETag becomes a weak one with a mark, so that the upstream's own can be restored when it comes back. Nothing is
    said of ranges: those of this page are not those of the upstream's.
    """
    touched = []
    for key, value in headers:
        name = key.lower()
        if name in _OF_THE_BYTES:
            continue
        touched.append((key, _marked_etag(value) if name == b"etag" else value))
    return touched


def _marked_etag(etag: bytes) -> bytes:
    weak = etag.startswith(b"W/")
    tag = etag.removeprefix(b"W/")
    if len(tag) < 2 or not (tag.startswith(b'"') and tag.endswith(b'"')):  # noqa: PLR2004 - two quotes
        return etag
    return b"W/" + tag[:-1] + (_WEAK_MARK if weak else _STRONG_MARK) + b'"'


def has_our_etag(value: bytes) -> bool:
    """Whether an If-None-Match names a page that had bait."""
    return _OUR_ETAG.search(value) is not None


def restored_etags(value: bytes) -> bytes:
    """
    If-None-Match or If-Match as the upstream knows it.

    >>> restored_etags(b'W/"a-hs", W/"b-hw", "c"')
    b'"a", W/"b", "c"'
    """
    return _OUR_ETAG.sub(lambda m: (b'W/"' if m[2] == b"w" else b'"') + m[1] + b'"', value)


class Outgoing:
    """
    One page: body pieces in, what the client gets out.

    With *only_documents* a fragment is untouchable: a script of the site will put it into a page.
    """

    def __init__(
        self, content_type: bytes, content_encoding: bytes, placer: Placer, *, only_documents: bool = False
    ) -> None:
        found = codec(content_encoding)
        if found is None:
            raise Untouchable("coding")
        self._decoder: Decoder = found[0]
        self._encoder: Encoder = found[1]
        self._plain = content_encoding.strip().lower() in {b"", b"identity"}
        self._content_type = content_type
        self._placer = placer
        self._only_documents = only_documents
        self._charset: str | None = None
        self._sniffed = False
        self._start = b""
        self._begun = False
        self._whole = b""

    def feed(self, data: bytes, *, final: bool) -> bytes:
        """
        The next piece of the body in, what is settled out.

        Raises Untouchable with the first piece or never, and BrokenCoding where a body turns out to be damaged after
        some of it has been given out: then the connection must be cut, as the upstream's would have been.
        """
        try:
            decoded = self._decode(data, final=final)
            out = b"".join(self._place(decoded, final=final))
        except BrokenCoding:
            if self._begun:
                raise
            raise Untouchable("broken") from None
        if out or final:
            self._begun = True
        return out if self._plain else self._encoder.feed(out, final=final) if out or final else b""

    def _decode(self, data: bytes, *, final: bool) -> Iterator[bytes]:
        if self._plain:
            yield data
            return
        yield from self._decoder.feed(data)
        if final:
            self._decoder.end()

    def _place(self, pieces: Iterator[bytes], *, final: bool) -> Iterator[bytes]:
        """Place bait in pieces, the last of them being the page's last where *final* says so."""
        previous: bytes | None = None
        for piece in pieces:
            if previous is not None:
                yield self._text(previous, final=False)
            previous = piece
        if previous is not None or final:
            yield self._text(previous or b"", final=final)

    def _text(self, text: bytes, *, final: bool) -> bytes:
        if not self._sniffed:
            text = self._start + text
            if len(text) < _LONGEST_MARK and not final:
                self._start = text
                return b""
            self._sniffed = True
            if self._only_documents and not looks_like_document(text):
                raise Untouchable("fragment")
            self._charset = carried_charset(self._content_type, text)
        if self._charset is None:
            return self._placer.feed(text, final=final)
        return self._carry(text, self._charset, final=final)

    def _carry(self, text: bytes, charset: str, *, final: bool) -> bytes:
        """A page in a charset that cannot be read as bytes is gathered and carried over as a whole."""
        self._whole += text
        if len(self._whole) > _LARGEST_CARRIED:
            raise Untouchable("charset")
        if not final:
            return b""
        page = to_utf8(self._whole, charset)
        if page is None:
            raise Untouchable("charset")
        return from_utf8(self._placer.feed(page, final=True), charset)

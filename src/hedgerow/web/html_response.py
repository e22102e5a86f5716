"""
A page on its way out: decoded, baited, encoded again, in pieces.

Which answers are touched at all is decided here too: `text/html` alone, and only where every step can be undone and
done again. Whatever cannot be is passed on untouched, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

from hedgerow.markers.html.charset import carried_charset, from_utf8, tells_charset, to_utf8
from hedgerow.markers.html.content_coding import BrokenCoding, codec

Headers = list[tuple[bytes, bytes]]

# What may stand before a page proper. Atomic and possessive: a comment ends where it ends, or a row of a few dozen of
# them could be taken apart in a million million ways.
_PREAMBLE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[\t\n\f\r ]++|(?><!--.*?-->)|<\?[^>]*+>)*+", re.DOTALL)
# Some tools that make pages small write "<!doctypehtml>", and browsers take it.
_ROOT = re.compile(rb"<(?:!doctype|html(?=[\t\n\f\r />]))", re.IGNORECASE)
_MAY_BEGIN = (b"<!doctype", b"<html ", b"<!--", b"<?")
_LONGEST_START = 8_192
_LARGEST_CARRIED = 1_048_576
_MOST_HELD = 2_097_152
# Headers that speak of the very bytes of the body.
_OF_THE_BYTES = frozenset(
    {b"content-length", b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"}
)
_STRONG_MARK, _WEAK_MARK = b"-hs", b"-hw"
_OUR_ETAG = re.compile(rb'W/"([^"]*)-h([sw])"')


class NotRewritable(Exception):  # noqa: N818 - an outcome, not a fault
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


def beginning_of(start: bytes, *, final: bool) -> Literal["document", "fragment", "text"] | None:
    """
    What begins like this: a whole page, a fragment of one, or no HTML at all, such as JSON under a wrong name.

    None where more must come to tell; with *final* nothing more comes.
    """
    preamble = _PREAMBLE.match(start)
    begins_at = preamble.end() if preamble else 0
    if _ROOT.match(start, begins_at):
        return "document"
    rest = start[begins_at:]
    if not final:
        unfinished = any(begin.startswith(rest.lower()) for begin in _MAY_BEGIN)
        if unfinished or rest.startswith((b"<!--", b"<?")):
            return None
    return "fragment" if rest.startswith(b"<") else "text"


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

    With *only_documents* a fragment is not for the *placer*: a script of the site will put it into a page. It goes
    through *fragments*, and is untouchable where that is None.
    """

    def __init__(
        self,
        content_type: bytes,
        content_encoding: bytes,
        placer: Placer,
        *,
        only_documents: bool = False,
        fragments: Placer | None = None,
    ) -> None:
        found = codec(content_encoding)
        if found is None:
            raise NotRewritable("coding")
        self._decoder, self._encoder = found
        self._plain = not content_encoding
        self._content_type = content_type
        self._placer = placer
        self._only_documents = only_documents
        self._fragments = fragments
        self.is_fragment = False
        self._charset: str | None = None
        self._known = False
        self._start = b""
        self._begun = False
        self._fed = 0
        self._whole: list[bytes] = []
        self._whole_size = 0

    def feed(self, data: bytes, *, final: bool) -> bytes:
        """
        The next piece of the body in, what is settled out.

        Raises Untouchable as long as nothing has been given out, and BrokenCoding where a body turns out to be damaged
        later: then the connection must be cut, as the upstream's would have been. However much a piece unfolds to, only
        a part of it is in memory at a time.
        """
        if final and self._plain and not self._begun and not self._start and not self._fed:
            # Most pages: all of it in one piece, in no coding.
            self._begun = True
            return self._text(data, final=True)
        out = []
        placed = False
        try:
            for piece in self._place(self._decode(data, final=final), final=final):
                if piece:
                    placed = True
                    out.append(self._encoder.feed(piece))
        except BrokenCoding:
            if self._begun:
                raise
            raise NotRewritable("broken") from None
        if placed or final:
            self._begun = True
            out.append(self._encoder.flush(final=final))
        elif not self._begun:
            # Whoever feeds us keeps all of it until something comes out, and a coding may unfold to nothing for ever.
            self._fed += len(data)
            if self._fed > _MOST_HELD:
                raise NotRewritable("broken")
        return b"".join(out)

    def _decode(self, data: bytes, *, final: bool) -> Iterator[bytes]:
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
        if not self._known:
            text = self._start + text
            self._known = self._recognise(text, final=final or len(text) > _LONGEST_START)
            if not self._known:
                self._start = text
                return b""
        if self._charset is None:
            return self._placer.feed(text, final=final)
        return self._carry(text, self._charset, final=final)

    def _recognise(self, start: bytes, *, final: bool) -> bool:
        """Find out what page this is; false where more must come first."""
        if not final and not tells_charset(self._content_type, start):
            return False
        self._charset = carried_charset(self._content_type, start)
        return self._charset is not None or self._may_be_touched(start, final=final)

    def _may_be_touched(self, start: bytes, *, final: bool) -> bool:
        """Whether what begins like this is changed, and by what; false where that cannot be told yet."""
        beginning = beginning_of(start, final=final)
        inserted = self._only_documents and beginning == "fragment"
        if beginning == "text" or (inserted and self._fragments is None):
            raise NotRewritable("fragment")
        if inserted and self._fragments is not None:
            self._placer, self.is_fragment = self._fragments, True
        return beginning is not None

    def _carry(self, text: bytes, charset: str, *, final: bool) -> bytes:
        """A page in a charset that cannot be read as bytes is gathered and carried over as a whole."""
        self._whole.append(text)
        self._whole_size += len(text)
        if self._whole_size > _LARGEST_CARRIED:
            raise NotRewritable("charset")
        if not final:
            return b""
        page = to_utf8(b"".join(self._whole), charset)
        if page is None:
            raise NotRewritable("charset")
        self._may_be_touched(page, final=True)
        return from_utf8(self._placer.feed(page, final=True), charset)

"""
Charsets: which pages can be scanned as bytes, and how the others are converted.

Nearly every charset writes `<` as one byte that means nothing else, so a page is scanned as it is. UTF-16, UTF-32 and
the charsets that switch with escape sequences are different: such a page is converted to UTF-8 as a whole and back
again. It is left alone where that would change a byte.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_LABEL = re.compile(rb"charset\s*+=\s*+[\"']?+\s*+([A-Za-z0-9_.:\-]++)", re.IGNORECASE)
_END_OF_HEAD = re.compile(rb"</head|<body", re.IGNORECASE)
_WIDE = frozenset({"utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"})
_SWITCHING = frozenset({
    "utf-7", "hz", "iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_jp_ext",
    "iso2022_kr",
})  # fmt: skip
# Without a byte order mark "utf-16" is little-endian to browsers; the other names are known to browsers alone.
_MEANT = {
    "utf-16": "utf-16-le", "utf-32": "utf-32-le", "ucs-2": "utf-16-le", "iso-10646-ucs-2": "utf-16-le",
    "unicode": "utf-16-le", "csunicode": "utf-16-le", "unicodefeff": "utf-16-le", "unicodefffe": "utf-16-be",
}  # fmt: skip
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONGEST_MARK = 4
_SNIFFED = 1024


def tells_charset(content_type: bytes, start: bytes) -> bool:
    """
    Return whether the *start* of a page is enough to tell its charset.

    A byte order mark or the header tells it, else the page's head, of which browsers read a kilobyte, too.
    """
    if len(start) < _LONGEST_MARK:
        return False
    if len(start) >= _SNIFFED or _codec_name(_LABEL.search(content_type)):
        return True
    return _END_OF_HEAD.search(start) is not None or any(start.startswith(mark) for mark, _ in _BOMS)


def carried_charset(content_type: bytes, start: bytes) -> str | None:
    r"""
    Return the codec from which a page must be converted, or None where it can be scanned as bytes.

    A byte order mark wins over the header and the header over the page's own meta element, as in browsers. *start* is
    how the page begins. A meta element that can be read as bytes cannot name a charset of wide characters.

    >>> carried_charset(b"text/html; charset=utf-8", b"<html>")
    >>> carried_charset(b"text/html; charset=UTF-16LE", b"<\0h\0")
    'utf-16-le'
    """
    return _carried_charset(content_type, start[:_SNIFFED])


@lru_cache(maxsize=512)
def _carried_charset(content_type: bytes, start: bytes) -> str | None:
    """Cached, because the pages of a site begin alike and are sent again and again."""
    for mark, marked in _BOMS:
        if start.startswith(mark):
            return marked
    if start.startswith(codecs.BOM_UTF8):
        return None
    name = _codec_name(_LABEL.search(content_type))
    if name is not None:
        return name if name in _SWITCHING | _WIDE else None
    name = _codec_name(_LABEL.search(start))
    return name if name in _SWITCHING else None


def _codec_name(label: re.Match[bytes] | None) -> str | None:
    """Return Python's name of a charset. A browser ignores an unknown label and reads some superset of ASCII."""
    if label is None:
        return None
    name = label[1].decode("ascii").lower()
    try:
        name = codecs.lookup(_MEANT.get(name, name)).name
    except LookupError:
        return None
    return _MEANT.get(name, name)


def to_utf8(page: bytes, charset: str) -> bytes | None:
    """Return a whole page in UTF-8, or None where the way back would change a byte."""
    try:
        text = page.decode(charset)
        if text.encode(charset) != page:
            return None
        return text.encode("utf-8")
    except ValueError:
        return None


def from_utf8(page: bytes, charset: str) -> bytes:
    """Return a whole page in *charset* again."""
    return page.decode("utf-8").encode(charset)

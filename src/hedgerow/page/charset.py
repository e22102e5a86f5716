"""
Charsets: which pages can be read as bytes, and how the others are carried over.

Nearly every charset writes `<` as one byte that means nothing else, so a page is scanned as it is, whatever it says. In
UTF-16, UTF-32 and the charsets that switch with escape sequences it is not so: such a page is turned into UTF-8 as a
whole and back again, and left alone where it would not come back unchanged to the byte.
"""

from __future__ import annotations

import codecs
import re

_LABEL = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:\-]+)", re.IGNORECASE)
_CARRIED = frozenset({
    "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-7", "hz",
    "iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_jp_ext", "iso2022_kr",
})  # fmt: skip
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SNIFFED = 1024


def carried_charset(content_type: bytes, start: bytes) -> str | None:
    r"""
    The codec through which a page must be carried, or None where it can be read as bytes.

    A byte order mark wins over the header and the header over the page's own meta, as in browsers. *start* is how the
    page begins.

    >>> carried_charset(b"text/html; charset=utf-8", b"<html>")
    >>> carried_charset(b"text/html; charset=UTF-16LE", b"<\0h\0")
    'utf-16-le'
    """
    for mark, name in _BOMS:
        if start.startswith(mark):
            return name
    if start.startswith(codecs.BOM_UTF8):
        return None
    label = _LABEL.search(content_type) or _LABEL.search(start[:_SNIFFED])
    if label is None:
        return None
    try:
        name = codecs.lookup(label[1].decode("ascii")).name
    except LookupError:
        # A browser ignores a label that it does not know, and reads the page as some superset of ASCII.
        return None
    # Without a mark, "utf-16" is little-endian to browsers.
    return {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(name, name) if name in _CARRIED else None


def to_utf8(page: bytes, charset: str) -> bytes | None:
    """A whole page in UTF-8, or None where it would not come back as it was."""
    try:
        text = page.decode(charset)
        if text.encode(charset) != page:
            return None
        return text.encode("utf-8")
    except ValueError:
        return None


def from_utf8(page: bytes, charset: str) -> bytes:
    """The way back."""
    return page.decode("utf-8").encode(charset)

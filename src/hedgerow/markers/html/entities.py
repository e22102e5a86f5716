"""
Character references in attributes.

`html.unescape` is for text. In an attribute `&copy=2` and `&notit` stay as they are (HTML standard, 13.2.5.73);
otherwise every second query string would be damaged.
"""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5

_REFERENCE = re.compile(r"&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[a-zA-Z][a-zA-Z0-9]*;?)(=?)")


def _replace(match: re.Match[str]) -> str:
    reference, equals = match[1], match[2]
    if reference[0] == "#":
        return unescape("&" + reference) + equals
    if reference in html5:
        if reference[-1] == ";" or not equals:
            return html5[reference] + equals
        return match[0]
    # A known name without ";" at the start of a longer word stays as it is.
    return match[0]


def attribute_text(raw: bytes) -> bytes:
    r"""
    Return the text of an attribute's raw value, in UTF-8.

    >>> attribute_text(b"/a?b=1&amp;copy=2&copy=3&copy&#x2f;x")
    b'/a?b=1&copy=2&copy=3\xc2\xa9/x'
    """
    if b"&" not in raw:
        return raw
    text = raw.decode("utf-8", "surrogateescape")
    return _REFERENCE.sub(_replace, text).encode("utf-8", "surrogateescape")

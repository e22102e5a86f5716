"""
What the tag of a link says about it: that it leads to the next or the previous page, or to a file to save.

People go through a manual, a thread or a gallery by links to the next page, page after page. So the mark of a link says
whether it is one: the order of pages that they lead through is no sign of a crawler (see `watch.sessions.path`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

LinkRole = Literal["", "next", "prev", "download"]

_LONGEST_TAG = 500
# A page chooses how long its tags are.
_LONGEST_CACHED = 200
_SEQUENCE_TAGS = (b"<a ", b"<link ", b"<a\n", b"<a\t")
_DOWNLOAD = re.compile(rb"[\t\n\f\r \"'/]download(?:[\t\n\f\r />=]|\Z)")
_WORD = re.compile(
    rb"[\s\"'/](?:rel|class|aria-label)\s*=\s*(?:\"[^\"]*?|'[^']*?|[^\s\"'>]*?)"
    rb"(?<![a-z0-9])(?:(next)|prev(?:ious)?)(?![a-z0-9])"
)
_ACCESS_KEY = re.compile(rb"accesskey=[\"']?+(?:(n)|p)(?![a-z0-9])")


def link_role(before: bytes, after: bytes) -> LinkRole:
    """
    Return the role of a link by its tag: *before* and *after* are the text before and after its target.

    >>> link_role(b'<a rel="next" href=', b""), link_role(b'<a href=', b' accesskey="p"'), link_role(b"<a href=", b"")
    ('next', 'prev', '')
    """
    tag = before + after
    return _cached_role(tag) if len(tag) <= _LONGEST_CACHED else _role(tag)


def _role(tag: bytes) -> LinkRole:
    tag = tag.lower()
    if b"download" in tag and _DOWNLOAD.search(tag):
        return "download"
    if len(tag) > _LONGEST_TAG or not tag.startswith(_SEQUENCE_TAGS):
        return ""
    word = _WORD.search(tag) or _ACCESS_KEY.search(tag)
    return "" if word is None else "next" if word[1] else "prev"


_cached_role = lru_cache(maxsize=1 << 11)(_role)

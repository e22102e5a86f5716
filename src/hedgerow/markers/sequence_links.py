"""
Links to the next and the previous page of a sequence, such as the chapters of a manual, by how a page names them.

People go through a manual, a thread or a gallery by such links, page after page. So the mark of a link says whether it
is one: the order of pages that they lead through is no sign of a crawler (see `watch.sessions.path`).
"""

from __future__ import annotations

import re

from hedgerow.markers.html.entities import attribute_text

_DIRECTIONS = {b"next": b"n", b"prev": b"p"}
"""What names a direction, and its usual access key."""
_ACCESS_KEY = b"accesskey="
_LINK_TAGS = (b"<a ", b"<link ", b"<a\n", b"<a\t")
_LONGEST_TAG = 1_000
_MOST_TAGS = 100
"""Tags of links that are looked at for each direction: a page may have a great many, and none of a sequence."""
_HREF = re.compile(rb"[\s\"'/]href\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
# The attribute in which a word of a tag stands.
_ATTRIBUTE = re.compile(rb"[\s\"'/](rel|class|aria-label)\s*=\s*(?:\"[^\"]*|'[^']*|[^\s\"'>]*)\Z")
_WHOLE_WORD = re.compile(rb"(?<![a-z0-9])(?:next|prev(?:ious)?)(?![a-z0-9])")
# A link whose text is nothing but such a word, with an arrow or the name of what is next.
_TEXT = re.compile(
    rb"(?:&[a-z0-9#]{1,8};|[^<\w])*+(?:next|prev(?:ious)?)(?:\s+(?:page|chapter|section|article|topic|post|part))?"
    rb"(?:&[a-z0-9#]{1,8};|[^<\w])*+<"
)


def sequence_targets(page: bytes, lower: bytes) -> list[bytes]:
    """
    Return the addresses of the next and the previous page, as *page* writes them; *lower* is the page in lower case.

    Of several links in one direction the first counts: a page has one next page.

    >>> page = b'<link rel="next" href="b.html"><a href="/news">Next to nothing</a> <a href="a.html">&laquo; Prev</a>'
    >>> sequence_targets(page, page.lower())
    [b'b.html', b'a.html']
    """
    found = []
    for word, key in _DIRECTIONS.items():
        target = _first_target(page, lower, word) or _first_by_key(page, lower, key)
        if target:
            found.append(target)
    return found


def _first_target(page: bytes, lower: bytes, word: bytes) -> bytes:
    """Return the address of the first link that *word* names, or b""."""
    at, tags = lower.find(word), 0
    while at >= 0 and tags < _MOST_TAGS:
        start = lower.rfind(b"<", max(0, at - _LONGEST_TAG), at)
        if start >= 0 and lower.startswith(_LINK_TAGS, start):
            tags += 1
            if (tag_end := _tag_of_word(lower, start, at)) and (target := _target(page, lower, start, tag_end)):
                return target
        at = lower.find(word, at + 1)
    return b""


def _tag_of_word(lower: bytes, start: int, at: int) -> int:
    """Return the end of the tag at *start*, if the word at *at* says that it is a link of a sequence; else 0."""
    end = lower.find(b">", start, start + _LONGEST_TAG) + 1
    if not end:
        return 0
    if at < end:
        names = _WHOLE_WORD.match(lower, at) is not None and _ATTRIBUTE.search(lower, start, at) is not None
        return end if names else 0
    return end if _TEXT.match(lower, end) is not None else 0


def _first_by_key(page: bytes, lower: bytes, key: bytes) -> bytes:
    """Return the address of the first link with the access key *key*, or b""."""
    at = lower.find(_ACCESS_KEY)
    while at >= 0:
        value = lower[at + len(_ACCESS_KEY) : at + len(_ACCESS_KEY) + 3].strip(b"\"' ")
        start = lower.rfind(b"<", max(0, at - _LONGEST_TAG), at)
        if value[:1] == key and not value[1:2].isalnum() and start >= 0 and lower.startswith(b"<a", start):
            end = lower.find(b">", start, start + _LONGEST_TAG) + 1
            if at < end and (target := _target(page, lower, start, end)):
                return target
        at = lower.find(_ACCESS_KEY, at + 1)
    return b""


def _target(page: bytes, lower: bytes, start: int, end: int) -> bytes:
    match = _HREF.search(lower, start, end)
    if match is None or match.lastindex is None:
        return b""
    # The tag is searched in lower case, and its value taken as it is written.
    return attribute_text(page[match.start(match.lastindex) : match.end(match.lastindex)])

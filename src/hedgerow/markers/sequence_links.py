"""
Links to the next and the previous page of a sequence, such as the chapters of a manual, by the attributes of links.

People go through a manual, a thread or a gallery by such links, page after page. So the mark of a link says whether it
is one: the order of pages that they lead through is no sign of a crawler (see `watch.sessions.path`).
"""

from __future__ import annotations

import re

_DIRECTIONS = {b"n": b"next", b"p": b"prev"}
"""Usual access keys, and the word that names each direction."""
_ACCESS_KEY = b"accesskey="
_LONGEST_TAG = 500
_MOST_WORDS = 100
"""Words in the tags of links that are looked at for each direction. A page may be made of them, to keep us busy."""
_TAGS = (b"<a ", b"<link ", b"<a\n", b"<a\t")
# The attribute in which a word of a tag stands.
_ATTRIBUTE = re.compile(rb"[\s\"'/](?:rel|class|aria-label)\s*=\s*(?:\"[^\"]*|'[^']*|[^\s\"'>]*)\Z")
_WHOLE_WORD = re.compile(rb"(?<![a-z0-9])(?:next|prev(?:ious)?)(?![a-z0-9])")


def sequence_tags(lower: bytes) -> dict[int, bytes]:
    """
    Return where tags of links to a next or previous page start in a page in lower case, and their direction.

    >>> sequence_tags(b'<link rel="next" href="b"><a href="/next">x</a><a accesskey="p" href="a">y</a>')
    {0: b'next', 47: b'prev'}
    """
    found: dict[int, bytes] = {}
    for word in _DIRECTIONS.values():
        at, words = lower.find(word), 0
        while at >= 0 and words < _MOST_WORDS:
            start = _tag_around(lower, at)
            words += start >= 0
            if start >= 0 and _WHOLE_WORD.match(lower, at) and _ATTRIBUTE.search(lower, start, at):
                found[start] = word
            at = lower.find(word, at + 1)
    at = lower.find(_ACCESS_KEY)
    while at >= 0:
        value = lower[at + len(_ACCESS_KEY) : at + len(_ACCESS_KEY) + 3].strip(b"\"' >")
        if value in _DIRECTIONS and (start := _tag_around(lower, at)) >= 0:
            found.setdefault(start, _DIRECTIONS[value])
        at = lower.find(_ACCESS_KEY, at + 1)
    return found


def _tag_around(lower: bytes, at: int) -> int:
    """Return where the tag of a link starts in which *at* is, or -1."""
    start = lower.rfind(b"<", max(0, at - _LONGEST_TAG), at)
    is_link = start >= 0 and lower.startswith(_TAGS, start) and lower.find(b">", start, at) < 0
    return start if is_link else -1

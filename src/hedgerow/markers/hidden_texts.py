"""
Texts of hidden links, made of the texts of other links of the same page.

No other page is used, so no visitor learns what another one has read. Nobody sees these texts, but scripts of the page
may read the text of an element, hidden or not: for a table of contents from headings, to sort a table, to copy an
example. So a hidden link in such an element has no text if the page has scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hedgerow.markers.hidden_targets import numbers_of

WINDOW = 1_000
"""How many bytes before a link tell in what kind of element it stands."""

_MOST_TEXTS = 100
_MOST_TEXTS_AT_ONCE = 12
_SHORTEST, _LONGEST = 2, 40
# The text of a link after its target. Another one has a ">" in the value of an attribute.
_LINK_TEXT = re.compile(rb"[^>]*+>([^<\"=]{%d,%d}+)<" % (_SHORTEST, 2 * _LONGEST))
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_TAG_NAME = re.compile(rb"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_MOST_TAGS = 12
_TRIES = 6
_NEAR = 4
_INLINE = frozenset(
    b"a abbr b bdi bdo br cite data del dfn em font i img ins mark picture q s small source span strong sub sup svg"
    b" path g use time tt u var wbr".split()
)
_READ_BY_SCRIPTS = frozenset(
    b"h1 h2 h3 h4 h5 h6 pre code kbd samp table thead tbody tr td th caption label button summary legend figcaption"
    b" output option".split()
)
_INLINE_READ_BY_SCRIPTS = frozenset({b"code", b"kbd", b"samp", b"label", b"button", b"output"})


def link_text(page: bytes, target_end: int) -> bytes:
    r"""
    Return the text of the link whose target ends at *target_end*, or b"" if it is not a short text and nothing else.

    >>> link_text(b'<a href="/a" id=x> About\n hedges </a>', 11), link_text(b'<a href="/a"><img></a>', 11)
    (b'About hedges', b'')
    """
    found = _LINK_TEXT.match(page, target_end)
    if found is None:
        return b""
    text = b" ".join(found[1].split())
    return text if _SHORTEST <= len(text) <= _LONGEST and _LETTER.search(text) is not None else b""


def add_link_texts(texts: Sequence[bytes], page: bytes, target_ends: Sequence[int]) -> Sequence[bytes]:
    """Return *texts* with those of some links of *page*, whose targets end at *target_ends*: at even distances."""
    some = target_ends[:: len(target_ends) // _MOST_TEXTS_AT_ONCE + 1]
    found = dict.fromkeys([*texts, *(link_text(page, end) for end in some)])
    return [text for text in found if text][:_MOST_TEXTS]


def hidden_texts(page: bytes, texts: Sequence[bytes], places: Iterable[float]) -> Iterator[bytes]:
    """
    Yield a text for each of *places* in the page at *page*: the first words of one of *texts*, the last of another.

    Both are from shortly before the place. Places are parts of the page, from 0 to 1. Every visitor gets the same. A
    text of the page itself is used only where its texts have single words. Without *texts* there are none.

    >>> list(hidden_texts(b"/index.html", [b"Plant hedges", b"Cut trees"], [0.9]))
    [b'Plant trees']
    """
    words = [text.split(b" ") for text in texts]
    firsts = [b" ".join(some[: (len(some) + 1) // 2]) for some in words]
    lasts = [b" ".join(some[(len(some) + 1) // 2 :]) for some in words]
    used = set(texts)
    numbers = numbers_of(page)
    # A single text gives the same each time.
    last_distance = _NEAR + (_TRIES if len(texts) > 1 else 1)
    for place in places if texts else ():
        last = int(place * len(texts)) + 1
        text = b""
        for distance in range(_NEAR, last_distance):
            # Further away with each try.
            one, other = ((last - next(numbers) % distance) % len(texts) for _ in range(2))
            text = firsts[one] + (b" " + lasts[other] if lasts[other] else b"")
            if text not in used:
                break
        used.add(text)
        yield text


def may_have_text(before: bytes) -> bool:
    """
    Return whether a hidden link may have text that stands after *before*, the last bytes up to there.

    >>> may_have_text(b"<td><ul><li><a>x</a>"), may_have_text(b"<h2><b><a>x</a></b>"), may_have_text(b"<pre>x")
    (True, False, False)
    """
    # What is inside of the link that ends here is passed over.
    at = before.rfind(b"<a", 0, -4) if before[-4:] == b"</a>" else len(before)
    ended: list[bytes] = []
    for _ in range(_MOST_TAGS):
        at = before.rfind(b"<", 0, at)
        if at < 0:
            return False
        tag = _TAG_NAME.match(before, at)
        if tag is None:
            continue
        name = tag[2].lower()
        if name in ended and not tag[1]:
            ended.remove(name)
        elif name in _INLINE_READ_BY_SCRIPTS and tag[1]:
            ended.append(name)
        elif name not in _INLINE:
            return bool(tag[1]) or name not in _READ_BY_SCRIPTS
    return False

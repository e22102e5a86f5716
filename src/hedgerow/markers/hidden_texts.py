"""
Texts of hidden links, made of the texts of other links of the same page.

No other page is used, so no visitor learns what another one has read. Nobody sees these texts, but scripts of the page
may read the text of an element, hidden or not: for a table of contents from headings, to sort a table, to copy an
example. So a hidden link in such an element has no text if the page has scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import repeat

from hedgerow.markers.hidden_targets import numbers_of

WINDOW = 1_000
"""How many bytes before a link tell in what kind of element it stands."""

_MOST_TEXTS = 100
_MOST_TEXTS_AT_ONCE = 16
_SHORTEST, _LONGEST = 2, 40
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_TAG_NAME = re.compile(rb"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_MOST_TAGS = 12
_TRIES = 3
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
    start = page.find(b">", target_end) + 1
    end = page.find(b"<", start, start + 2 * _LONGEST)
    if not start or end < 0:
        return b""
    text = b" ".join(page[start:end].split())
    is_usual = _SHORTEST <= len(text) <= _LONGEST and _LETTER.search(text) is not None
    # Else ">" was in the value of an attribute.
    return text if is_usual and b'"' not in text and b"=" not in text else b""


def add_link_texts(texts: Sequence[bytes], page: bytes, target_ends: Sequence[int]) -> Sequence[bytes]:
    """Return *texts* with those of some links of *page*, whose targets end at *target_ends*: at even distances."""
    some = target_ends[:: len(target_ends) // _MOST_TEXTS_AT_ONCE + 1]
    found = dict.fromkeys([*texts, *(link_text(page, end) for end in some)])
    return [text for text in found if text][:_MOST_TEXTS]


def hidden_texts(page: bytes, texts: Sequence[bytes]) -> Iterator[bytes]:
    """
    Yield texts without end, for the page at *page*: the first words of one of *texts* and the last words of another.

    Every visitor gets the same. A text of the page itself is used only where its texts have single words. Without
    *texts* there are none.

    >>> next(hidden_texts(b"/index.html", [b"Plant hedges", b"Cut trees"]))
    b'Plant trees'
    """
    if len(texts) < 2:  # noqa: PLR2004 - nothing to combine
        yield from repeat(texts[0]) if texts else ()
        return
    examples = [text.split(b" ") for text in texts]
    used = set(texts)
    numbers = numbers_of(page)
    while True:
        text = b""
        for _ in range(_TRIES):
            one, other = (examples[next(numbers) % len(examples)] for _ in range(2))
            text = b" ".join([*one[: (len(one) + 1) // 2], *other[(len(other) + 1) // 2 :]])
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
    at = len(before)
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

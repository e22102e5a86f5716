"""Character references in attributes are read as html5lib reads them."""

from __future__ import annotations

import random
import warnings
from xml.etree import ElementTree  # noqa: ICN001 - a name that says what it is

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.html.entities import attribute_text

PIECES = [
    "&", "&amp", "&amp;", "&copy", "&copy;", "&copy=", "&copy=2", "&notit;", "&not", "&notin;", "&lt", "&lt;", "&#65;",
    "&#65", "&#x41;", "&#X2f", "&#", "&#x", "&bogus;", "&x", "=", ";", "z", "/", "?", "&AMP", "&hearts;",
]  # fmt: skip


@given(st.text(max_size=30))
def test_attribute_text_is_what_a_browser_reads(text):
    """Escaped by the book and read again, a value is the same."""
    raw = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    escaped = raw.replace("&", "&amp;").replace('"', "&quot;").encode()
    assert attribute_text(escaped).decode() == raw


@pytest.mark.parametrize("seed", range(3))
def test_html5lib_reads_the_same(seed):
    dice = random.Random(seed)
    values = ["".join(dice.choices(PIECES, k=dice.randrange(1, 7))) for _ in range(400)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page = "".join(f'<a href="{value}"></a>' for value in values)
        parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree", ElementTree), namespaceHTMLElements=False)
        links = parser.parse(page).iter("a")
    assert [attribute_text(value.encode()).decode() for value in values] == [link.get("href") for link in links]

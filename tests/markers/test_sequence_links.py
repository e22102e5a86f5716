"""Links to the next and the previous page, as sites write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.sequence_links import sequence_targets


def targets(page: bytes) -> list[bytes]:
    return sequence_targets(page, page.lower())


@pytest.mark.parametrize(
    "page",
    [
        b'<link rel="next" href="b.html">',
        b"<a href=b.html rel='nofollow next'>Weiter</a>",
        b'<A ACCESSKEY="n" HREF="b.html">Weiter</A>',
        b'<a class="page-link next" href="b.html">&rarr;</a>',
        b'<a class="pagination__item--next" href="b.html">2</a>',
        b'<a aria-label="Next page" href="b.html"><svg></svg></a>',
        b'<a href="b.html">Next</a>',
        b'<a href="b.html">\n  Next chapter &raquo;</a>',
        b'<a href="a.html">next of kin</a><a href="b.html">Next</a><a href="c.html">Next</a>',
        b'<p>next</p><a href="/next">a</a><a href="b.html" rel="next">b</a>',
    ],
)
def test_the_next_page(page):
    assert targets(page) == [b"b.html"]


@pytest.mark.parametrize(
    "page",
    [
        b'<a href="/next">The band</a>',
        b'<a href="/a">Next of kin</a>',
        b'<a href="/a" class="nextcloud">Files</a>',
        b'<a href="/a" accesskey="name">Name</a>',
        b'<p class="next">What is next?</p><a href="/a">That</a>',
        b'<a rel="next">No target</a>',
        b'<a href="/a" rel="next"',
        b"",
    ],
)
def test_no_next_page(page):
    assert targets(page) == []


def test_the_next_page_and_the_previous_one():
    page = b'<a rel="prev" href="/1">1</a> <a rel="next" href="/3?a=1&amp;b=2">3</a>'
    assert targets(page) == [b"/3?a=1&b=2", b"/1"]


_PIECES = st.sampled_from(b"<a |<link |rel=|next|prev|\"|'|>|<|href=|accesskey=|n|p| |/a|</a>".split(b"|"))


@given(st.lists(_PIECES, max_size=40).map(b"".join))
def test_any_page_has_at_most_two(page):
    assert len(targets(page)) <= 2

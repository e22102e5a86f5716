"""Links to the next and the previous page, as sites write them."""

from __future__ import annotations

import pytest

from hedgerow.markers.sequence_links import sequence_tags


@pytest.mark.parametrize(
    "page",
    [
        b'<link rel="next" href="b.html">',
        b"<a href=b.html rel='nofollow next'>Weiter</a>",
        b'<A ACCESSKEY="n" HREF="b.html">Weiter</A>',
        b'<a class="page-link next" href="b.html">&rarr;</a>',
        b'<a class="pagination__item--next" href="b.html">2</a>',
        b'<a aria-label="Next page" href="b.html"><svg></svg></a>',
    ],
)
def test_the_next_page(page):
    assert sequence_tags(page.lower()) == {0: b"next"}


@pytest.mark.parametrize(
    "page",
    [
        b'<a href="/next">The band</a>',
        b'<a href="/a">Next of kin</a>',
        b'<a href="/a" class="nextcloud">Files</a>',
        b'<a href="/a" accesskey="name">Name</a>',
        b'<p class="next">What is next?</p><a href="/a">That</a>',
        b"",
    ],
)
def test_no_next_page(page):
    assert sequence_tags(page.lower()) == {}


def test_the_next_page_and_the_previous_one():
    page = b'<a rel="prev" href="/1">1</a> <a rel="next" href="/3?a=1&amp;b=2">3</a>'
    assert sequence_tags(page) == {0: b"prev", 30: b"next"}

"""Links to the next and the previous page, and to files to save, as sites write them."""

from __future__ import annotations

import pytest

from hedgerow.markers.link_tags import link_role


def role(tag: bytes) -> str:
    before, _, after = tag.partition(b"TARGET")
    return link_role(before, after)


@pytest.mark.parametrize(
    "tag",
    [
        b'<link rel="next" href=TARGET',
        b"<a href=TARGET rel='nofollow next'",
        b'<A ACCESSKEY="n" HREF=TARGET',
        b"<a accesskey=n href=TARGET",
        b"<a href=TARGET accesskey=n",
        b'<a class="page-link next" href=TARGET',
        b'<a class="pagination__item--next" href=TARGET',
        b'<a aria-label="Next page" href=TARGET',
    ],
)
def test_the_next_page(tag):
    assert role(tag) == "next"


@pytest.mark.parametrize(
    "tag", [b"<a rel=prev href=TARGET", b'<a href=TARGET class="previous"', b'<a href=TARGET accesskey="p"']
)
def test_the_previous_page(tag):
    assert role(tag) == "prev"


@pytest.mark.parametrize(
    "tag",
    [
        b"<a href=TARGET",
        b'<a href=TARGET class="nextcloud"',
        b'<a href=TARGET accesskey="name"',
        b'<a href=TARGET title="next"',
        b'<area class="next" href=TARGET',
        b"<a href=TARGET class=download",
        b"<a" + b" " * 500 + b"rel=next href=TARGET",
    ],
)
def test_no_role(tag):
    assert role(tag) == ""


@pytest.mark.parametrize(
    "tag", [b"<a download href=TARGET", b"<a href=TARGET download", b'<A HREF=TARGET DOWNLOAD="a.pdf" rel=next']
)
def test_a_file_to_save(tag):
    assert role(tag) == "download"

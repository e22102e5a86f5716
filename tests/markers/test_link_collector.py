"""Where the links of a page lead."""

from __future__ import annotations

import gzip

import pytest

from hedgerow.markers.html.content_coding import codec
from hedgerow.markers.link_collector import LinkCollector
from hedgerow.markers.resolve import PageLocation

HERE = PageLocation(b"http", b"example.org", b"/docs/index.html")
PAGE = (
    b"<!DOCTYPE html><body><a href='a.html#top'>a</a> <a href='/b?x=1&amp;y=2'>b</a> <a href='c.zip'>c</a>"
    b"<a href='https://elsewhere.example/'>d</a> <a href=a.html>again</a></body>"
)
TARGETS = [b"/docs/a.html", b"/b?x=1&y=2"]


def collect(collector, data):
    for _ in collector.feeding(data):
        pass


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_pages_of_this_site_in_any_pieces(coding, size):
    found = codec(coding)
    collector = LinkCollector(HERE, found[0] if found else None, 100)
    body = gzip.compress(PAGE) if coding else PAGE
    for at in range(0, len(body), size):
        collect(collector, body[at : at + size])
    assert list(collector.targets) == TARGETS


def test_a_page_with_a_base_of_its_own():
    collector = LinkCollector(HERE, None, 100)
    collect(collector, b"<head><base href='/other/'></head>" + PAGE)
    assert list(collector.targets) == [b"/other/a.html", b"/b?x=1&y=2"]


def test_it_ends_at_enough_links_and_at_damage():
    collector = LinkCollector(HERE, None, 2)
    for number in range(10):
        collect(collector, b"<a href='/%d'>x</a>" % number)
    assert list(collector.targets) == [b"/0", b"/1"]
    broken = LinkCollector(HERE, codec(b"gzip")[0], 100)
    collect(broken, b"no gzip")
    collect(broken, PAGE)
    assert not broken.targets

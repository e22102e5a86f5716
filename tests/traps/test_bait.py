"""Bait: every link different, nothing of the page changed, the same however it comes."""

from __future__ import annotations

import base64
import random
import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from driving import PAGE, bait_rewriter, traps_in, without_bait
from hedgerow.markers.token import Key, TokenCodec, page_digest, visitor_digest
from hedgerow.traps.bait import Bait
from markers.html.nasty import pages, random_page

SEAL = TokenCodec([Key(1, bytes(range(64)), 0.0)])
LIST = b"<!DOCTYPE html><head></head><body>" + b"<li><a href='/x'>x</a></li>\n" * 1000 + b"</body>"


def placed(page: bytes, *, cuts=(), visitor: str = "192.0.2.1", path: str = "/", **options) -> bytes:
    placer = bait_rewriter(SEAL, visitor_digest(visitor), page_digest(path), **options)
    cuts = sorted({cut % (len(page) + 1) for cut in cuts})
    pieces = [page[a:b] for a, b in zip([0, *cuts], [*cuts, len(page)], strict=True)]
    return b"".join(placer.feed(piece, final=n == len(pieces)) for n, piece in enumerate(pieces, 1))


def test_a_page_with_bait():
    page = placed(PAGE)
    assert len(traps_in(page)) == 2
    assert page.count(b"<style>") == 1
    assert page.index(b"<style>") < page.index(b"</head>")
    assert without_bait(page) == PAGE


@pytest.mark.parametrize("placement", ["spread", "links", "end"])
@given(page=pages, cuts=st.lists(st.integers(0, 1000), max_size=6), every=st.integers(1, 4))
@hypothesis_settings(max_examples=60)
def test_taking_the_bait_out_gives_the_page_and_cuts_do_not_matter(placement, page, cuts, every):
    whole = placed(page, placement=placement, every=every)
    assert placed(page, cuts=cuts, placement=placement, every=every) == whole
    assert without_bait(whole) == page


def test_thousands_of_pages_lose_no_byte():
    dice = random.Random(3)
    for _ in range(2_000):
        page = random_page(dice)
        assert without_bait(placed(page, placement="links", every=1)) == page


def test_a_style_stands_before_every_hidden_link():
    dice = random.Random(4)
    for _ in range(1_000):
        page = placed(random_page(dice), placement="links", every=1)
        if traps_in(page):
            assert page.index(b"{display:none!important}</style>") < page.index(b'href="/~')


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"placement": "end"}, 1),
        ({"placement": "links", "every": 1}, 1001),
        ({"placement": "links", "every": 3}, 335),
        ({"placement": "links", "every": 1000}, 2),
        ({"placement": "links", "every": 5000}, 2),
    ],
)
def test_how_many(options, number):
    assert len(traps_in(placed(LIST, **options))) == number


def test_spread_is_ever_further_apart():
    page = placed(LIST, placement="spread", every=3)
    assert 10 < len(traps_in(page)) < 40
    gaps = [len(gap) for gap in re.split(rb'<a class="[a-z]{7}" href="/~[^"]*"></a>', page)[1:-2]]
    assert gaps == sorted(gaps)


def test_the_longest_of_pages_gets_no_more_than_can_be_numbered():
    page = b"<a>x</a> " * 70_000
    out = bait_rewriter(SEAL, b"visitr", b"abcdef", "links", 1).feed(page, final=True)
    assert out.count(b'"></a>') == 65_535
    assert without_bait(out) == page


def test_every_link_is_different_in_a_page_between_pages_and_between_visitors():
    who = [{}, {"path": "/other"}, {"visitor": "198.51.100.7"}, {"visitor": "account:ann"}]
    links = [link for one in who for link in traps_in(placed(LIST, **one, placement="links", every=1))]
    assert len(set(links)) == len(links) == 4 * 1001
    assert len({len(link) for link in links}) == 1


def test_a_link_names_its_page_and_its_visitor():
    for index, link in enumerate(traps_in(placed(PAGE)), 1):
        marker = SEAL.unseal(link.removeprefix("/~"))
        assert marker is not None
        assert (marker.kind, marker.issued_to, marker.parent) == (
            "trap",
            visitor_digest("192.0.2.1"),
            page_digest("/"),
        )
        assert marker.target[:2].encode("latin-1") == index.to_bytes(2, "big")


def test_the_same_page_for_the_same_visitor_is_the_same_bytes():
    assert placed(PAGE) == placed(PAGE)
    assert placed(PAGE) != placed(PAGE, path="/x") != placed(PAGE, visitor="x")


def test_the_name_of_the_rule_is_another_for_every_page_and_visitor():
    rules = {Bait(visitor_digest(f"192.0.2.{n}"), page_digest(f"/{n % 7}")).style for n in range(200)}
    assert len(rules) == 200


def test_the_hash_is_that_of_the_rule():
    one = Bait(b"visitr", b"abcdef")
    rule = one.style.removeprefix(b"<style>").removesuffix(b"</style>")
    assert one.style_hash() == b"'sha256-" + base64.b64encode(sha256(rule).digest()) + b"'"


def behind(neighbour: bytes, mode: str) -> str:
    """The hidden link behind a link to *neighbour*."""
    page = b"<body><a href='" + neighbour.replace(b"&", b"&amp;") + b"'>x</a><p></body>"
    return traps_in(placed(page, placement="links", mode=mode))[0]


@pytest.mark.parametrize("neighbour", [b"/x", b"/a/long/path.html?with=a&query=b", b"/" + b"y" * 300])
def test_a_hidden_link_is_as_long_as_the_link_before_it(neighbour):
    assert len(behind(neighbour, "opaque")) == len(b"/~" + SEAL.seal("page", bytes(6), bytes(6), neighbour))


@pytest.mark.parametrize("neighbour", [b"/x", b"/a?b=1&c=2", b'/q?"'])
def test_in_readable_mode_a_hidden_link_has_the_address_of_the_link_before_it(neighbour):
    start, _, token = behind(neighbour, "readable").rpartition("~=")
    assert start == neighbour.decode().replace('"', "%22") + ("&" if b"?" in neighbour else "?")
    assert len(token) == len(SEAL.seal("page", bytes(6), bytes(6), page_digest("/x")))
    assert SEAL.unseal(token).kind == "trap"

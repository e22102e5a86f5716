"""Bait: every link different, nothing of the page changed, the same however it comes."""

from __future__ import annotations

import base64
import random
import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import PAGE, TRAP, bait_rewriter, form_of, texts_in, traps_in, without_bait
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Rules
from hedgerow.markers.token import Key, TokenCodec, page_digest, visitor_digest
from hedgerow.traps.bait import Bait
from markers.html.nasty import pages, random_page
from property_tests import examples

RULES = Rules("off")
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
@examples(60)
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
    gaps = [len(gap) for gap in re.split(rb'<a class="[a-z_-]+" href="/~[^"]*"></a>', page)[1:-2]]
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


@pytest.mark.parametrize("has_text", [False, True])
def test_the_hash_is_that_of_the_rule(has_text):
    one = Bait(b"visitr", b"abcdef", has_text=has_text)
    rule = one.style.removeprefix(b"<style>").removesuffix(b"</style>")
    assert one.style_hash() == b"'sha256-" + base64.b64encode(sha256(rule).digest()) + b"'"


# ---- Hidden links with text

GARDEN = (
    b"<!DOCTYPE html><html><head></head><body><ul>"
    + b"".join(b"<li><a href='/%d'>word%d of hedge%d</a></li>\n" % (n, n, n) for n in range(30))
    + b"</ul><h2><a href='/x'>Old trees</a> grow</h2></body></html>"
)
SCRIPTED = GARDEN.replace(b"</body>", b"<script>1</script></body>")


def test_texts_are_those_of_the_page_and_taking_the_bait_out_gives_the_page():
    page = placed(GARDEN, has_text=True)
    texts = texts_in(page)
    assert len(texts) == len(traps_in(page)) > 3
    assert all(re.fullmatch(r"(?:word\d+ of|Old) (?:hedge\d+|trees)", text) for text in texts)
    assert len(set(texts)) == len(texts)
    assert without_bait(page) == GARDEN


def test_the_style_of_a_page_names_only_the_classes_that_are_needed():
    """Where some link has no text, or a policy of the page allows one style by its hash, it names both."""
    assert b"share" not in placed(GARDEN, has_text=True)
    page = placed(SCRIPTED, has_text=True, placement="links", every=1)
    assert re.search(rb"<style>\.(?:share[-_]\w+|\w+[-_]share)\.[^,]+,\.[a-z]+", page)
    one = Bait(b"visitr", b"abcdef", has_text=True, has_policy=True)
    assert one.text_style == one.style


def test_without_style_sheets_there_is_no_text():
    page = placed(GARDEN)
    assert traps_in(page)
    assert texts_in(page) == []
    assert b"<span" not in page


def test_no_text_stands_where_scripts_of_the_page_may_read_it():
    for text, inside in ((GARDEN, True), (SCRIPTED, False)):
        page = placed(text, placement="links", every=1, has_text=True)
        heading = page[page.index(b"<h2>") : page.index(b"</h2>")]
        assert traps_in(heading)
        assert bool(texts_in(heading)) is inside


def test_all_visitors_get_the_same_texts():
    page, other = (placed(GARDEN, visitor=visitor, has_text=True) for visitor in ("192.0.2.1", "192.0.2.2"))
    assert texts_in(page) == texts_in(other)
    assert set(traps_in(page)).isdisjoint(traps_in(other))


def forms(visitor: bytes, page: bytes, *, has_policy: bool = False) -> list[str]:
    wrappers = Bait(visitor, page, has_text=True, has_policy=has_policy).wrappers
    return [form_of(before) for before, _ in wrappers]


@pytest.mark.parametrize("has_scripts", [False, True])
def test_a_page_has_two_forms_by_turns(has_scripts):
    for number in range(30):
        page = placed(SCRIPTED if has_scripts else GARDEN, path=f"/{number}", has_text=True)
        one, other, without_scripts = forms(visitor_digest("192.0.2.1"), page_digest(f"/{number}"))
        found = [form_of(link[0].partition(link[1])[0]) for link in TRAP.finditer(page) if link[1]]
        assert found[:4] == [one if has_scripts else without_scripts, other] * 2


def test_a_page_with_scripts_has_nothing_that_looks_like_an_open_dialog_to_them():
    for number in range(60):
        one, other, without_scripts = forms(b"visitr", b"%06d" % number)
        assert "dialog" in without_scripts
        assert "dialog" not in one + other


def test_no_attribute_tells_both_forms_of_a_page():
    for number in range(60):
        for form in forms(b"visitr", b"%06d" % number)[::2]:
            assert " hidden" not in form
            assert "aria-hidden" not in form


def test_where_a_policy_may_forbid_style_attributes_there_are_none():
    without, with_policy = (
        {form for n in range(60) for form in forms(b"visitr", b"%06d" % n, has_policy=has_policy)}
        for has_policy in (False, True)
    )
    assert len(without) == 7
    assert with_policy == {form for form in without if "style" not in form}


def test_forms_differ_between_pages_and_between_visitors_and_stay_for_one_of_each():
    by_page = {tuple(forms(b"visitr", b"%06d" % n)) for n in range(200)}
    by_visitor = {tuple(forms(b"%06d" % n, b"abcdef")) for n in range(200)}
    assert len(by_page) == len(by_visitor) == 6
    assert placed(GARDEN, has_text=True) == placed(GARDEN, has_text=True)
    classes = {Bait(b"%06d" % n, b"abcdef").link_start.replace(b"_", b"-").index(b"share") for n in range(60)}
    assert len(classes) == 2


@given(page=pages, cuts=st.lists(st.integers(0, 1000), max_size=6), visitor=st.sampled_from(range(20)))
@examples(100)
def test_in_pieces_the_page_stays_the_page(page, cuts, visitor):
    out = placed(page, cuts=cuts, visitor=str(visitor), placement="links", every=1, has_text=True)
    assert without_bait(out) == page
    assert len(traps_in(out)) == len(traps_in(placed(page, placement="links", every=1)))


def test_a_page_in_pieces_has_texts_of_what_came_before():
    texts = texts_in(placed(GARDEN, cuts=range(0, len(GARDEN), 100), placement="links", every=1, has_text=True))
    assert len(texts) > 25
    assert re.fullmatch(r"word[0-3] of hedge[0-3]", texts[1])


def test_one_skeleton_serves_all_visitors_and_another_those_without_style_sheets():
    cache = SkeletonCache()
    used = []
    for visitor in (b"visit1", b"visit2", b""):
        bait = Bait(visitor, b"abcdef", has_text=bool(visitor))
        one = PageRewriter(
            PageLocation(b"http", b"x", b"/"), RULES, b"/~", cache, SEAL, visitor or b"visit1", b"abcdef"
        )
        one.add_bait(bait.style, bait.link_start, "spread", 3, wrappers=bait.wrappers, text_style=bait.text_style)
        out = one.feed(GARDEN, final=True)
        assert without_bait(out) == GARDEN
        assert bool(texts_in(out)) is bool(visitor)
        used.append(cache.used)
    assert used[0] == used[1] < used[2]


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

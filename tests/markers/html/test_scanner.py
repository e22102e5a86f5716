"""The scanner: exact, the same however a page is cut, linear. `test_browsers_agree` asks whether browsers agree."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.html import scanner as scan
from hedgerow.markers.html.scanner import LONGEST_TAG, Finding, Scanner
from property_tests import examples

from .nasty import FRAGMENTS, pages, random_page

SPOTS = {"head-end": b"{h}", "after-link": b"{l}", "body-end": b"{e}"}


def finds_of(page: bytes) -> list[Finding]:
    return Scanner().feed(page, final=True)[1]


def spots_of(page: bytes) -> list[Finding]:
    """Where bait may stand."""
    return [find for find in finds_of(page) if find[2] in SPOTS]


def marked(page: bytes) -> bytes:
    """A page with an initial at each spot where bait may stand."""
    for offset, _, kind, _ in reversed(spots_of(page)):
        page = page[:offset] + SPOTS[kind] + page[offset:]
    return page


def feed(chunks: list[bytes]) -> tuple[bytes, list[Finding]]:
    """Page and finds of a page that comes in pieces, the finds counted from its start."""
    scanner, page, finds = Scanner(), b"", []
    for number, chunk in enumerate(chunks, 1):
        settled, found = scanner.feed(chunk, final=number == len(chunks))
        assert all(0 <= start <= end <= len(settled) for start, end, _, _ in found)
        finds += [(len(page) + start, len(page) + end, kind, text) for start, end, kind, text in found]
        page += settled
    return page, finds


def cut(page: bytes, places) -> list[bytes]:
    places = sorted({place % (len(page) + 1) for place in places})
    return [page[a:b] for a, b in zip([0, *places], [*places, len(page)], strict=True)]


# ---- Where spots are


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"<a>x</a> y", b"<a>x</a>{l} y{e}"),
        (b"<A>x</A\n>y</body></html>", b"<A>x</A\n>{l}y{e}</body></html>"),
        (b"<head></head><body></body>", b"<head>{h}</head><body>{e}</body>"),
        (b"x</html>", b"x{e}</html>"),
        (b"x</BODY ><a></a></html>", b"x{e}</BODY ><a></a></html>"),
        (b"", b""),
        (b" \n\t", b" \n\t"),
        (b"<p title='</a>'></a>", b"<p title='</a>'></a>{l}{e}"),
        (b"<p title=</a>></a>", b"<p title=</a>></a>{l}{e}"),
        (b'<p ="</a>"></a>', b'<p ="</a>"></a>{l}{e}'),
        (b"<p ='></a>'>", b"<p ='></a>{l}'>{e}"),
        (b"<!-- </a> --></a>", b"<!-- </a> --></a>{l}{e}"),
        (b"<!-- --!></a>", b"<!-- --!></a>{l}{e}"),
        (b"<!--></a>", b"<!--></a>{l}{e}"),
        (b"<!--!></a>-->", b"<!--!></a>-->{e}"),
        (b"<script></a></script></a>", b"<script></a></script></a>{l}{e}"),
        (
            b"<script><!--<script></script></a>--></script></a>",
            b"<script><!--<script></script></a>--></script></a>{l}{e}",
        ),
        (b"<script></a></script x='</a>></a>'></a>", b"<script></a></script x='</a>></a>'></a>{l}{e}"),
        (b"<textarea></a></textarea>", b"<textarea></a></textarea>{e}"),
        (b"<title></a></title>", b"<title></a></title>{e}"),
        (b"<noscript><a></a></noscript>", b"<noscript><a></a></noscript>{e}"),
        (b"<plaintext></a></plaintext>", b"<plaintext></a></plaintext>"),
        (b"<script></a>", b"<script></a>"),
        (b"<!-- </a>", b"<!-- </a>"),
        (b"x<p title='</a>", b"x<p title='</a>"),
        (b"<svg><a></a></svg><a></a>", b"<svg><a></a></svg><a></a>{l}{e}"),
        (b"<svg/><a></a>", b"<svg/><a></a>{l}{e}"),
        (b"<svg><a></a>", b"<svg><a></a>"),
        (b"<svg></template><a></a></svg>", b"<svg></template><a></a></svg>{e}"),
        (b"<template><a></a></svg></template></a>", b"<template><a></a></svg></template></a>{l}{e}"),
        (b"<select><select></a>", b"<select><select></a>{l}{e}"),
        (b"<svg><title>x</title></svg></a>", b"<svg><title>x</title></svg></a>{l}{e}"),
        (b"<svg><style><![CDATA[a>b]]></style></svg></a>", b"<svg><style><![CDATA[a>b]]></style></svg></a>{l}{e}"),
        (b"<svg><style><!--</style></svg></a>", b"<svg><style><!--</style></svg></a>"),
        (b"<svg><![CDATA[</a>]]></svg></a>", b"<svg><![CDATA[</a>]]></svg></a>"),
        (b"<template></head></template></head>", b"<template></head></template>{h}</head>{e}"),
    ],
)
def test_spots(page, expected):
    assert marked(page) == expected


def test_not_behind_the_last_of_a_row_of_links():
    """Style sheets speak of a row's last child; behind any other link the page looks the same."""
    assert marked(b"<nav><a>1</a>\n<a>2</a> <a>3</a>\n</nav>") == b"<nav><a>1</a>{l}\n<a>2</a>{l} <a>3</a>\n</nav>{e}"
    assert marked(b"<li><a>1</a></li><li><a>2</a></li>") == b"<li><a>1</a>{l}</li><li><a>2</a>{l}</li>{e}"
    assert marked(b"<p><a>1</a>, <a>2</a></p>") == b"<p><a>1</a>{l}, <a>2</a>{l}</p>{e}"


@pytest.mark.parametrize(
    "sign",
    [
        b'<div id="__next">', b"<div id=__nuxt>", b"<script src=/_next/static/x.js></script>",
        b"<div data-reactroot=''>", b"<link href='/_app/immutable/x.css'>", b"<body data-sveltekit-preload-data=hover>",
        b"<DIV  data-server-rendered=true>",
    ],
)  # fmt: skip
def test_a_page_that_its_script_takes_over_gets_bait_at_the_end_alone(sign):
    head = b"{h}" * sign.startswith(b"<body")
    assert marked(sign + b"<a></a></body>") == head + sign + b"<a></a>{e}</body>"
    assert marked(b"<p>id=__next</p><a></a></body>") == b"<p>id=__next</p><a></a>{l}{e}</body>"


@pytest.mark.parametrize("quote", [b"", b'"', b"'"])
def test_a_policy_in_the_page_forbids_bait(quote):
    meta = b"<META http-equiv = " + quote + b"Content-Security-Policy" + quote + b" content=x>"
    assert spots_of(b"<head>" + meta + b"</head><a></a></body></html>") == []


def test_a_page_deeper_than_any_is_left_alone():
    assert spots_of(b"<svg>" * 500 + b"</svg>" * 500 + b"<a></a>") == []


def targets_of(page: bytes) -> list[bytes]:
    return [text for start, end, kind, text in finds_of(page) if kind in {"link", "plain-link"} and start < end]


@pytest.mark.parametrize("name", [b"script", b"style", b"textarea", b"xmp", b"noframes"])
def test_in_a_drawing_that_was_left_open_text_is_text(name):
    """A `<div>` ends a drawing without an end tag; a script that writes links must not be changed for that."""
    page = b"<svg><path d=x><div></div><" + name + b">s = \"<a href='/x'>\"</" + name + b"><a href=/y></a>"
    assert targets_of(page) == [b"/y"]
    assert spots_of(page) == []
    assert targets_of(b"<svg><title><a href=/x></a></title></svg>") == [b"/x"]


def test_a_select_has_no_sections():
    assert targets_of(b"<select><![CDATA[><a href=/x>]]></select>") == [b"/x"]


# ---- However it is cut


@given(pages, st.lists(st.integers(0, 1000)))
@examples(400)
def test_the_finds_are_the_same_however_the_page_is_cut(page, places):
    assert feed(cut(page, places)) == (page, finds_of(page))


@given(pages)
def test_byte_by_byte(page):
    assert feed([page[n : n + 1] for n in range(len(page))] + [b""]) == (page, finds_of(page))


def test_thousands_of_pages_cut_in_two_anywhere():
    dice = random.Random(2)
    for _ in range(3_000):
        page = random_page(dice)
        place = dice.randrange(len(page) + 1)
        assert feed([page[:place], page[place:]]) == (page, finds_of(page)), page


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_come_out_as_they_went_in(page, places):
    settled, finds = feed(cut(page, places))
    assert settled == page
    assert finds == finds_of(page)
    edges = [edge for start, end, _, _ in finds for edge in (start, end)]
    assert edges == sorted(edges)


def test_text_behind_a_link_is_not_kept_waiting():
    """A page that is written as one watches: what is no tag is passed on, though no ">" has come."""
    scanner = Scanner()
    assert scanner.feed(b"<a>x</a>", final=False)[0] == b"<a>x"
    assert scanner.feed(b" and then some more text", final=False) == (
        b"</a> and then some more text",
        [(4, 4, "after-link", b"")],
    )
    assert scanner.feed(b" and more", final=False)[0] == b" and more"


def test_an_endless_tag_is_passed_on():
    scanner = Scanner()
    out = b"".join(scanner.feed(b"<p title='" + b"x" * 100_000, final=False)[0] for _ in range(10))
    assert len(out) > 10 * 100_000 - LONGEST_TAG
    assert scanner.feed(b"'></a>", final=True)[1] == []


# ---- Linear


HARD = {
    "less than": lambda n: b"<" * n,
    "greater than": lambda n: b">" * n,
    "end tags": lambda n: b"</a>" * (n // 4),
    "links": lambda n: b"<a></a>" * (n // 7),
    "open quotes": lambda n: b"<a title=" + b'"' * n,
    "quotes and equals": lambda n: b'="' * (n // 2),
    "two kinds of quotes": lambda n: b"=\"='" * (n // 4),
    "an unfinished value": lambda n: b"</a><p title='" + b"x=" * (n // 2),
    "unfinished values": lambda n: b"<p title='" * (n // 10),
    "odd values": lambda n: b"<p title='<'></a>" * (n // 17),
    "comments": lambda n: b"<!--" * (n // 4),
    "dashes": lambda n: b"<!--" + b"-" * n,
    "dashes and bangs": lambda n: b"<!--" + b"--!" * (n // 3),
    "scripts": lambda n: b"<script>" + b"<!--<script>" * (n // 12),
    "ends of scripts": lambda n: b"<script>" + b"</script" * (n // 8),
    "templates": lambda n: b"<template>" * (n // 10),
    "svg": lambda n: b"<svg><style>" * (n // 12),
    "sections": lambda n: b"<svg>" + b"<![CDATA[" * (n // 9),
    "white space": lambda n: b"</a>" + b" " * n,
    "white space and equals": lambda n: b"<p " + b"= " * (n // 2),
    "slashes": lambda n: b"<a" + b"/" * n,
    "titles": lambda n: b"<title>" * (n // 7),
    "declarations": lambda n: b"<!x" * (n // 3),
    "names": lambda n: b"<div " * (n // 5),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", HARD)
def test_the_time_grows_with_the_page_and_no_faster(name):
    """
    Ten times the page takes ten times as long, a hundred times where something is gone over again and again.

    Three seconds are always allowed, a dozen times what the slowest needs: only an explosion fails.
    """

    def seconds(size: int, pieces: int) -> float:
        page = HARD[name](size)
        step = len(page) // pieces + 1
        scanner, began = Scanner(), time.process_time()
        for start in range(0, len(page), step):
            scanner.feed(page[start : start + step], final=start + step >= len(page))
        return time.process_time() - began

    for pieces in (1, 16):
        small, large = seconds(30_000, pieces), seconds(300_000, pieces)
        assert large < 3 or large < 40 * small


def test_the_grammar_has_all_kinds_of_things():
    assert len(set(FRAGMENTS)) > 150


@pytest.mark.parametrize("name", [*scan._OPENING, *(b"/" + name for name in scan._CLOSING)])
def test_no_tag_that_matters_is_passed_over(name):
    for written in (name, name.upper()):
        for end in (b" ", b">", b"/", b"\n", b""):
            assert re.match(scan._NEVER_RELEVANT, written + end)

"""Clean marks: what they say, what opens them, and how a page with them is written."""

from __future__ import annotations

import base64
import gzip
import random
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.clean import (
    CHECK_BITS,
    SCRIPT_ELEMENT,
    VIEW_LENGTH,
    CleanCodec,
    split_link,
    split_mark,
    without_marks,
)
from hedgerow.markers.encoding import KIND_CODES
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Rules
from hedgerow.markers.token import Key, TokenCodec, TokenCodecs
from hedgerow.request.identify import Identifier
from markers.html.nasty import random_page

KEYS = [Key(1, bytes(range(64)), 0.0)]
CODEC = TokenCodec(KEYS, "example.org")
CLEAN = CODEC.clean
VISITOR, PARENT, AT = b"visitr", b"parent", 1_790_000_000.0
_MARK = re.compile(rb"(?:\?|&amp;|&)~=([A-Za-z0-9_-]{23})\.([A-Za-z0-9_-]{4})")
_HIDDEN = re.compile(rb'<a class="bait" href="([^"]*)"></a>')


def mark(kind: str, target: str, clean: CleanCodec = CLEAN) -> str:
    view = clean.view(VISITOR, PARENT, AT)
    return f"{view.text.decode()}.{clean.checks(view, clean.plan([KIND_CODES[kind] + target.encode()]))[0].decode()}"


def unmark(asked: str, host: str = "example.org", keys=KEYS):
    return Identifier(tokens=TokenCodecs(keys), prefix="/~").unmark(asked, host)


def rewritten(page: bytes, target: bytes = b"/docs/start.html", *, cuts=(), bait=False, script=False) -> bytes:
    one = PageRewriter(
        PageLocation(b"https", b"example.org", target), Rules("clean"), b"/~", SkeletonCache(), CODEC, VISITOR, PARENT,
        at=AT,
    )  # fmt: skip
    if bait:
        one.add_bait(b"<style></style>", b'<a class="bait" href="', "links", 1)
    if script:
        one.add_script()
    cuts = sorted({cut % (len(page) + 1) for cut in cuts})
    pieces = [page[a:b] for a, b in zip([0, *cuts], [*cuts, len(page)], strict=True)]
    return b"".join(one.feed(piece, final=n == len(pieces)) for n, piece in enumerate(pieces, 1))


# ---- The mark itself


def test_a_mark_names_visitor_page_time_and_kind_of_link():
    view = CLEAN.view(VISITOR, PARENT, AT)
    assert len(view.text) == VIEW_LENGTH
    opened = CLEAN.open(view.text.decode())
    assert (opened.issued_to, opened.parent, opened.at) == (VISITOR, PARENT, AT // 86_400 * 86_400)
    for kind in ("page", "frame", "form", "trap"):
        _, check = split_mark(mark(kind, "/a?x=1" if kind != "form" else "/a"))
        assert CLEAN.kind(opened, check, "/a?x=1", "/a") == kind
        assert CLEAN.kind(opened, check, "/b?x=1", "/b") is None


EARLIER = "AVEG6cOdl3DtGacUufqaBSCHCT_6E3BFQqv2d98ran8"
"""The VIEW of the same page view as it was made before VIEWs were single blocks."""


@pytest.mark.parametrize(
    ("kind", "target", "check"), [("page", "/a?x=1", "QLxEC"), ("trap", "/three", "iWZTt"), ("form", "/a", "WMZ_D")]
)
def test_a_mark_from_before_still_opens(kind, target, check):
    asked, marker, invalid = unmark(f"{target}{'&' if '?' in target else '?'}~={EARLIER}.{check}")
    assert (asked, marker.kind, marker.issued_to, marker.parent, invalid) == (target, kind, VISITOR, PARENT, False)
    other = unmark(f"/b?~={EARLIER}.{check}")
    assert other == ("/b", None, True)


def test_parts_of_marks_of_both_forms_do_not_go_together():
    new = mark("page", "/a")
    view, check = split_mark(new)
    block = base64.urlsafe_b64decode(EARLIER + "=")[1:17]
    as_new = base64.urlsafe_b64encode(bytes([1]) + block).decode().rstrip("=")
    for value in (f"{EARLIER}.{check}", f"{view}.WMZ_D", f"{as_new}.{check}", f"{as_new}.WMZ_"):
        assert unmark(f"/a?~={value}")[1] is None
    assert without_marks(b"/a?x=1&~=" + EARLIER.encode() + b".WMZ_D") == b"/a?x=1"


def test_a_random_view_does_not_open_with_a_check_of_another():
    """One of 256 opens by itself, which is of no use without a CHECK."""
    _, check = split_mark(mark("page", "/a"))
    dice = random.Random(1)
    opened = 0
    for _ in range(3_000):
        view = base64.urlsafe_b64encode(b"\1" + dice.randbytes(16)).decode().rstrip("=")
        opened += CLEAN.open(view) is not None
        assert unmark(f"/a?~={view}.{check}")[1] is None
    # Binomial with p = 1/256: mean 11.7.
    assert 1 <= opened <= 35


def test_all_links_of_a_view_have_the_same_view_and_other_checks():
    view = CLEAN.view(VISITOR, PARENT, AT)
    checks = CLEAN.checks(view, CLEAN.plan([KIND_CODES["page"] + b"/%d" % n for n in range(500)]))
    assert len(set(checks)) == 500
    other = CLEAN.checks(CLEAN.view(VISITOR, PARENT, AT + 100_000), CLEAN.plan([KIND_CODES["page"] + b"/0"]))
    assert other[0] != checks[0]


def test_a_check_of_another_link_or_view_opens_nothing():
    """A crawler that swaps CHECKs between links gets no mark that counts, and does not learn which link is hidden."""
    one, trap = mark("page", "/one"), mark("trap", "/three")
    for value in (one, trap):
        target, marker, invalid = unmark(f"/two?~={value}")
        assert (target, marker, invalid) == ("/two", None, True)
    view, check = split_mark(one)
    later = CLEAN.view(VISITOR, PARENT, AT + 100_000).text.decode()
    assert unmark(f"/one?~={later}.{check}")[1] is None
    assert unmark(f"/one?~={view}.{check}")[1].kind == "page"


@pytest.mark.parametrize("generation", [0, 1, 15, 255])
def test_a_mark_has_a_generation(generation):
    view = CLEAN.view(VISITOR, PARENT, AT, generation)
    assert len(view.text) == VIEW_LENGTH
    assert (view.text == CLEAN.view(VISITOR, PARENT, AT).text) == (generation == 0)
    check = CLEAN.checks(view, CLEAN.plan([KIND_CODES["page"] + b"/one"]))[0]
    assert unmark(f"/one?~={view.text.decode()}.{check.decode()}")[1].generation == generation


def test_a_random_check_opens_with_the_computed_probability():
    """Five kinds of 24 bits. Counted with 12 bits of it, where it happens often enough to be counted."""
    opened = CLEAN.open(CLEAN.view(VISITOR, PARENT, AT).text.decode())
    assert CHECK_BITS == 24
    tries, hits = 20_000, 0
    for number in range(tries):
        target = f"/{number}"
        _, check = split_mark(mark("page", target))
        hits += check[:2] == "AA"
        assert CLEAN.kind(opened, "AAAA", target, target) is None or check == "AAAA"
    # Binomial with p = 1/4096: mean 4.9, and 17 or more once in 50,000 keys.
    assert hits < 17


@given(st.integers(0, VIEW_LENGTH + 4), st.sampled_from("ABCxyz019-_"))
def test_a_changed_character_is_noticed_and_the_page_stays(position, letter):
    value = mark("page", "/a")
    changed = value[:position] + letter + value[position + 1 :]
    if changed == value or position == VIEW_LENGTH:
        return
    target, marker, invalid = unmark(f"/a?~={changed}")
    assert (target, marker) == ("/a", None)
    # The first character is the number of a key, and such a key may have been dropped.
    assert invalid or position < 2


@pytest.mark.parametrize("length", [20, 22, 23, 24, 27])
def test_a_mark_that_was_cut_off_costs_nobody_the_page(length):
    assert unmark(f"/a?x=1&~={mark('page', '/a?x=1')[:length]}")[:2] == ("/a?x=1", None)


@pytest.mark.parametrize("value", ["", "5", "home", "a.b", "a%20b", "~", "chapter-12-overview"])
def test_a_parameter_of_the_sites_own_stays(value):
    assert unmark(f"/a?~={value}&x=1") == (f"/a?~={value}&x=1", None, False)


def test_what_is_added_to_a_link_stays_in_the_target():
    value = mark("page", "/a?x=1")
    for added in ("utm_source=mail", "fbclid=abc&y=2"):
        target, marker, invalid = unmark(f"/a?x=1&~={value}&{added}")
        assert (target, marker.kind, invalid) == (f"/a?x=1&{added}", "page", False)
    target, marker, _ = unmark(f"/a?~={mark('page', '/a')}&utm_source=mail")
    assert (target, marker.kind) == ("/a?utm_source=mail", "page")


def test_a_form_that_is_sent_as_a_query_may_have_any_fields():
    value = mark("form", "/search")
    for query in (f"~={value}&q=a", f"q=a&~={value}&page=2"):
        target, marker, _ = unmark(f"/search?{query}")
        assert (target, marker.kind) == ("/search?" + query.replace(f"~={value}&", ""), "form")


def test_another_site_or_a_dropped_key_opens_nothing_and_is_held_against_nobody_for_the_key():
    value = mark("page", "/a")
    assert unmark(f"/a?~={value}", "other.example") == ("/a", None, True)
    assert unmark(f"/a?~={value}", keys=[Key(2, bytes(64), 1.0)]) == ("/a", None, False)
    both = [*KEYS, Key(2, bytes(64), 1.0)]
    assert unmark(f"/a?~={value}", keys=both)[1].kind == "page", "marks made before a rotation still open"


# ---- Links


def test_links_as_they_are_written_have_one_place_for_a_mark():
    assert split_link(b" a.html\n") == (b"a.html?~=", b"")
    assert split_link(b"?page=2#x?y") == (b"?page=2&~=", b"#x?y")
    stored = b"/a?x=1&~=" + mark("page", "/a?x=1").encode()
    assert split_link(stored) == split_link(b"/a?x=1"), "a link that was copied is not marked twice"
    assert without_marks(b"/a?~=5") == b"/a?~=5"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/x">x</a>', '<a href="/x?{page /x}">x</a>'),
        ("<a href=next.html#top>", '<a href="next.html?{page /docs/next.html}#top">'),
        ("<a href='../?x=1&amp;y=2'>", '<a href="../?x=1&amp;y=2&amp;{page /?x=1&y=2}">'),
        ('<a href="?page=2">', '<a href="?page=2&amp;{page /docs/start.html?page=2}">'),
        ('<a href="https://example.org/x">', '<a href="https://example.org/x?{page /x}">'),
        ('<iframe src="/f"></iframe>', '<iframe src="/f?{frame /f}"></iframe>'),
        ('<form method=post action="/p">', '<form method=post action="/p?{page /p}">'),
        ("<form method=post>", "<form method=post>"),
        ('<form action="/s?a=1">', '<form action="/s?a=1"><input type="hidden" name="~" value="{form /s}">'),
        ('<meta http-equiv=refresh content="5; url=/x">', '<meta http-equiv=refresh content="5; url=/x?{page /x}">'),
        ('<a href="#top">', '<a href="#top">'),
        ('<a href="/x?">', '<a href="/x?">'),
        ('<a href="https://other.example/">', '<a href="https://other.example/">'),
        ('<a href="/photo.jpg">', '<a href="/photo.jpg">'),
    ],
)
def test_every_element(page, expected):
    def one(match: re.Match[bytes]) -> bytes:
        text = b"=".join(match[0].split(b"=")[-1:]).decode()
        view, check = text.split(".")
        opened = CLEAN.open(view)
        for kind, target in re.findall(r"\{(\w+) ([^}]*)\}", expected):
            path = target.partition("?")[0]
            if CLEAN.kind(opened, check, target, path) == kind:
                return b"{%b %b}" % (kind.encode(), target.encode())
        return match[0]

    result = re.sub(rb"(?:~=)?[A-Za-z0-9_-]{23}\.[A-Za-z0-9_-]{4}", one, rewritten(page.encode()))
    assert result.decode() == expected


@given(st.integers(0, 10_000))
def test_without_its_marks_a_page_leads_where_it_led_and_every_mark_opens(seed):
    page = random_page(random.Random(seed))
    marked = rewritten(page)
    here = PageLocation(b"https", b"example.org", b"/docs/start.html")
    for match in re.finditer(rb'(?:href|src|action)="([^"]*~=[^"]*)"', marked):
        url = unescape(match[1].decode("latin-1")).encode("latin-1", "replace")
        found = resolve(url, here)
        assert found is not None
        target, marker, invalid = unmark(found[0].decode("latin-1"))
        plain = resolve(without_marks(url.partition(b"#")[0]), here)
        if marker is not None and plain is not None:
            assert (target, invalid) == (plain[0].decode("latin-1"), False)


def test_pages_in_pieces_have_the_same_links():
    page = b"<html><head></head><body>" + b"".join(b'<a href="p%d">%d</a> ' % (n, n) for n in range(40)) + b"</body>"
    assert rewritten(page, cuts=[7, 100, 333]) == rewritten(page)


# ---- Hidden links


def hidden(page: bytes) -> list[str]:
    return [unescape(found.decode()) for found in _HIDDEN.findall(page)]


PAGE = b"<html><head></head><body>" + b"".join(
    b'<a href="/%b/%b.html">x</a> ' % (folder, name) for folder in (b"docs", b"blog") for name in (b"one", b"two")
)


@pytest.mark.parametrize("cuts", [(), (60, 90, 120)])
def test_a_hidden_link_looks_like_the_others_and_leads_to_none_of_them(cuts):
    marked = rewritten(PAGE, bait=True, cuts=cuts)
    links = [unescape(one.decode()) for one in re.findall(rb'<a href="([^"]*)">', marked)]
    traps = hidden(marked)
    assert len(traps) >= 4
    targets = set()
    for url in traps:
        target, marker, invalid = unmark(url)
        assert (marker.kind, invalid) == ("trap", False)
        targets.add(target)
    assert len(targets) == len(traps)
    assert targets.isdisjoint(unmark(url)[0] for url in links)
    shape = re.compile(r"/(docs|blog)/[\w-]+\.html\?~=[\w-]{23}\.[\w-]{4}")
    assert all(shape.fullmatch(url) for url in [*links, *traps] if "~=" in url)


def test_a_link_that_comes_after_a_hidden_one_to_the_same_target_is_left_alone():
    first = rewritten(PAGE[:80] + b"</a>", bait=True, cuts=(79,))
    target = unmark(hidden(first)[0])[0].encode()
    page = PAGE[:80] + b'</a><a href="%b">late</a>' % target
    assert b'<a href="%b">late</a>' % target in rewritten(page, bait=True, cuts=(79, 80, 84))


def test_hidden_links_are_written_as_the_link_before_them():
    page = b"<html><body>" + b"".join(b'<p><a href="%b">x</a> y</p>' % one for one in (b"a.html", b"/docs/b.html"))
    urls = hidden(rewritten(page + b"</body></html>", bait=True))
    assert not urls[0].startswith("/")
    assert all(url.startswith("/docs/") for url in urls[1:])
    target, _ = resolve(urls[0].encode(), PageLocation(b"https", b"example.org", b"/docs/start.html"))
    assert unmark(target.decode())[1].kind == "trap"


def test_a_page_without_links_gets_a_hidden_one_that_fits_its_address():
    traps = hidden(rewritten(b"<html><head></head><body><p>x</p></body></html>", bait=True))
    assert traps
    assert all(url.startswith("/docs/") and unmark(url)[1].kind == "trap" for url in traps)


# ---- The script, and the size


def test_the_script_comes_first_in_the_head_and_only_where_it_is_asked_for():
    page = b"<!doctype html><html><head><script>site()</script></head><body></body></html>"
    assert rewritten(page) == page
    assert rewritten(page, script=True) == page.replace(b"<head>", b"<head>" + SCRIPT_ELEMENT)
    assert len(SCRIPT_ELEMENT) < 130


def test_a_page_of_many_links_compresses_well():
    page = b"<html><head></head><body>" + b"".join(
        b'<p><a href="/docs/page%d.html">Page %d of the manual</a>, and some words about it.</p>' % (n, n * 7 % 113)
        for n in range(116)
    )  # fmt: skip
    plain, marked = (len(gzip.compress(body)) for body in (page, rewritten(page)))
    assert marked - plain < 6.5 * 116, "six bytes a link, of which three are its CHECK"

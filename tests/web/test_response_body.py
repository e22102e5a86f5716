"""The body of a page on its way out: decoded, rewritten, encoded again, in any pieces; or not touched at all."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import brotli
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import KEY, OFF, PAGE, bait_rewriter, marked_links_in, settings, traps_in, without_bait
from hedgerow.core.decision import Decision
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.lists.model import Lists
from hedgerow.markers.html.content_coding import BrokenCoding, codec, zstd
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.web.app import Site
from hedgerow.web.response import ResponseRewriter, beginning_of
from hedgerow.web.stores import build_state
from markers.html.nasty import pages
from property_tests import examples

SEALS = TokenCodecs([Key(1, KEY, 0.0)])
HTML = b"text/html; charset=utf-8"
PACKERS = {
    b"": lambda body: body,
    b"identity": lambda body: body,
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": lambda body: brotli.compress(body, quality=1),
    b"zstd": zstd.compress,
}
EVERYWHERE = "[traps]\nplacement = 'links'\nevery = 1\n[density]\nenabled = false\n"
VISIT = Visit(1.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/", host="example.org")


def opened(text: str, folder: Path) -> Site:
    chosen = settings(f"directory = '{folder}'\n{text}").without_clearances()
    return Site(chosen, tokens=SEALS, state=build_state(chosen), ledger=NoLedger(), lists=Lists())


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    """A site whose links are not marked, with a hidden link after every one of them."""
    with closing(opened(OFF + EVERYWHERE, tmp_path_factory.mktemp("site"))) as one:
        yield one


@pytest.fixture(scope="module")
def marking_site(tmp_path_factory) -> Iterator[Site]:
    with closing(opened(EVERYWHERE, tmp_path_factory.mktemp("site"))) as one:
        yield one


def rewritten(page: bytes) -> bytes:
    """A whole page as it must come out."""
    issued_to, parent = visitor_digest(VISIT.visitor), page_digest(VISIT.target)
    return bait_rewriter(SEALS.of(VISIT.host), issued_to, parent, "links", 1).feed(page, final=True)


class Body:
    """Feeds the body of one response to a `ResponseRewriter`, which never waits here."""

    def __init__(self, site: Site, coding: bytes = b"", content_type: bytes = HTML, *, by_script: bool = False) -> None:
        self._site = site
        self._untouched = site.counters.skipped.copy()
        self._sent: list[bytes] = []
        visit = msgspec.structs.replace(VISIT, kind="call") if by_script else VISIT
        self._rewriter = ResponseRewriter(site.app, visit, Decision("pass"), self._send)
        headers = [(b"content-type", content_type), *([(b"content-encoding", coding)] if coding else [])]
        self._tell({"type": "http.response.start", "status": 200, "headers": headers})

    def feed(self, data: bytes, *, final: bool) -> bytes:
        """What the client gets of it now."""
        self._tell({"type": "http.response.body", "body": data, "more_body": not final})
        sent = b"".join(self._sent)
        self._sent.clear()
        return sent

    @property
    def given_up(self) -> str:
        """Why the body was not rewritten, as far as that is counted."""
        return "".join(self._site.counters.skipped - self._untouched)

    def _tell(self, message: dict[str, Any]) -> None:
        # It may let others run in between, but waits for nothing.
        running = self._rewriter(message)
        with suppress(StopIteration):
            while running.send(None) is None:
                pass
            raise AssertionError("it waits")

    async def _send(self, message: dict[str, Any]) -> None:
        self._sent.append(message.get("body", b""))


def send(body: bytes, to: Body, cuts=()) -> bytes:
    """What comes out of a whole body, in the same coding."""
    cuts = sorted({cut % (len(body) + 1) for cut in cuts})
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    return b"".join(to.feed(piece, final=n == len(pieces)) for n, piece in enumerate(pieces, 1))


def unpack(body: bytes, coding: bytes) -> bytes:
    if coding in {b"", b"identity"}:
        return body
    decoder = codec(coding)[0]
    out = b"".join(decoder.feed(body))
    decoder.end()
    return out


@pytest.mark.parametrize("coding", PACKERS)
@given(page=pages, cuts=st.lists(st.integers(0, 2000), max_size=8))
@examples(40)
def test_there_and_back_in_any_coding_and_any_pieces(site, coding, page, cuts):
    page = PAGE[:60] + page
    out = unpack(send(PACKERS[coding](page), Body(site, coding), cuts), coding)
    assert out == rewritten(page)
    assert without_bait(out) == page


@pytest.mark.parametrize("coding", PACKERS)
def test_byte_by_byte(site, coding):
    body = PACKERS[coding](PAGE)
    assert unpack(send(body, Body(site, coding), range(len(body))), coding) == rewritten(PAGE)


# ---- Broken bodies


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
@pytest.mark.parametrize("body", [b"<html>not packed at all</html>", b"", b"\x1f\x8b\x08"])
def test_a_body_that_is_broken_from_the_start_is_passed_on(site, coding, body):
    for cuts in ((), range(40)):
        one = Body(site, coding)
        assert send(body, one, cuts) == body
        assert one.given_up == "broken"


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_a_body_that_breaks_midway_is_broken(site, coding):
    packed = PACKERS[coding](PAGE + bytes(range(256)) * 400 + b"".join(b"<p>%d</p>" % n for n in range(20_000)))
    body = Body(site, coding)
    middle = len(packed) // 2
    assert body.feed(packed[:middle], final=False)
    with pytest.raises(BrokenCoding):
        body.feed(b"\xff\0\xff" * 5_000, final=True)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_a_bomb_stays_small(site, coding):
    """All of it in one piece, as an application may send it: it is passed on as it is decoded."""
    size = 40_000_000
    bomb = PACKERS[coding](PAGE + bytes(size))
    body = Body(site, coding)
    tracemalloc.start()
    try:
        out = body.feed(bomb, final=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(out) < 1_000_000
    assert peak < 10_000_000
    assert sum(map(len, codec(coding)[0].feed(out))) > size


def test_a_body_that_is_decoded_to_nothing_for_ever_is_given_up(site):
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    nothing = deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    body = Body(site, b"gzip")
    assert body.feed(nothing, final=False) == b""
    more = b"\0\0\0\xff\xff" * 10_000
    out = b"".join(body.feed(more, final=False) for _ in range(100))
    assert out == nothing + 100 * more
    assert body.given_up == "broken"


def test_a_body_in_an_unknown_coding_is_passed_on(site):
    body = Body(site, b"compress")
    assert send(PAGE, body) == PAGE
    assert body.given_up == "coding"


# ---- Charsets


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_wide_pages(site, charset, mark, coding):
    text = PAGE.decode().replace("Hedges", "Hecken: äöü 生け垣 🌿")
    page = ("\ufeff" * mark + text).encode(charset)
    content_type = b"text/html" if mark else b"text/html; charset=" + charset.encode()
    for cuts in ((), range(0, 400, 7)):
        out = unpack(send(PACKERS[coding](page), Body(site, coding, content_type), cuts), coding).decode(charset)
        assert len(traps_in(out.encode())) == 4
        assert without_bait(out.encode()).decode() == "\ufeff" * mark + text


def test_a_page_that_switches(site):
    page = PAGE.replace(b"Hedges", "生け垣".encode("iso2022_jp")).replace(
        b"</head>", b"<meta charset=iso-2022-jp></head>"
    )
    for content_type in (b"text/html; charset=ISO-2022-JP", b"text/html"):
        for cuts in ((), range(len(page))):
            out = send(page, Body(site, content_type=content_type), cuts)
            assert len(traps_in(out)) == 4
            assert without_bait(out) == page


def test_a_label_that_nobody_knows_or_that_lies(site):
    assert without_bait(send(PAGE, Body(site, content_type=b"text/html; charset=klingon"))) == PAGE
    odd = PAGE + b"!" * (len(PAGE) % 2 == 0)
    lying = Body(site, content_type=b"text/html; charset=utf-16")
    assert send(odd, lying) == odd
    assert lying.given_up == "charset"
    wide = PAGE.decode().encode("utf-16-le")
    assert wide in send(wide, Body(site))


def test_a_wide_page_too_large_to_gather_is_passed_on(site):
    body = Body(site, content_type=b"text/html; charset=utf-16")
    start, more = "<html>".encode("utf-16-le"), b"x\0" * 100_000
    assert body.feed(start, final=False) == b""
    assert b"".join(body.feed(more, final=False) for _ in range(100)) == start + 100 * more
    assert body.given_up == "charset"


# ---- Documents, fragments and what is no HTML


@pytest.mark.parametrize(
    ("start", "beginning"),
    [
        (b"<!DOCTYPE html>", "document"),
        (b"<!doctype", "document"),
        (b"\xef\xbb\xbf\n <!-- c --> <!-- d --><HTML lang=en>", "document"),
        (b'<?xml version="1.0"?><!DOCTYPE html>', "document"),
        (b"<div>", "fragment"),
        (b"<!-- c --><div>", "fragment"),
        (b"<!-- c", "fragment"),
        (b"<htmlx>", "fragment"),
        (b"<!doctypehtml>", "document"),
        (b'{"html": "<html>"}', "text"),
        (b"OK", "text"),
        (b"", "text"),
        (b"\n\n", "text"),
    ],
)
def test_beginning_of(start, beginning):
    assert beginning_of(start, final=True) == beginning


@pytest.mark.parametrize(
    "start", [b"", b"\xef\xbb\xbf", b" ", b"<", b"<!", b"<!doc", b"<ht", b"<!-", b"<!-- c", b"<?xml", b"<!-- c -->"]
)
def test_more_must_come_to_tell(start):
    assert beginning_of(start, final=False) is None


STARTS = [b"<!-- a -->", b" ", b"<!DOCTYPE html>", b"<html>", b"<div>", b"x", b"<!--", b"-->", b"<?x?>", b"\n", b"<p>"]


@given(st.lists(st.sampled_from(STARTS), min_size=1).map(b"".join))
def test_what_was_told_early_stays_true(page):
    final = beginning_of(page, final=True)
    for length in range(len(page)):
        assert beginning_of(page[:length], final=False) in {None, final}


def test_a_row_of_comments_takes_no_time():
    """Fragments of some frameworks begin with dozens. Taken apart in every way they would last for ever."""
    start = b"<!---->" * 1_000 + b"<div>"
    began = time.process_time()
    assert beginning_of(start, final=True) == "fragment"
    assert beginning_of(b"<!--" * 20_000, final=True) == "fragment"
    assert time.process_time() - began < 20


FRAGMENT = b"<div><a href='/x'>x</a></div>"


@pytest.mark.parametrize("cuts", [(), range(50)])
def test_fragments_and_documents(site, cuts):
    assert traps_in(send(FRAGMENT, Body(site), cuts))
    assert traps_in(send(PAGE, Body(site, by_script=True), cuts))
    by_script = Body(site, by_script=True)
    assert send(FRAGMENT, by_script, cuts) == FRAGMENT
    wide = FRAGMENT.decode().encode("utf-16-le")
    assert send(wide, Body(site, content_type=b"text/html; charset=utf-16", by_script=True), cuts) == wide
    assert not by_script.given_up


@pytest.mark.parametrize("charset", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_fragment_for_a_script_has_marked_links_and_no_hidden_ones(marking_site, charset, step):
    for text, is_document in ((FRAGMENT.decode(), False), (PAGE.decode(), True)):
        body = text.encode(charset)
        one = Body(marking_site, content_type=f"text/html; charset={charset}".encode(), by_script=True)
        out = send(body, one, range(0, len(body), step)).decode(charset)
        assert len(marked_links_in(out.encode())) == text.count("href=")
        assert bool(traps_in(out.encode())) == is_document


@pytest.mark.parametrize("body", [b'{"a": "</a>"}', b"", b"OK", b"[1, 2]", b"callback({})", b" \n"])
@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_a_body_that_is_no_html_under_its_name_is_passed_on(site, body, coding):
    """Many a program sends JSON as text/html. A link at its end would break the script that reads it."""
    packed = PACKERS[coding](body)
    for cuts in ((), range(20)):
        assert send(packed, Body(site, coding), cuts) == packed


def test_a_page_that_comes_slowly_is_passed_on_as_it_comes(site):
    body = Body(site)
    assert body.feed(b"<!DOCTYPE html><p>one", final=False) == b"<!DOCTYPE html><p>one"
    assert body.feed(b" two", final=False) == b" two"
    packed = Body(site, b"gzip")
    unpacked, deflate = zlib.decompressobj(31), zlib.compressobj(6, zlib.DEFLATED, 31)
    for piece in (b"<!DOCTYPE html><p>one", b" two", b" three"):
        sent = packed.feed(deflate.compress(piece) + deflate.flush(zlib.Z_SYNC_FLUSH), final=False)
        assert unpacked.decompress(sent) == piece

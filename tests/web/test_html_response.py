"""A page on its way out: decoded, baited, encoded again, in any pieces; or not touched at all."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hedgerow.web.html_response import (
    NotRewritable,
    Outgoing,
    beginning_of,
    has_our_etag,
    header,
    is_html,
    restored_etags,
    touched_headers,
)
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from driving import KEY, PAGE, bait_rewriter, traps_in, without_bait
from hedgerow.markers.html.content_coding import BrokenCoding, codec
from hedgerow.markers.rewrite import Rewriter
from hedgerow.markers.token import Key, TokenCodec, visitor_digest
from markers.html.nasty import pages

SEAL = TokenCodec([Key(1, KEY, 0.0)])
HTML = b"text/html; charset=utf-8"
PACKERS = {
    b"": lambda body: body,
    b"identity": lambda body: body,
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": lambda body: brotli.compress(body, quality=1),
    b"zstd": zstandard.compress,
}


def placer() -> Rewriter:
    return bait_rewriter(SEAL, visitor_digest("192.0.2.1"), b"abcdef", "links", 1)


def send(body: bytes, coding: bytes = b"", content_type: bytes = HTML, *, cuts=(), only_documents=False) -> bytes:
    """What comes out, in the same coding."""
    outgoing = Outgoing(content_type, coding, placer(), only_documents=only_documents)
    cuts = sorted({cut % (len(body) + 1) for cut in cuts})
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    return b"".join(outgoing.feed(piece, final=n == len(pieces)) for n, piece in enumerate(pieces, 1))


def feed_on(outgoing: Outgoing, piece: bytes) -> None:
    for _ in range(100):
        outgoing.feed(piece, final=False)


def unpack(body: bytes, coding: bytes) -> bytes:
    decoder = codec(coding)[0]
    out = b"".join(decoder.feed(body))
    decoder.end()
    return out


@pytest.mark.parametrize("coding", PACKERS)
@given(page=pages, cuts=st.lists(st.integers(0, 2000), max_size=8))
@hypothesis_settings(max_examples=40)
def test_there_and_back_in_any_coding_and_any_pieces(coding, page, cuts):
    page = PAGE[:60] + page
    expected = placer().feed(page, final=True)
    out = unpack(send(PACKERS[coding](page), coding, cuts=cuts), coding)
    assert out == expected
    assert without_bait(out) == page


@pytest.mark.parametrize("coding", PACKERS)
def test_byte_by_byte(coding):
    body = PACKERS[coding](PAGE)
    assert unpack(send(body, coding, cuts=range(len(body))), coding) == placer().feed(PAGE, final=True)


# ---- Broken bodies


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
@pytest.mark.parametrize("body", [b"<html>not packed at all</html>", b"", b"\x1f\x8b\x08"])
def test_a_body_that_is_broken_from_the_start_is_untouchable(coding, body):
    for cuts in ((), range(40)):
        with pytest.raises(NotRewritable) as untouchable:
            send(body, coding, cuts=cuts)
        assert untouchable.value.reason == "broken"


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_a_body_that_breaks_midway_is_broken(coding):
    packed = PACKERS[coding](PAGE + bytes(range(256)) * 400 + b"".join(b"<p>%d</p>" % n for n in range(20_000)))
    outgoing = Outgoing(HTML, coding, placer())
    middle = len(packed) // 2
    assert outgoing.feed(packed[:middle], final=False)
    with pytest.raises(BrokenCoding):
        outgoing.feed(b"\xff\0\xff" * 5_000, final=True)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_a_bomb_stays_small(coding):
    """All of it in one piece, as an application may send it: it is passed on as it unfolds."""
    size = 40_000_000
    bomb = PACKERS[coding](PAGE + bytes(size))
    outgoing = Outgoing(HTML, coding, placer())
    tracemalloc.start()
    try:
        out = outgoing.feed(bomb, final=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(out) < 1_000_000
    assert peak < 10_000_000
    assert sum(map(len, codec(coding)[0].feed(out))) > size


def test_a_body_that_unfolds_to_nothing_for_ever_is_given_up():
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    nothing = deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    outgoing = Outgoing(HTML, b"gzip", placer())
    assert outgoing.feed(nothing, final=False) == b""
    with pytest.raises(NotRewritable, match="broken"):
        feed_on(outgoing, b"\0\0\0\xff\xff" * 10_000)


def test_an_unknown_coding_is_untouchable():
    with pytest.raises(NotRewritable, match="coding"):
        Outgoing(HTML, b"compress", placer())


# ---- Charsets


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_wide_pages(charset, mark, coding):
    text = PAGE.decode().replace("Hedges", "Hecken: äöü 生け垣 🌿")
    page = ("\ufeff" * mark + text).encode(charset)
    content_type = b"text/html" if mark else b"text/html; charset=" + charset.encode()
    for cuts in ((), range(0, 400, 7)):
        out = unpack(send(PACKERS[coding](page), coding, content_type, cuts=cuts), coding).decode(charset)
        assert len(traps_in(out.encode())) == 4
        assert without_bait(out.encode()).decode() == "\ufeff" * mark + text


def test_a_page_that_switches():
    page = PAGE.replace(b"Hedges", "生け垣".encode("iso2022_jp")).replace(
        b"</head>", b"<meta charset=iso-2022-jp></head>"
    )
    for content_type in (b"text/html; charset=ISO-2022-JP", b"text/html"):
        for cuts in ((), range(len(page))):
            out = send(page, b"", content_type, cuts=cuts)
            assert len(traps_in(out)) == 4
            assert without_bait(out) == page


def test_a_label_that_nobody_knows_or_that_lies():
    assert without_bait(send(PAGE, b"", b"text/html; charset=klingon")) == PAGE
    wide = PAGE.decode().encode("utf-16-le")
    with pytest.raises(NotRewritable):
        send(PAGE + b"!" * (len(PAGE) % 2 == 0), b"", b"text/html; charset=utf-16")
    assert wide in send(wide, b"", b"text/html; charset=utf-8")


def test_a_wide_page_too_large_to_gather_is_untouchable():
    outgoing = Outgoing(b"text/html; charset=utf-16", b"", placer())
    assert outgoing.feed("<html>".encode("utf-16-le"), final=False) == b""
    with pytest.raises(NotRewritable, match="charset"):
        feed_on(outgoing, b"x\0" * 100_000)


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


@pytest.mark.parametrize("cuts", [(), range(50)])
def test_fragments_and_documents(cuts):
    fragment = b"<div><a href='/x'>x</a></div>"
    assert traps_in(send(fragment, cuts=cuts))
    assert traps_in(send(PAGE, cuts=cuts, only_documents=True))
    with pytest.raises(NotRewritable, match="fragment"):
        send(fragment, cuts=cuts, only_documents=True)
    wide = fragment.decode().encode("utf-16-le")
    with pytest.raises(NotRewritable, match="fragment"):
        send(wide, b"", b"text/html; charset=utf-16", cuts=cuts, only_documents=True)


class Upper:
    def feed(self, data: bytes, *, final: bool) -> bytes:  # noqa: ARG002
        return data.upper()


@pytest.mark.parametrize("charset", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_fragments_may_have_a_way_of_their_own(charset, piece):
    for body, is_fragment in (("<p>a</p>", True), ("<!doctype html><p>a</p>", False)):
        outgoing = Outgoing(
            f"text/html; charset={charset}".encode(), b"", placer(), only_documents=True, fragments=Upper()
        )
        sent = body.encode(charset)
        cuts = range(0, len(sent), piece)
        out = b"".join(outgoing.feed(sent[at : at + piece], final=at == cuts[-1]) for at in cuts)
        assert outgoing.is_fragment == is_fragment
        assert (out == sent.upper() if charset == "utf-8" else out.decode(charset) == body.upper()) == is_fragment


@pytest.mark.parametrize("body", [b'{"a": "</a>"}', b"", b"OK", b"[1, 2]", b"callback({})", b" \n"])
@pytest.mark.parametrize("coding", [b"", b"gzip"])
def test_what_is_no_html_under_its_name_is_untouchable(body, coding):
    """Many a program answers JSON as text/html. A link at its end would break whoever reads it."""
    for cuts in ((), range(20)):
        with pytest.raises(NotRewritable, match="fragment"):
            send(PACKERS[coding](body), coding, cuts=cuts)


def test_a_page_that_comes_slowly_is_passed_on_as_it_comes():
    outgoing = Outgoing(HTML, b"", placer())
    assert outgoing.feed(b"<!DOCTYPE html><p>one", final=False) == b"<!DOCTYPE html><p>one"
    assert outgoing.feed(b" two", final=False) == b" two"
    packed = Outgoing(HTML, b"gzip", placer())
    unpacked, deflate = zlib.decompressobj(31), zlib.compressobj(6, zlib.DEFLATED, 31)
    for piece in (b"<!DOCTYPE html><p>one", b" two", b" three"):
        sent = packed.feed(deflate.compress(piece) + deflate.flush(zlib.Z_SYNC_FLUSH), final=False)
        assert unpacked.decompress(sent) == piece


# ---- Headers


@pytest.mark.parametrize(
    ("content_type", "html"),
    [
        (b"text/html", True),
        (b"TEXT/HTML; charset=utf-8", True),
        (b"text/html ;charset=utf-8", True),
        (b"text/htmlx", False),
        (b"application/xhtml+xml", False),
        (b"text/plain", False),
        (b"", False),
    ],
)
def test_is_html(content_type, html):
    assert is_html(content_type) is html


TAGS = st.binary(max_size=20).map(lambda tag: tag.replace(b'"', b"").replace(b",", b""))


@given(st.lists(st.tuples(st.booleans(), TAGS), min_size=1, max_size=4))
def test_an_etag_is_weak_and_comes_back_as_it_was(tags):
    etags = [b"W/" * weak + b'"' + tag + b'"' for weak, tag in tags]
    marked = [dict(touched_headers([(b"etag", etag)]))[b"etag"] for etag in etags]
    assert all(etag.startswith(b'W/"') and has_our_etag(etag) for etag in marked)
    assert restored_etags(b", ".join(marked)) == b", ".join(etags)
    twice = [dict(touched_headers([(b"etag", etag)]))[b"etag"] for etag in marked]
    assert restored_etags(b", ".join(twice)) == b", ".join(marked)


@pytest.mark.parametrize("etag", [b"", b"abc", b'"', b"W/abc", b'"abc', b"*"])
def test_what_is_no_etag_stays(etag):
    assert touched_headers([(b"etag", etag)]) == [(b"etag", etag)]
    assert restored_etags(etag) == etag
    assert not has_our_etag(etag)


def test_headers_that_speak_of_the_bytes_go():
    headers = [
        (b"Content-Length", b"1"), (b"content-md5", b"x"), (b"Digest", b"x"), (b"accept-ranges", b"bytes"),
        (b"content-digest", b"x"), (b"repr-digest", b"x"), (b"Last-Modified", b"x"), (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
    ]  # fmt: skip
    assert touched_headers(headers) == [(b"Last-Modified", b"x"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]
    assert header(headers, b"last-modified") == b"x"
    assert header(headers, b"missing") == b""

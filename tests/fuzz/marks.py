"""Tokens, clean marks and pages: what a client sends back, and what a site sends."""

from __future__ import annotations

from driving import KEY, bait_rewriter, without_bait
from hedgerow.markers.clean import without_marks
from hedgerow.markers.encoding import decode, encode
from hedgerow.markers.html.charset import carried_charset, from_utf8, to_utf8
from hedgerow.markers.html.content_coding import BrokenCoding, codec
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Mode, Rules
from hedgerow.markers.token import Key, TokenCodec, may_be_token

from .registry import target

TOKENS = TokenCodec([Key(1, KEY, 0.0), Key(2, KEY[::-1], 1.0)], "example.org")
MODES: tuple[Mode, ...] = ("opaque", "readable", "clean", "off")
MOST_DECODED = 4_000_000


@target("token")
def token(data: bytes) -> None:
    """A token is opened only in the spelling in which it was made, and a changed one never."""
    text = data.decode("latin-1")
    may_be_token(text)
    TOKENS.is_outdated(text)
    found = TOKENS.unseal(text)
    if found is not None:
        made_by = TOKENS.handed_on if found.generation else TOKENS
        assert decode(text) is not None
        if decode(text)[0] == 2:
            again = made_by.seal(found.kind, found.issued_to, found.parent, found.target.encode("latin-1"))
            assert again == text.encode(), "two spellings of one token"
    made = TOKENS.seal("page", b"visitr", b"parent", data)
    opened = TOKENS.unseal(made.decode())
    assert opened is not None
    assert opened.target == data.decode("latin-1")
    at = sum(data) % len(made)
    changed = made[:at] + (b"A" if made[at : at + 1] != b"A" else b"B") + made[at + 1 :]
    assert TOKENS.unseal(changed.decode()) is None, "a changed token was opened"


@target("clean-mark")
def clean_mark(data: bytes) -> None:
    """A clean mark holds for its own view and address only; addresses lose marks once and for all."""
    codec_ = TOKENS.clean
    text, _, address = data.decode("latin-1").partition("\n")
    view = codec_.open(text)
    if view is not None:
        assert encode(decode(text)).decode() == text
        assert codec_.kind(view, "AAAAA", address, address) is None or address
    without = without_marks(data)
    assert len(without) <= len(data)
    made = codec_.view(b"visitr", b"parent", 1e9)
    opened = codec_.open(made.text.decode())
    assert opened is not None
    check = codec_.checks(made, codec_.plan([b"\x01" + data]))[0].decode()
    assert codec_.kind(opened, check, data.decode("latin-1"), "") == "page"


@target("page")
def page(data: bytes) -> None:
    """A page is rewritten alike however it is cut, and without marks only bait is added to it."""
    if not data:
        return
    mode, cuts, html = MODES[data[0] % 4], data[1:4], data[4:]
    whole = _rewritten(mode, [html])
    places = sorted({cut * len(html) // 256 for cut in cuts})
    pieces = [html[a:b] for a, b in zip([0, *places], [*places, len(html)], strict=True)]
    assert _rewritten(mode, pieces) == whole, "a page depends on how it is cut"
    if mode == "off":
        bait = bait_rewriter(TOKENS, b"visitr", b"parent", has_text=bool(data[0] & 4))
        assert without_bait(bait.feed(html, final=True)) == without_bait(html), "bait changed the page"
    charset = carried_charset(b"text/html", html)
    if charset and (converted := to_utf8(html, charset)) is not None:
        from_utf8(converted, charset)


def _rewritten(mode: Mode, pieces: list[bytes]) -> bytes:
    place = PageLocation(b"http", b"example.org", b"/docs/start.html?x=1")
    rewriter = PageRewriter(place, Rules(mode), b"/~", SkeletonCache(), TOKENS, b"visitr", b"parent", at=1e9)
    # The last piece is empty, so that no page is rewritten as a whole.
    return b"".join(rewriter.feed(piece, final=False) for piece in pieces) + rewriter.feed(b"", final=True)


@target("coding")
def coding(data: bytes) -> None:
    """A compressed body is decoded or broken, and no step of it becomes large."""
    if not data:
        return
    found = codec((b"gzip", b"deflate", b"br", b"zstd")[data[0] % 4])
    assert found is not None
    decoder, encoder = found
    size = 0
    try:
        for start in range(1, len(data), 1 + data[0]):
            for piece in decoder.feed(data[start : start + 1 + data[0]]):
                assert len(piece) <= 1_048_576, "a step is too large"
                size += len(piece)
                encoder.feed(piece)
                if size > MOST_DECODED:
                    return
        decoder.end()
    except BrokenCoding:
        return
    encoder.flush(final=True)

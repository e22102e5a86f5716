"""Content codings: there and back in any pieces, in bounded memory, and a broken one is a value and not a crash."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.html.content_coding import BrokenCoding, codec, known_codings, zstd

BODIES = st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from([b"<p>text</p>", b"x" * 500, b"\0\xff"]), max_size=40).map(b"".join),
)


def raw_deflate(body: bytes) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(body) + deflate.flush()


PACKERS = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b" X-GZIP ", gzip.compress),
    "gzip, two members": (b"gzip", lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])),
    "gzip, many members": (
        b"gzip", lambda body: b"".join(gzip.compress(body[n : n + 99]) for n in range(0, max(1, len(body)), 99))
    ),
    "gzip, padded": (b"gzip", lambda body: gzip.compress(body) + b"\0" * 100),
    "gzip, odd end": (b"gzip", lambda body: gzip.compress(body) + b"\x1f"),
    "deflate": (b"deflate", zlib.compress),
    "deflate, raw": (b"deflate", raw_deflate),
    "br": (b"br", brotli.compress),
    "zstd": (b"zstd", zstd.compress),
    "zstd, two frames": (b"zstd", lambda body: zstd.compress(body[:9]) + zstd.compress(body[9:])),
}  # fmt: skip


def pieces_of(body: bytes, places) -> list[bytes]:
    places = sorted({place % (len(body) + 1) for place in places})
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def decoded(name: bytes, pieces: list[bytes]) -> bytes:
    decoder = codec(name)[0]
    body = b"".join(out for piece in pieces for out in decoder.feed(piece))
    decoder.end()
    return body


@pytest.mark.parametrize("packer", PACKERS)
@given(body=BODIES, places=st.lists(st.integers(0, 5000), max_size=8))
def test_a_body_comes_back_in_any_pieces(packer, body, places):
    name, pack = PACKERS[packer]
    assert decoded(name, pieces_of(pack(body), places)) == body


@pytest.mark.parametrize("packer", PACKERS)
def test_byte_by_byte(packer):
    name, pack = PACKERS[packer]
    body = b"<p>hedge</p>" * 50
    packed = pack(body)
    assert decoded(name, [packed[n : n + 1] for n in range(len(packed))]) == body


@pytest.mark.parametrize("name", [b"gzip", b"deflate", b"br", b"zstd"])
@given(st.lists(BODIES, min_size=1, max_size=6))
def test_what_is_encoded_can_be_read_after_each_flush(name, pieces):
    """A page that comes in pieces is seen as it comes: nothing of it waits in an encoder."""
    encoder, decoder = codec(name)[1], codec(name)[0]
    for number, piece in enumerate(pieces, 1):
        final = number == len(pieces)
        packed = encoder.feed(piece) + encoder.flush(final=final)
        assert b"".join(decoder.feed(packed)) == piece
    decoder.end()


@pytest.mark.parametrize("name", [b"gzip", b"deflate", b"br", b"zstd"])
@given(st.binary(max_size=100))
def test_noise_is_broken_and_nothing_worse(name, noise):
    decoder = codec(name)[0]
    try:
        list(decoder.feed(noise))
        decoder.end()
    except BrokenCoding:
        return


@pytest.mark.parametrize("packer", PACKERS)
def test_a_body_that_ends_too_soon_is_broken(packer):
    name, pack = PACKERS[packer]
    packed = pack(random.Random(1).randbytes(2_000))
    with pytest.raises(BrokenCoding):
        decoded(name, [packed[: len(packed) // 2]])
    with pytest.raises(BrokenCoding):
        decoded(name, [])


@pytest.mark.parametrize("packer", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_decoded_piece_by_piece(packer):
    """Sixty-four megabytes of nothing in a few kilobytes: only a little of it is there at any time."""
    name, pack = PACKERS[packer]
    size = 64_000_000
    bomb = brotli.compress(bytes(size), quality=1) if packer == "br" else pack(bytes(size))
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        total = sum(map(len, codec(name)[0].feed(bomb)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == size
    assert peak < 8_000_000


@pytest.mark.parametrize("name", [b"", b"compress", b"gzip, br", b"dcb", b"nonsense", b"\xff"])
def test_an_unknown_coding(name):
    assert codec(name) is None


@pytest.mark.parametrize(
    ("accept", "known"),
    [
        (b"gzip, deflate, br, zstd", b"gzip, deflate, br, zstd"),
        (b"gzip;q=0.5,BR ; q=1,compress", b"gzip;q=0.5, BR ; q=1"),
        (b"dcb, dcz, *", b""),
        (b"identity;q=0", b"identity;q=0"),
        (b"", b""),
        (b",;,", b""),
    ],
)
def test_known_codings(accept, known):
    assert known_codings(accept) == known

"""
Content codings: decode and encode gzip, deflate, br and zstd, in pieces and in bounded memory.

A small compressed body may decode to a very large one. So a decoder yields at most some hundred kilobytes at a time,
whatever goes in, and each piece is passed on before the next is decoded.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_STEP = 262_144
# The input that a step has not used is copied for the next, so it is fed in small pieces.
_IN_STEP = 16_384
# The largest window that a client has to accept (RFC 9659).
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
_MAGIC_BYTES = 2


class BrokenCoding(ValueError):  # noqa: N818 - the name says what is broken
    """The body is not in the coding that its header names."""


class Decoder(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what *data* decodes to, in pieces, some of them empty; raises BrokenCoding."""

    def end(self) -> None:
        """End the body; raises BrokenCoding where it ended too soon."""


class Encoder:
    """`feed` may hold some bytes back; `flush` returns all of them, and with *final* ends the body."""

    def __init__(self, feed: Callable[[bytes], bytes], flush: Callable[[], bytes], finish: Callable[[], bytes]) -> None:
        self.feed = feed
        self._flush, self._finish = flush, finish

    def flush(self, *, final: bool) -> bytes:
        return self._finish() if final else self._flush()


class _ZlibDecoder:
    """gzip, also of several members, and deflate, which is sometimes sent without its zlib wrapper."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(_GZIP if gzip else zlib.MAX_WBITS)
        self._start = b""
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._begun:
            # Two bytes tell whether there is a wrapper.
            data = self._start + data
            if len(data) < _MAGIC_BYTES:
                self._start = data
                return
            self._begin(data)
        for start in range(0, len(data), _IN_STEP):
            yield from self._inflate_all(data[start : start + _IN_STEP])
            yield b""

    def _begin(self, data: bytes) -> None:
        self._start, self._begun = b"", True
        wrapped = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:_MAGIC_BYTES], "big") % 31 == 0
        if not self._gzip and not wrapped:
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)

    def _inflate_all(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflate.eof and not self._next_member(data):
                return
            try:
                out = self._inflate.decompress(self._start + data, _STEP)
            except zlib.error as error:
                raise BrokenCoding(str(error)) from None
            self._start = b""
            if out:
                yield out
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail

    def _next_member(self, data: bytes) -> bool:
        """Return whether a gzip member begins here. Anything else after the end is padding, which clients ignore."""
        start = self._start + data
        if not self._gzip or not _GZIP_MAGIC.startswith(start[:_MAGIC_BYTES]):
            self._start, self._gzip = b"", False
            return False
        if len(start) < _MAGIC_BYTES:
            self._start = start
            return False
        self._inflate = zlib.decompressobj(_GZIP)
        return True

    def end(self) -> None:
        if not self._inflate.eof:
            raise BrokenCoding("the body ends too soon")


class _BrotliDecoder:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            while not self._decoder.is_finished():
                out = self._decoder.process(data, output_buffer_limit=_STEP)
                data = b""
                if not out:
                    return
                yield out
        except brotli.error as error:
            raise BrokenCoding(str(error)) from None

    def end(self) -> None:
        if not self._decoder.is_finished():
            raise BrokenCoding("the body ends too soon")


class _ZstdDecoder:
    """Zstandard, also of several frames."""

    def __init__(self) -> None:
        self._decoder = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _IN_STEP):
            yield from self._decompress(data[start : start + _IN_STEP])
            yield b""

    def _decompress(self, data: bytes) -> Iterator[bytes]:
        while data or not (self._decoder.needs_input or self._decoder.eof):
            if self._decoder.eof:
                self._decoder = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
            try:
                out = self._decoder.decompress(data, _STEP)
            except zstd.ZstdError as error:
                raise BrokenCoding(str(error)) from None
            if out:
                yield out
            data = self._decoder.unused_data if self._decoder.eof else b""

    def end(self) -> None:
        if not self._decoder.eof:
            raise BrokenCoding("the body ends too soon")


def _zlib_encoder(*, gzip: bool) -> Encoder:
    # Level 1 costs a quarter of level 6, and the page is only a little larger.
    deflate = zlib.compressobj(1, zlib.DEFLATED, _GZIP if gzip else zlib.MAX_WBITS)
    return Encoder(deflate.compress, partial(deflate.flush, zlib.Z_SYNC_FLUSH), deflate.flush)


def _brotli_encoder() -> Encoder:
    compressor = brotli.Compressor(quality=3)
    return Encoder(compressor.process, compressor.flush, compressor.finish)


def _zstd_encoder() -> Encoder:
    compressor = zstd.ZstdCompressor(level=2)
    return Encoder(compressor.compress, partial(compressor.flush, compressor.FLUSH_BLOCK), compressor.flush)


def codec(name: bytes) -> tuple[Decoder, Encoder] | None:
    """
    Return a decoder and an encoder for a Content-Encoding, or None where it is unknown.

    >>> codec(b"compress") is None
    True
    """
    match name.strip().lower():
        case b"gzip" | b"x-gzip":
            return _ZlibDecoder(gzip=True), _zlib_encoder(gzip=True)
        case b"deflate":
            return _ZlibDecoder(gzip=False), _zlib_encoder(gzip=False)
        case b"br":
            return _BrotliDecoder(), _brotli_encoder()
        case b"zstd":
            return _ZstdDecoder(), _zstd_encoder()
        case _:
            return None


_KNOWN = frozenset({b"gzip", b"x-gzip", b"deflate", b"br", b"zstd", b"identity"})


@lru_cache(maxsize=256)
def known_codings(accept: bytes) -> bytes:
    """
    Return an Accept-Encoding without codings that we cannot decode: else a crawler would ask for one of those.

    >>> known_codings(b"gzip, br;q=0.9, dcb, *")
    b'gzip, br;q=0.9'
    """
    parts = [part.strip() for part in accept.split(b",")]
    return b", ".join(part for part in parts if part.partition(b";")[0].strip().lower() in _KNOWN)

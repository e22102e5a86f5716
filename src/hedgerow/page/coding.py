"""
Content codings: undo and do again gzip, deflate, br and zstd, in pieces and in bounded memory.

A small compressed body may unfold to a very large one. So a decoder gives out at most some hundred kilobytes at a time,
whatever goes in, and what it gives is passed on before it is asked for more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli
import zstandard

_STEP = 262_144
_ZSTD_STEP = 64
_GZIP = 16 + zlib.MAX_WBITS


class BrokenCoding(ValueError):  # noqa: N818 - it says what it is
    """The body is not in the coding that its header names."""


class Decoder(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """What *data* unfolds to, in pieces; raises BrokenCoding."""

    def end(self) -> None:
        """The body is over; raises BrokenCoding where it ended too soon."""


class Encoder(Protocol):
    def feed(self, data: bytes, *, final: bool) -> bytes: ...


class Identity:
    """No coding: both ways."""

    def feed(self, data: bytes, *, final: bool = False) -> bytes:  # noqa: ARG002
        return data


class _ZlibDecoder:
    """gzip (several members, too) and deflate, which is sometimes sent without its zlib wrapper."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(_GZIP if gzip else zlib.MAX_WBITS)
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            try:
                out = self._inflate.decompress(data, _STEP)
            except zlib.error as error:
                if self._gzip or self._begun:
                    raise BrokenCoding(str(error)) from None
                self._begun = True
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                continue
            self._begun = True
            if out:
                yield out
            if self._inflate.eof:
                data = self._inflate.unused_data
                # Another member may follow; anything else behind the end is padding, which every client ignores.
                if not (self._gzip and data.startswith(b"\x1f\x8b")):
                    return
                self._inflate = zlib.decompressobj(_GZIP)
            else:
                data = self._inflate.unconsumed_tail

    def end(self) -> None:
        if not self._inflate.eof:
            raise BrokenCoding("the body ends too soon")


class _BrotliDecoder:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            out = self._decoder.process(data, output_buffer_limit=_STEP)
            while out:
                yield out
                out = (
                    b""
                    if self._decoder.is_finished()
                    else self._decoder.process(b"", output_buffer_limit=_STEP)
                )
        except brotli.error as error:
            raise BrokenCoding(str(error)) from None

    def end(self) -> None:
        if not self._decoder.is_finished():
            raise BrokenCoding("the body ends too soon")


class _ZstdDecoder:
    """A few bytes at a time: this library unfolds all it is given at once, at most 128 KB for every four bytes."""

    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor(max_window_size=1 << 23).decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_STEP):
            if self._decoder.eof:
                return
            try:
                out = self._decoder.decompress(data[start : start + _ZSTD_STEP])
            except zstandard.ZstdError as error:
                raise BrokenCoding(str(error)) from None
            if out:
                yield out

    def end(self) -> None:
        if not self._decoder.eof:
            raise BrokenCoding("the body ends too soon")


class _IdentityDecoder:
    def feed(self, data: bytes) -> Iterator[bytes]:
        if data:
            yield data

    def end(self) -> None: ...


class _ZlibEncoder:
    def __init__(self, *, gzip: bool) -> None:
        # Level 1 costs a quarter of level 6 and the page is little larger.
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, _GZIP if gzip else zlib.MAX_WBITS)

    def feed(self, data: bytes, *, final: bool) -> bytes:
        out = self._deflate.compress(data)
        return out + self._deflate.flush(zlib.Z_FINISH if final else zlib.Z_SYNC_FLUSH)


class _BrotliEncoder:
    def __init__(self) -> None:
        self._encoder = brotli.Compressor(quality=3)

    def feed(self, data: bytes, *, final: bool) -> bytes:
        out: bytes = self._encoder.process(data)
        rest: bytes = self._encoder.finish() if final else self._encoder.flush()
        return out + rest


class _ZstdEncoder:
    def __init__(self) -> None:
        self._encoder = zstandard.ZstdCompressor(level=2).compressobj()

    def feed(self, data: bytes, *, final: bool) -> bytes:
        out: bytes = self._encoder.compress(data)
        mode = zstandard.COMPRESSOBJ_FLUSH_FINISH if final else zstandard.COMPRESSOBJ_FLUSH_BLOCK
        rest: bytes = self._encoder.flush(mode)
        return out + rest


def codec(name: bytes) -> tuple[Decoder, Encoder] | None:
    """
    A decoder and an encoder for a Content-Encoding, or None where there is none.

    >>> codec(b"compress") is None
    True
    """
    match name.strip().lower():
        case b"" | b"identity":
            return _IdentityDecoder(), Identity()
        case b"gzip" | b"x-gzip":
            return _ZlibDecoder(gzip=True), _ZlibEncoder(gzip=True)
        case b"deflate":
            return _ZlibDecoder(gzip=False), _ZlibEncoder(gzip=False)
        case b"br":
            return _BrotliDecoder(), _BrotliEncoder()
        case b"zstd":
            return _ZstdDecoder(), _ZstdEncoder()
        case _:
            return None


_KNOWN = frozenset({b"gzip", b"x-gzip", b"deflate", b"br", b"zstd", b"identity"})


def known_codings(accept: bytes) -> bytes:
    """
    An Accept-Encoding less the codings that we cannot undo: else a crawler would ask for one of those.

    >>> known_codings(b"gzip, br;q=0.9, dcb, *")
    b'gzip, br;q=0.9'
    """
    parts = [part.strip() for part in accept.split(b",")]
    return b", ".join(part for part in parts if part.partition(b";")[0].strip().lower() in _KNOWN)

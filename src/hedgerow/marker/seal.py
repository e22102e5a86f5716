"""
Seal and unseal a marker: AES-SIV (RFC 5297), authenticated and deterministic.

The same marker always gives the same token, so a page that has not changed for a visitor is the same bytes again and
caches work; a changed bit is a refused token, never a different marker. What a token tells to whom it is given: nothing
but its length. What we read from it: its kind, an 8-byte digest of the visitor, a 6-byte digest of the page, an index.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from hedgerow.visit import Marker

KEY_BYTES = 64
VISITOR_BYTES = 8
PAGE_BYTES = 6
_PAYLOAD_BYTES = 1 + VISITOR_BYTES + PAGE_BYTES + 2
_TAG_BYTES = 16
TOKEN_LENGTH = (_PAYLOAD_BYTES + _TAG_BYTES + 2) // 3 * 4
"""Characters in every token: all markers are equally long, so that a trap cannot be told by its length."""

_KINDS: dict[Literal["trap", "maze"], bytes] = {"trap": b"\x01", "maze": b"\x02"}
_NAMES: dict[int, Literal["trap", "maze"]] = {code[0]: name for name, code in _KINDS.items()}
_TO_URL = bytes.maketrans(b"+/", b"-_")
# What base64 writes elsewhere is nothing here: a token has one spelling.
_FROM_URL = bytes.maketrans(b"-_+/", b"+/!!")


def visitor_digest(visitor: str) -> bytes:
    """The short name of a visitor inside markers."""
    return blake2b(visitor.encode("utf-8", "surrogateescape"), digest_size=VISITOR_BYTES).digest()


def page_digest(path: str) -> bytes:
    """The short name of a page inside markers. The query belongs to it: `/list?p=2` is a page of its own."""
    return blake2b(path.encode("utf-8", "surrogateescape"), digest_size=PAGE_BYTES).digest()


class Seal:
    """Seals and unseals under one key of 64 bytes."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, this one has {len(key)}")
        # One object for good: making one costs four times as much as using it.
        self._cipher = AESSIV(key)

    def sealer(self, kind: Literal["trap", "maze"], minted_for: bytes, page: bytes) -> Callable[[int], bytes]:
        """What gives the tokens of one page's links, by their index: a page has many, and only the index differs."""
        start = _KINDS[kind] + minted_for + page
        encrypt, encode = self._cipher.encrypt, binascii.b2a_base64

        def seal(index: int) -> bytes:
            payload = start + (index & 0xFFFF).to_bytes(2, "big")
            return encode(encrypt(payload, None), newline=False).translate(_TO_URL)

        return seal

    def seal(self, kind: Literal["trap", "maze"], minted_for: bytes, page: bytes, index: int) -> bytes:
        """The token of a marker, as it stands in a URL."""
        return self.sealer(kind, minted_for, page)(index)

    def unseal(self, token: str) -> Marker | None:
        """The marker in *token*, or None where the token is not one of ours, to the bit."""
        if len(token) != TOKEN_LENGTH:
            return None
        try:
            raw = token.encode("ascii")
            sealed = binascii.a2b_base64(raw.translate(_FROM_URL), strict_mode=True)
            payload = self._cipher.decrypt(sealed, None)
        except (UnicodeEncodeError, binascii.Error, InvalidTag):
            return None
        kind = _NAMES.get(payload[0])
        if len(payload) != _PAYLOAD_BYTES or kind is None:
            return None
        # base64 has spare bits at the end of some lengths; ours has none (33 bytes are 44 characters), so one
        # marker has exactly one token.
        page_at = 1 + VISITOR_BYTES
        index_at = page_at + PAGE_BYTES
        return Marker(kind, payload[1:page_at], payload[page_at:index_at], int.from_bytes(payload[index_at:], "big"))

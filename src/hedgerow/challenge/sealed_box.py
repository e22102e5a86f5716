"""
Sealed boxes: encrypted bytes that a client stores and can neither read nor change. AES-SIV with the site's key ring.

Each purpose and site has its own box. A token of one box does not open in another.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from hedgerow.markers.token import TokenCodecs

_TAG_BYTES = 16
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/", b"+/!!")


class SealedBox:
    """Encrypts with the last of *keys* (number and 64 bytes), decrypts with any of them."""

    def __init__(self, keys: Sequence[tuple[int, bytes]]) -> None:
        self._ciphers = {number: AESSIV(secret) for number, secret in keys}
        self._number = keys[-1][0]

    def seal(self, content: bytes) -> str:
        """Encrypt *content* to text for a form or a cookie. Deterministic: include random bytes if that matters."""
        sealed = bytes((self._number,)) + self._ciphers[self._number].encrypt(content, None)
        return binascii.b2a_base64(sealed, newline=False).translate(_TO_URL, b"=").decode()

    def open(self, token: str) -> bytes | None:
        """Decrypt *token*. Return None if any bit of it is wrong."""
        raw = token.encode("ascii", "replace").translate(_FROM_URL)
        try:
            sealed = binascii.a2b_base64(raw + b"=" * (-len(raw) % 4), strict_mode=True)
        except binascii.Error:
            return None
        cipher = self._ciphers.get(sealed[0]) if len(sealed) > _TAG_BYTES + 1 else None
        if cipher is None:
            return None
        try:
            return cipher.decrypt(sealed[1:], None)
        except InvalidTag:
            return None


class SealedBoxes:
    """The boxes of all hosts for one *purpose* (at most 16 bytes)."""

    _MAX_CACHED = 64

    def __init__(self, codecs: TokenCodecs, purpose: bytes) -> None:
        self._codecs = codecs
        self._purpose = purpose
        self._by_host: dict[str, SealedBox] = {}

    def of(self, host: str) -> SealedBox:
        box = self._by_host.get(host)
        if box is None:
            box = SealedBox(self._codecs.derive(host, self._purpose))
            # A client can send any Host header, so only a bounded number is cached.
            if len(self._by_host) < self._MAX_CACHED:
                self._by_host[host] = box
        return box

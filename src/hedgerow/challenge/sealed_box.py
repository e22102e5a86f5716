"""
A box: bytes that a client carries for us and can neither read nor change. AES-SIV under the site's ring of keys.

One box for each purpose and site: what was put into one never comes out of another.
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
    """Seals under the newest, the last, of *keys* (number and 64 bytes) and opens under all of them."""

    def __init__(self, keys: Sequence[tuple[int, bytes]]) -> None:
        self._ciphers = {number: AESSIV(secret) for number, secret in keys}
        self._number = keys[-1][0]

    def seal(self, content: bytes) -> str:
        """*content* as text for a form or a cookie. The same content gives the same text: put something random in."""
        sealed = bytes((self._number,)) + self._ciphers[self._number].encrypt(content, None)
        return binascii.b2a_base64(sealed, newline=False).translate(_TO_URL, b"=").decode()

    def open(self, token: str) -> bytes | None:
        """What is in *token*, or None where it is not one of ours, to the bit."""
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
    """The boxes of all sites for one *purpose* (at most 16 bytes)."""

    _MOST = 64

    def __init__(self, seals: TokenCodecs, purpose: bytes) -> None:
        self._seals = seals
        self._purpose = purpose
        self._by_host: dict[str, SealedBox] = {}

    def of(self, host: str) -> SealedBox:
        """The box of a site, by the Host that its visitors send."""
        box = self._by_host.get(host)
        if box is None:
            box = SealedBox(self._seals.derive(host, self._purpose))
            # A client may send any name it likes: only so many are kept.
            if len(self._by_host) < self._MOST:
                self._by_host[host] = box
        return box

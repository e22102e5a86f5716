"""What tokens and clean marks have in common: digests of visitors and pages, codes of kinds, base64 for URLs."""

from __future__ import annotations

import binascii

from hedgerow.core.visit import MarkerKind

VISITOR_BYTES = 6
PAGE_BYTES = 6
KINDS: tuple[MarkerKind, ...] = ("page", "form", "frame", "trap", "maze", "visitor", "sequence")
KIND_CODES: dict[MarkerKind, bytes] = {kind: bytes((number,)) for number, kind in enumerate(KINDS, 1)}
"""The byte that stands for a kind at the start of what a token or a clean mark seals."""
MOST_HAND_OVERS = 0xFF
"""The highest generation of a marker. Further hand-overs do not count."""
TO_URL = bytes.maketrans(b"+/", b"-_")
"""Translates base64 into that of URLs."""
# The other two characters of base64 are invalid here: a text has only one spelling.
_FROM_URL = bytes.maketrans(b"-_+/", b"+/!!")


def encode(data: bytes) -> bytes:
    """Return *data* in the base64 of URLs, without padding."""
    return binascii.b2a_base64(data, newline=False).translate(TO_URL).rstrip(b"=")


def decode(text: str) -> bytes | None:
    r"""
    Return the bytes of a text in the base64 of URLs, or None if it is not what `encode` writes.

    >>> decode("AAE"), decode("AAF"), decode("AA+/"), decode("\xe9")
    (b'\x00\x01', None, None, None)
    """
    raw = text.encode("ascii", "replace").translate(_FROM_URL)
    try:
        data = binascii.a2b_base64(raw + b"=" * (-len(raw) % 4), strict_mode=True)
    except binascii.Error:
        return None
    # base64 has spare bits at its end: only one spelling of them is ours.
    return data if encode(data) == text.encode("ascii", "replace") else None

"""
Bait: hidden links in a page.

A person cannot follow one: it is not painted, not reachable by keyboard, not in the accessibility tree, and has no
text. So there is nothing to see even where no style sheet is read, as in a text browser. The name of the style rule
differs between pages and visitors. Every link is different, and its token names the page on which it stands and the
visitor to whom it was issued. `markers.rewrite` puts them into pages.
"""

from __future__ import annotations

import binascii
from hashlib import blake2b, sha256

_LETTERS = bytes(b"bcdfghjklmnpqrstvwxzbcdfghjklmnpqrstvwxz"[n % 40] for n in range(256))


class Bait:
    """How the hidden links of one page are written for one visitor."""

    def __init__(self, issued_to: bytes, page: bytes) -> None:
        name = blake2b(issued_to + page, digest_size=7).digest().translate(_LETTERS)
        self._rule = b".%b.%b{display:none!important}" % (name, name)
        self.link_start = b'<a class="%b" href="' % name
        """The text before the address of each link."""
        self.style = b"<style>" + self._rule + b"</style>"
        """The style element, once before the first link."""

    def style_hash(self) -> bytes:
        """Return the source that a content security policy must allow, such as `'sha256-...'`."""
        return b"'sha256-" + binascii.b2a_base64(sha256(self._rule).digest(), newline=False) + b"'"

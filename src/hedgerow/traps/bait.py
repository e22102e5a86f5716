"""
Bait: hidden links put into a page.

A person cannot meet one: it is not painted, not reachable by keyboard and not in the accessibility tree, and has no
text, so that even where no style sheet is read (a text browser, a reader's view) there is nothing to see or to
follow. The name of the style rule is another for every page and visitor. Every link is different and names, sealed,
the page it stands on and the visitor it was given to.
"""

from __future__ import annotations

import binascii
from hashlib import blake2b, sha256

_LETTERS = bytes(b"bcdfghjklmnpqrstvwxzbcdfghjklmnpqrstvwxz"[n % 40] for n in range(256))


class Bait:
    """The hidden links of one page for one visitor: how they are hidden, and how they begin."""

    def __init__(self, issued_to: bytes, page: bytes) -> None:
        name = blake2b(issued_to + page, digest_size=7).digest().translate(_LETTERS)
        self._rule = b".%b.%b{display:none!important}" % (name, name)
        self.link_start = b'<a class="%b" href="' % name
        """What stands before the address of each."""
        self.style = b"<style>" + self._rule + b"</style>"
        """What stands, once, before the first."""

    def style_hash(self) -> bytes:
        """What a content security policy must allow, such as `'sha256-...'`."""
        return b"'sha256-" + binascii.b2a_base64(sha256(self._rule).digest(), newline=False) + b"'"

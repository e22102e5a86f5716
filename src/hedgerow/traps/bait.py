"""
Bait: hidden links put into a page.

A person cannot meet one: it is not painted, not reachable by keyboard and not in the accessibility tree, and has no
text, so that even where no style sheet is read (a text browser, a reader's view) there is nothing to see or to
follow. The name of the style rule is another for every page and visitor. Every link is different and names, sealed,
the page it stands on and the visitor it was given to.
"""

from __future__ import annotations

import binascii
from collections import OrderedDict
from hashlib import blake2b, sha256
from threading import Lock

from hedgerow.markers.token import PAGE_BYTES, page_digest

_LETTERS = bytes(b"bcdfghjklmnpqrstvwxzbcdfghjklmnpqrstvwxz"[n % 40] for n in range(256))


class PageDigests:
    """The paths of pages by their digest, the newest *most* of them: so that evidence can name a page in words."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._paths: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def remember(self, path: str) -> bytes:
        digest = page_digest(path)
        with self._lock:
            if digest not in self._paths:
                self._paths[digest] = path[:200]
                if len(self._paths) > self._most:
                    self._paths.popitem(last=False)
        return digest

    def name(self, digest: bytes) -> str:
        """The page's path, or "" where it is forgotten."""
        return self._paths.get(digest[:PAGE_BYTES], "")


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

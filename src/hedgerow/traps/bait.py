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
from collections.abc import Callable
from hashlib import blake2b, sha256
from threading import Lock

from hedgerow.marker.seal import PAGE_BYTES, Seal, page_digest

_ORDINARY = 15
_LETTERS = bytes(b"bcdfghjklmnpqrstvwxzbcdfghjklmnpqrstvwxz"[n % 40] for n in range(256))


class Pages:
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
    """
    The hidden links of one page for one visitor. Where they stand is the page's (`marker.rewrite.Spacing`).

    A hidden link looks like the link before it: as long, and in readable mode with that link's own address.
    """

    def __init__(
        self,
        seal: Seal,
        prefix: str,
        minted_for: bytes,
        page: bytes,
        *,
        readable: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self._seal = seal.sealer("trap", minted_for, page)
        self._readable = readable
        self._count = 0
        name = blake2b(minted_for + page, digest_size=7).digest().translate(_LETTERS)
        self._rule = b".%b.%b{display:none!important}" % (name, name)
        self._before = b'<a class="%b" href="' % name
        self._prefix = prefix.encode()
        self._styled = False

    @property
    def style_hash(self) -> bytes:
        """What a content security policy must allow, such as `'sha256-...'`."""
        return b"'sha256-" + binascii.b2a_base64(sha256(self._rule).digest(), newline=False) + b"'"

    def at(self, kind: str, neighbour: bytes) -> bytes:
        """What is added at a spot of this *kind*; *neighbour* is the target of the link before it."""
        return self._style() if kind == "head" else self._style() + self._link(neighbour)

    def _style(self) -> bytes:
        """The style element, once; b"" when it has been given."""
        if self._styled:
            return b""
        self._styled = True
        return b"<style>" + self._rule + b"</style>"

    def _link(self, neighbour: bytes) -> bytes:
        self._count += 1
        number = self._count.to_bytes(2, "big")
        if neighbour and self._readable(neighbour):
            token = self._seal((number.ljust(PAGE_BYTES, b"\0"),))[0]
            joint = b"&" if b"?" in neighbour else b"?"
            address = (neighbour + joint + b"~=").replace(b"&", b"&amp;").replace(b'"', b"%22")
            return self._before + address + token + b'"></a>'
        token = self._seal((number.ljust(len(neighbour) or _ORDINARY, b"\0"),))[0]
        return self._before + self._prefix + token + b'"></a>'

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
from collections.abc import Sequence
from hashlib import blake2b, sha256
from threading import Lock
from typing import Literal

from hedgerow.marker.seal import PAGE_BYTES, Seal, page_digest, visitor_digest
from hedgerow.page.scan import Scanner, Skeletons, Spot

Placement = Literal["spread", "links", "end"]
"""
spread: behind the first link and every n-th after it, ever further apart, and at the end: a page of a thousand links
needs no hundred traps. links: behind the first and strictly every n-th, and at the end. end: only there.
"""

_AT_ONE_DISTANCE = 4
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
    """The hidden links of one page for one visitor."""

    def __init__(self, seal: Seal, prefix: str, visitor: str, page: bytes) -> None:
        minted_for = visitor_digest(visitor)
        self._seal = seal.sealer("trap", minted_for, page)
        self._count = 0
        name = blake2b(minted_for + page, digest_size=7).digest().translate(_LETTERS)
        self._rule = b".%b.%b{display:none!important}" % (name, name)
        self._before = b'<a class="%b" href="%b' % (name, prefix.encode())
        self._styled = False

    @property
    def style_hash(self) -> bytes:
        """What a content security policy must allow, such as `'sha256-...'`."""
        return b"'sha256-" + binascii.b2a_base64(sha256(self._rule).digest(), newline=False) + b"'"

    def style(self) -> bytes:
        """The style element, once; b"" when it has been given."""
        if self._styled:
            return b""
        self._styled = True
        return b"<style>" + self._rule + b"</style>"

    def link(self) -> bytes:
        """The next hidden link."""
        self._count += 1
        return self._before + self._seal(self._count) + b'"></a>'


class BaitPlacer:
    """Puts bait into a page that comes in pieces, where *placement* and *every* say."""

    def __init__(self, bait: Bait, skeletons: Skeletons, *, placement: Placement = "spread", every: int = 3) -> None:
        self._bait = bait
        self._skeletons = skeletons
        self._spread = placement == "spread"
        self._every = every
        # Links until the next bait; where bait is at the end alone, more than any page has.
        self._until_next = 1 if placement != "end" else 1 << 62
        self._placed = 0
        self._scanner: Scanner | None = None

    def feed(self, data: bytes, *, final: bool) -> bytes:
        """The next piece of the page in, the same with its bait out."""
        if self._scanner is None:
            if final:
                return self._place(data, self._skeletons.spots(data))
            self._scanner = Scanner()
        settled, spots = self._scanner.feed(data, final=final)
        return self._place(settled, spots)

    def _place(self, settled: bytes, spots: Sequence[Spot]) -> bytes:
        """*settled* with bait at its spots."""
        if not spots:
            return settled
        bait = self._bait
        pieces = []
        position = 0
        for offset, kind in spots:
            if kind == "link":
                self._until_next -= 1
                if self._until_next:
                    continue
                self._until_next = self._every << (self._placed // _AT_ONE_DISTANCE if self._spread else 0)
                self._placed += 1
            pieces.append(settled[position:offset])
            position = offset
            pieces.append(bait.style())
            if kind != "head":
                pieces.append(bait.link())
        pieces.append(settled[position:])
        return b"".join(pieces)

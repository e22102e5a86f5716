"""
Tokens: markers sealed with AES-SIV (RFC 5297), authenticated and deterministic, under a ring of keys.

The same marker always gives the same token, so that caches, `:visited` and bookmarks work. A token with a changed bit
is refused; it never leads to a different page. No table of tokens is kept.

A token is one byte with the number of its key, 16 bytes of authentication, and the payload: a digest of the visitor
it was issued to (6 bytes), a digest of its parent page (6), the marker's kind (1), and its target. A client learns
from a token its length and the number of the key. The holder of the key learns the target, but of visitor and parent
only whether they are the ones that the holder has in mind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from threading import Lock

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from hedgerow.core.visit import Marker, MarkerKind
from hedgerow.markers.clean import CleanCodec
from hedgerow.markers.encoding import KIND_CODES, KINDS, PAGE_BYTES, VISITOR_BYTES, decode, encode
from hedgerow.markers.siv_batch import Blocks, SivPlan

KEY_BYTES = 64
_TAG_BYTES = 16
_LONGEST_CACHED = 500
# Characters of base64 for three whole bytes.
_GROUP = 4
_OVERHEAD = 1 + _TAG_BYTES + 1 + VISITOR_BYTES + PAGE_BYTES
NOBODY = bytes(VISITOR_BYTES)
"""In place of a visitor in links that anybody may use: those of a folder marked by `hedgerow mark`."""
NO_PAGE = bytes(PAGE_BYTES)
"""In place of the page of a link in the address to which a browser is sent that has to show that it keeps a cookie."""

_KIND_AT = VISITOR_BYTES + PAGE_BYTES
_TOKEN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SHORTEST = -(-_OVERHEAD * 4 // 3)
"""Characters in the shortest token."""

Sealer = Callable[[Sequence[bytes]], list[bytes]]


class Key(msgspec.Struct, frozen=True):
    """A key: its number (0 to 255), its secret, and when it was made, in seconds since 1970."""

    number: int
    secret: bytes
    made_at: float


def visitor_digest(visitor: str) -> bytes:
    """Return the short name of a visitor in markers."""
    digest = _cached_digest if len(visitor) <= _LONGEST_CACHED else _digest
    return digest(visitor, VISITOR_BYTES)


def page_digest(target: str) -> bytes:
    """Return the short name of a page in markers. The query is part of it: `/list?p=2` is a page of its own."""
    digest = _cached_digest if len(target) <= _LONGEST_CACHED else _digest
    return digest(target, PAGE_BYTES)


def _digest(name: str, size: int) -> bytes:
    return blake2b(name.encode("utf-8", "surrogateescape"), digest_size=size).digest()


# The same pages and visitors come again and again: a cached digest takes a tenth of the time.
_cached_digest = lru_cache(maxsize=1 << 13)(_digest)


class PageDigests:
    """The paths of the newest *most* pages by their digests, so that evidence can name a page."""

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
        """Return the path of a page, or "" where it is forgotten."""
        return self._paths.get(digest[:PAGE_BYTES], "")


def content(kind: MarkerKind, target: bytes) -> bytes:
    """Return what a token seals, without visitor and parent, which are the same for all links of a page."""
    return KIND_CODES[kind] + target


def may_be_token(text: str) -> bool:
    """Return whether *text* has the form of a token. The home page `/~ann/` of a site has not."""
    return len(text) >= SHORTEST and text.isascii() and not text.encode().translate(None, _TOKEN_BYTES)


class TokenCodec:
    """
    Seals under the newest of *keys* and unseals under all of them, for one *site*.

    Keys are derived from the site's name: a token of one site never opens at another.
    """

    def __init__(self, keys: Sequence[Key], site: str = "", *, purpose: bytes = b"hedgerow-site") -> None:
        if not keys:
            raise ValueError("a seal needs a key")
        self._keys = keys
        self._site = site
        # Made once: making a cipher costs four times as much as using it.
        self._ciphers = {key.number: AESSIV(_derive(key.secret, site, purpose)) for key in keys}
        newest = max(keys, key=lambda key: key.made_at)
        self._blocks = Blocks(_derive(newest.secret, site, purpose))
        self._number = bytes((newest.number,))
        self._newest = self._ciphers[newest.number]

    @cached_property
    def clean(self) -> CleanCodec:
        """The clean marks of the same site."""
        ring = sorted(self._keys, key=lambda key: key.made_at)
        return CleanCodec([(key.number, _derive(key.secret, self._site, b"hedgerow-clean")) for key in ring])

    @cached_property
    def handed_on(self) -> TokenCodec:
        """
        The codec for tokens of a later generation than 0, see `Marker`.

        A token has no room for a number, so it has another key instead: `unseal` tells both apart.
        """
        codec = TokenCodec(self._keys, self._site, purpose=b"hedgerow-onward")
        # The plan of a page's clean marks is for one codec.
        codec.clean = self.clean
        return codec

    def plan(self, contents: Sequence[bytes], places: Sequence[int]) -> SivPlan:
        """
        Plan the tokens of a page that is sent to many visitors; *places* say where each token goes.

        `plan.seal(issued_to + parent)` gives the same tokens as a `sealer`, in the order of `plan.places` and in a
        third of the time.
        """
        return SivPlan(self._blocks, contents, places, VISITOR_BYTES + PAGE_BYTES, self._number)

    def sealer(self, issued_to: bytes, parent: bytes) -> Sealer:
        """Return a function that turns the contents of a page's links into tokens."""
        start = issued_to + parent
        encrypt, number = self._newest.encrypt, self._number

        def seal(contents: Sequence[bytes]) -> list[bytes]:
            return [encode(number + encrypt(start + content, None)) for content in contents]

        return seal

    def seal(self, kind: MarkerKind, issued_to: bytes, parent: bytes, target: bytes) -> bytes:
        """Return the token of one marker, as it stands in a URL."""
        return self.sealer(issued_to, parent)((content(kind, target),))[0]

    def unseal(self, token: str) -> Marker | None:
        """
        Return the marker in *token*, or None where one bit of it is not ours. Its generation is 0 or 1.

        Every kind of bad token takes the same path through this function, so that its time tells nothing.
        """
        sealed = decode(token) or bytes(_OVERHEAD)
        return self.open(sealed) or self.handed_on.open(sealed, 1)

    def open(self, sealed: bytes, generation: int = 0) -> Marker | None:
        """Return the marker in the bytes of a token of this codec's own, or None."""
        cipher = self._ciphers.get(sealed[0])
        # Not with its end filled up: that may be the byte which was cut off.
        whole = sealed[1:] if len(sealed) >= _OVERHEAD else bytes(_OVERHEAD - 1)
        try:
            payload = (cipher or self._newest).decrypt(whole, None)
        except InvalidTag:
            return None
        kind = payload[_KIND_AT]
        if cipher is None or not 0 < kind <= len(KINDS):
            return None
        return Marker(
            KINDS[kind - 1],
            payload[:VISITOR_BYTES],
            payload[VISITOR_BYTES:_KIND_AT],
            payload[_KIND_AT + 1 :].decode("latin-1"),
            generation,
        )

    def is_outdated(self, token: str) -> bool:
        """Return whether *token* names a key that is not in the ring, such as one that was dropped."""
        start = decode(token[:_GROUP]) if len(token) >= _GROUP else None
        return start is not None and start[0] not in self._ciphers


def _site(host: str) -> str:
    return host.lower().rpartition("]")[0] if host.startswith("[") else host.lower().partition(":")[0]


def _derive(secret: bytes, site: str, purpose: bytes = b"hedgerow-site") -> bytes:
    """Derive the key of one site from a secret."""
    if len(secret) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, this one has {len(secret)}")
    return blake2b(site.encode("utf-8", "surrogateescape"), key=secret, person=purpose).digest()


class TokenCodecs:
    """The token codecs of all sites that are served under one ring of keys: one for each host name."""

    _MOST = 64

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = tuple(keys)
        self._by_site: dict[str, TokenCodec] = {}
        oldest = min(self._keys, key=lambda key: key.made_at)
        self.seed = blake2b(oldest.secret, person=b"hedgerow-seed").digest()
        """A seed for pseudo-random content. It differs between rings, survives a restart and reveals no key."""

    def derive(self, host: str, purpose: bytes) -> list[tuple[int, bytes]]:
        """
        Derive the keys of a site for another *purpose* (at most 16 bytes): number and 64 bytes of each, newest last.

        A text sealed for one purpose never opens under another.
        """
        site = _site(host).encode("utf-8", "surrogateescape")
        ring = sorted(self._keys, key=lambda key: key.made_at)
        return [(key.number, blake2b(site, key=key.secret, person=purpose).digest()) for key in ring]

    def of(self, host: str) -> TokenCodec:
        """Return the codec of a site, by the Host header of its visitors; port and case do not matter."""
        site = _site(host)
        codec = self._by_site.get(site)
        if codec is None:
            codec = TokenCodec(self._keys, site)
            # A client may send any name it likes: only so many are kept.
            if len(self._by_site) < self._MOST:
                self._by_site[site] = codec
        return codec

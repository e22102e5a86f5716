"""
Seal and unseal a marker: AES-SIV (RFC 5297), authenticated and deterministic, under a ring of keys.

The same marker always gives the same token, so that caches, `:visited` and bookmarks work; a changed bit is a refused
token, never a different page. No table of tokens is kept.

A token is one byte with the number of its key, 16 bytes of authentication, and the payload: a digest of the visitor
it was minted for (6 bytes), a digest of its parent page (6), the marker's kind (1), and its target. Who has a token
learns its length and the number of the key. Who has the key learns the target; of visitor and parent only whether
they are those that one names.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from hedgerow.core.visit import Marker, MarkerKind
from hedgerow.markers.siv_batch import Blocks, SivPlan

KEY_BYTES = 64
VISITOR_BYTES = 6
PAGE_BYTES = 6
_TAG_BYTES = 16
_LONGEST_KEPT = 500
_OVERHEAD = 1 + _TAG_BYTES + 1 + VISITOR_BYTES + PAGE_BYTES
NOBODY = bytes(VISITOR_BYTES)
"""Who a link is minted for that anybody may have: those of a folder that `hedgerow mark` has prepared."""

_KINDS: tuple[MarkerKind, ...] = ("page", "form", "frame", "trap", "maze", "visitor")
_CODES: dict[MarkerKind, bytes] = {kind: bytes((number,)) for number, kind in enumerate(_KINDS, 1)}
_KIND_AT = VISITOR_BYTES + PAGE_BYTES
_TO_URL = bytes.maketrans(b"+/", b"-_")
# What base64 writes elsewhere is nothing here: a token has one spelling.
_FROM_URL = bytes.maketrans(b"-_+/", b"+/!!")
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
    """The short name of a visitor inside markers."""
    return _kept_digest(visitor, VISITOR_BYTES) if len(visitor) <= _LONGEST_KEPT else _digest(visitor, VISITOR_BYTES)


def page_digest(target: str) -> bytes:
    """The short name of a page inside markers. The query belongs to it: `/list?p=2` is a page of its own."""
    return _kept_digest(target, PAGE_BYTES) if len(target) <= _LONGEST_KEPT else _digest(target, PAGE_BYTES)


def _digest(name: str, size: int) -> bytes:
    return blake2b(name.encode("utf-8", "surrogateescape"), digest_size=size).digest()


# The same pages and visitors are named again and again: to remember takes a tenth of the time.
_kept_digest = lru_cache(maxsize=1 << 13)(_digest)


def content(kind: MarkerKind, target: bytes) -> bytes:
    """What a token seals, less what is the same for all links of a page."""
    return _CODES[kind] + target


def may_be_token(text: str) -> bool:
    """Whether *text* has the form of a token: `/~ann/` of a site of its own has not."""
    return len(text) >= SHORTEST and text.isascii() and not text.encode().translate(None, _TOKEN_BYTES)


class TokenCodec:
    """
    Seals under the newest of *keys* and unseals under all of them, for one *site*.

    The site's name goes into the keys: what was sealed for one site never opens at another.
    """

    def __init__(self, keys: Sequence[Key], site: str = "") -> None:
        if not keys:
            raise ValueError("a seal needs a key")
        # Objects for good: making one costs four times as much as using it.
        self._ciphers = {key.number: AESSIV(_derive(key.secret, site)) for key in keys}
        newest = max(keys, key=lambda key: key.made_at)
        self._blocks = Blocks(_derive(newest.secret, site))
        self._number = bytes((newest.number,))
        self._newest = self._ciphers[newest.number]

    def plan(self, contents: Sequence[bytes], places: Sequence[int]) -> SivPlan:
        """How to seal the links of a page that is asked for again and again; *places* say where each token goes."""
        return SivPlan(self._blocks, contents, places, VISITOR_BYTES + PAGE_BYTES, self._number)

    @staticmethod
    def planned(plan: SivPlan, issued_to: bytes, parent: bytes) -> Sequence[bytes]:
        """What a sealer gives for the contents of *plan*, in the order of its places, in a third of the time."""
        return plan.seal(issued_to + parent, _in_url)

    def sealer(self, issued_to: bytes, parent: bytes) -> Sealer:
        """What gives the tokens of one page's links, given their contents: a page has many, and only these differ."""
        start = issued_to + parent
        encrypt, number = self._newest.encrypt, self._number

        def seal(contents: Sequence[bytes]) -> list[bytes]:
            return [_encode(number + encrypt(start + content, None)) for content in contents]

        return seal

    def seal(self, kind: MarkerKind, issued_to: bytes, parent: bytes, target: bytes) -> bytes:
        """The token of one marker, as it stands in a URL."""
        return self.sealer(issued_to, parent)((content(kind, target),))[0]

    def unseal(self, token: str) -> Marker | None:
        """
        The marker in *token*, or None where it is not one of ours, to the bit.

        Every kind of bad token takes the same way through here, so that the time of the answer tells nothing.
        """
        raw = token.encode("ascii", "replace").translate(_FROM_URL)
        try:
            sealed = binascii.a2b_base64(raw + b"=" * (-len(raw) % 4), strict_mode=True)
        except binascii.Error:
            sealed = bytes(_OVERHEAD)
        cipher = self._ciphers.get(sealed[0]) if sealed else None
        try:
            payload = (cipher or self._newest).decrypt(sealed[1:].ljust(_OVERHEAD - 1, b"\0"), None)
        except InvalidTag:
            return None
        kind = payload[_KIND_AT]
        if cipher is None or not 0 < kind <= len(_KINDS) or _encode(sealed) != token.encode("ascii", "replace"):
            # base64 has spare bits at its end: only one of their spellings is ours.
            return None
        return Marker(
            _KINDS[kind - 1],
            payload[:VISITOR_BYTES],
            payload[VISITOR_BYTES:_KIND_AT],
            payload[_KIND_AT + 1 :].decode("latin-1"),
        )

    def is_outdated(self, token: str) -> bool:
        """Whether *token* says that it was sealed under a key that is not in the ring, such as one that was dropped."""
        start = token[:4].encode("ascii", "replace").translate(_FROM_URL)
        try:
            return binascii.a2b_base64(start, strict_mode=True)[0] not in self._ciphers
        except (binascii.Error, IndexError):
            return False


def _site(host: str) -> str:
    return host.lower().rpartition("]")[0] if host.startswith("[") else host.lower().partition(":")[0]


def _in_url(sealed: bytes) -> bytes:
    return binascii.b2a_base64(sealed, newline=False).translate(_TO_URL)


def _encode(sealed: bytes) -> bytes:
    return _in_url(sealed).rstrip(b"=")


def _derive(secret: bytes, site: str) -> bytes:
    """The key of one site under a secret."""
    if len(secret) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, this one has {len(secret)}")
    return blake2b(site.encode("utf-8", "surrogateescape"), key=secret, person=b"hedgerow-site").digest()


class TokenCodecs:
    """The seals of all sites that are served under one ring of keys: one for each host name, made when asked for."""

    _MOST = 64

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = tuple(keys)
        self._by_site: dict[str, TokenCodec] = {}
        oldest = min(self._keys, key=lambda key: key.made_at)
        self.seed = blake2b(oldest.secret, person=b"hedgerow-seed").digest()
        """Another for each ring, the same after a restart, and nothing that tells about a key."""

    def derive(self, host: str, purpose: bytes) -> list[tuple[int, bytes]]:
        """
        Keys of a site for another *purpose* (at most 16 bytes) under the same ring: number and 64 bytes, newest last.

        What is sealed under one of them never opens as anything else.
        """
        site = _site(host).encode("utf-8", "surrogateescape")
        ring = sorted(self._keys, key=lambda key: key.made_at)
        return [(key.number, blake2b(site, key=key.secret, person=purpose).digest()) for key in ring]

    def of(self, host: str) -> TokenCodec:
        """The seal of a site, by the Host that its visitors send: its port and its case do not matter."""
        site = _site(host)
        seal = self._by_site.get(site)
        if seal is None:
            seal = TokenCodec(self._keys, site)
            # A client may send any name it likes: only so many are kept.
            if len(self._by_site) < self._MOST:
                self._by_site[site] = seal
        return seal

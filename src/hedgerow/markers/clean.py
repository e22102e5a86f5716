"""
Clean marks: `~=VIEW.CHECK` at the end of a link's query. The path and the rest of the query stay as they are.

VIEW is sealed once for each page view with AES-SIV (RFC 5297): the visitor, the page, the day and the generation (see
`Marker`). All links of a page have the same one, so a page with many links compresses well. On the same day a visitor
gets the same links again, so that browsers show which of them were visited. CHECK ties one link to it: 30 bits of a MAC
over VIEW, the kind of link and its target. A hidden link has the same form and another kind, so nobody without the key
can tell it from an ordinary link. Nothing is stored.

    D = BLAKE2b(kind, target) under one key; it is the same for all visitors, and cached with the page
    CHECK = AES(D xor the tag of VIEW) under another key, cut to 30 bits; all links of a page in one call
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b, sha256
from hmac import compare_digest
from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from hedgerow.core.visit import MarkerKind
from hedgerow.markers.encoding import KIND_CODES, PAGE_BYTES, TO_URL, VISITOR_BYTES, decode, encode

PARAMETER = b"~"
"""The query parameter that carries a mark."""
CHECK_LENGTH = 5
CHECK_BITS = 6 * CHECK_LENGTH

_BLOCK = 16
_DAY = 86_400
_DAY_BYTES = 2
_DAY_AT = VISITOR_BYTES + PAGE_BYTES
# The last byte is the generation.
_VIEW_BYTES = _DAY_AT + _DAY_BYTES + 1
_SEALED_BYTES = 1 + _BLOCK + _VIEW_BYTES
VIEW_LENGTH = -(-_SEALED_BYTES * 4 // 3)
"""Characters of VIEW."""
PLAIN_SCRIPT = (
    # A form writes the "~" as "%%7E". A parameter behind the mark takes over the "?" or "&" before it.
    b"u=>u.replace(/([?&])(?:~|%%7E)=[\\w-]{%d}\\.[\\w-]{%d}(&?)/,(x,a,b)=>b&&a)" % (VIEW_LENGTH, CHECK_LENGTH)
)
"""A function in JavaScript: an address without its mark."""
_SCRIPT = b"try{history.replaceState(history.state,'',(%b)(location.href))}catch(e){}" % PLAIN_SCRIPT
SCRIPT_ELEMENT = b"<script>" + _SCRIPT + b"</script>"
"""Removes the mark from the address that the browser shows; first in the head, before any script of the site runs."""
SCRIPT_HASH = b"'sha256-" + binascii.b2a_base64(sha256(_SCRIPT).digest(), newline=False) + b"'"
"""The source that a content security policy must allow."""
# What a request may have been made with. "form" is a form that is sent as a query, which drops the query of its action.
CHECKED_KINDS: tuple[MarkerKind, ...] = ("page", "sequence", "frame", "form", "trap")
_PURPOSES = (b"view", b"check", b"digest")
_LONGEST_CACHED = 500
_SPACE = bytes(range(33))


class View(NamedTuple):
    """A page view as its links name it: the text of VIEW, and what its CHECKs depend on."""

    text: bytes
    tag: bytes


class OpenedView(NamedTuple):
    """What VIEW says: the digests of visitor and page, the start of the day of the view, and its generation."""

    issued_to: bytes
    parent: bytes
    at: float
    tag: bytes
    key: int
    generation: int


class ChecksPlan(NamedTuple):
    """What the CHECKs of a page's links have in common for all visitors."""

    links: int
    digests: int


class CleanCodec:
    """
    Makes and opens the clean marks of one site, under a ring of keys.

    *keys* are the number and 64 bytes of each key, the newest last.
    """

    def __init__(self, keys: Sequence[tuple[int, bytes]]) -> None:
        self._views: dict[int, AESSIV] = {}
        self._encrypt: dict[int, Callable[[bytes], bytes]] = {}
        self._digest_keys: dict[int, bytes] = {}
        for number, key in keys:
            view, check, digest = (blake2b(key=key, person=purpose) for purpose in _PURPOSES)
            self._views[number] = AESSIV(view.digest())
            # Single blocks, each of them another: nothing is encrypted.
            self._encrypt[number] = Cipher(AES(check.digest()[:32]), ECB()).encryptor().update  # noqa: S305
            self._digest_keys[number] = digest.digest()
        self._newest = keys[-1][0]
        self._cached_digest = lru_cache(maxsize=1 << 12)(self._make_digest)

    def view(self, issued_to: bytes, parent: bytes, at: float, generation: int = 0) -> View:
        """Seal a page view under the newest key."""
        day = max(0, min(int(at) // _DAY, 0xFFFF)).to_bytes(_DAY_BYTES, "big")
        sealed = self._views[self._newest].encrypt(issued_to + parent + day + bytes((generation,)), None)
        return View(encode(bytes((self._newest,)) + sealed), sealed[:_BLOCK])

    def open(self, text: str) -> OpenedView | None:
        """Return what VIEW says, or None if one bit of it is not ours."""
        sealed = decode(text)
        if sealed is None or len(sealed) != _SEALED_BYTES or sealed[0] not in self._views:
            return None
        try:
            view = self._views[sealed[0]].decrypt(sealed[1:], None)
        except InvalidTag:
            return None
        day = int.from_bytes(view[_DAY_AT : _DAY_AT + _DAY_BYTES], "big")
        return OpenedView(
            view[:VISITOR_BYTES], view[VISITOR_BYTES:_DAY_AT], float(day * _DAY), sealed[1 : 1 + _BLOCK], sealed[0],
            view[-1],
        )  # fmt: skip

    def plan(self, contents: Sequence[bytes]) -> ChecksPlan:
        """Prepare the CHECKs of links: *contents* are the code of the kind and the target of each."""
        joined = b"".join([self._digest(self._newest, content) for content in contents])
        return ChecksPlan(len(contents), int.from_bytes(joined, "big"))

    def checks(self, view: View, plan: ChecksPlan) -> Sequence[bytes]:
        """Return the CHECK of each link of a page, in one call of the cipher."""
        return self._encrypted(self._newest, view.tag, plan)

    def kind(self, view: OpenedView, check: str, target: str, path: str) -> MarkerKind | None:
        """
        Return the kind of link to *target* that CHECK was made for, or None if it was made for none.

        *path* is the target without its query, by which a form is checked that is sent as a query.
        """
        texts = [path if kind == "form" else target for kind in CHECKED_KINDS]
        joined = b"".join(
            [
                self._digest(view.key, KIND_CODES[kind] + text.encode("latin-1", "replace"))
                for kind, text in zip(CHECKED_KINDS, texts, strict=True)
            ]
        )
        plan = ChecksPlan(len(CHECKED_KINDS), int.from_bytes(joined, "big"))
        found = self._encrypted(view.key, view.tag, plan)
        given = check.encode("ascii", "replace")
        # All of them, so that the time does not depend on the CHECK.
        kinds = [kind for kind, made in zip(CHECKED_KINDS, found, strict=True) if compare_digest(made, given)]
        return kinds[0] if kinds else None

    def _encrypted(self, number: int, tag: bytes, plan: ChecksPlan) -> Sequence[bytes]:
        count = plan.links
        mixed = int.from_bytes(tag * count, "big") ^ plan.digests
        blocks = self._encrypt[number](mixed.to_bytes(_BLOCK * count, "big"))
        # Of each block the first six bytes, which are eight characters, of which five are taken.
        starts = b"".join(_cutter(f"6s{_BLOCK - 6}x", count).unpack(blocks))
        return _cutter(f"{CHECK_LENGTH}s{8 - CHECK_LENGTH}x", count).unpack(
            binascii.b2a_base64(starts, newline=False).translate(TO_URL)
        )

    def _digest(self, number: int, content: bytes) -> bytes:
        return (self._cached_digest if len(content) <= _LONGEST_CACHED else self._make_digest)(number, content)

    def _make_digest(self, number: int, content: bytes) -> bytes:
        return blake2b(content, key=self._digest_keys[number], digest_size=_BLOCK).digest()


@lru_cache(maxsize=512)
def _cutter(form: str, count: int) -> Struct:
    return Struct(form * count)


def split_mark(text: str) -> tuple[str, str] | None:
    """
    Return VIEW and CHECK of the value of the parameter `~`, or None if it has not the form of a clean mark.

    >>> split_mark("abc"), split_mark("A" * VIEW_LENGTH + ".abcde")[1]
    (None, 'abcde')
    """
    view, dot, check = text.partition(".")
    return (view, check) if dot and len(view) == VIEW_LENGTH and len(check) == CHECK_LENGTH else None


_MARK = re.compile(rb"(?<=[?&])~=[A-Za-z0-9_-]{%d}\.[A-Za-z0-9_-]{%d}(?:&|\Z)" % (VIEW_LENGTH, CHECK_LENGTH))


def without_marks(url: bytes) -> bytes:
    """
    Return an address without the clean marks in its query, such as that of a link which somebody copied.

    >>> without_marks(b"/a?x=1&~=" + b"A" * 43 + b".abcde&y=2"), without_marks(b"/a?~=" + b"A" * 43 + b".abcde")
    (b'/a?x=1&y=2', b'/a')
    """
    if b"~=" not in url:
        return url
    found = _MARK.sub(b"", url)
    return found.rstrip(b"?&") if found != url else url


def split_link(url: bytes) -> tuple[bytes, bytes] | None:
    """
    Return the text before and after the mark of a link as it is written, or None for one that has no place for a mark.

    >>> split_link(b"a.html"), split_link(b"../?x=1#top"), split_link(b"/a?")
    ((b'a.html?~=', b''), (b'../?x=1&~=', b'#top'), None)
    """
    head, hash_, fragment = url.strip(_SPACE).partition(b"#")
    head = without_marks(head)
    if head[-1:] in {b"?", b"&"}:
        return None
    return head + (b"&" if b"?" in head else b"?") + PARAMETER + b"=", hash_ + fragment

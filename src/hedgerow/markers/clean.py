"""
Clean marks: `~=VIEW.CHECK` at the end of a link's query. The path and the rest of the query stay as they are.

VIEW is made once for each page view: the visitor, the page, the day and the generation (see `Marker`), encrypted as one
block. All links of a page have the same one, so a page with many links compresses well. On the same day a visitor gets
the same links again, so that browsers show which of them were visited. CHECK ties one link to it: 24 bits of a MAC over
VIEW, the kind of link and its target. A hidden link has the same form and another kind, so nobody without the key can
tell it from an ordinary link. Nothing is stored.

    VIEW = the number of the key, and B = AES-256(visitor, page, day, generation, a zero byte)
    D = BLAKE2b(kind, target) under a second key; it is the same for all visitors, and cached
    CHECK = AES-256(D xor B) under a third key, cut to 24 bits; all links of a page in one call

VIEW alone proves nothing: one of 256 random blocks ends with a zero byte. What counts is the CHECK that goes with it. D
has 128 bits that nobody knows. So nobody can choose a B that makes two inputs of the last step equal, and to whoever
has no key each CHECK is a random number. What 24 bits mean is in docs/marking.md.

Marks from before this form, with a VIEW sealed by AES-SIV (43 characters) and a CHECK of 30 bits, still open. Their
ciphers have keys of their own: no VIEW or CHECK of one form means anything in the other.
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
CHECK_LENGTH = 4
CHECK_BITS = 6 * CHECK_LENGTH

_BLOCK = 16
_DAY = 86_400
_DAY_BYTES = 2
_DAY_AT = VISITOR_BYTES + PAGE_BYTES
_GENERATION_AT = _DAY_AT + _DAY_BYTES
VIEW_LENGTH = -(-(1 + _BLOCK) * 4 // 3)
"""Characters of VIEW."""
# Of marks in the earlier form.
_SEALED_BYTES = 1 + _BLOCK + _GENERATION_AT + 1
_SEALED_LENGTH = -(-_SEALED_BYTES * 4 // 3)
_LONG_CHECK_LENGTH = 5
_LENGTHS = {VIEW_LENGTH: CHECK_LENGTH, _SEALED_LENGTH: _LONG_CHECK_LENGTH}
PLAIN_SCRIPT = (
    # A form writes the "~" as "%7E". A parameter behind the mark takes over the "?" or "&" before it.
    b"u=>u.replace(/([?&])(?:~|%%7E)=(?:[\\w-]{%d}\\.[\\w-]{%d}|[\\w-]{%d}\\.[\\w-]{%d})(&?)/,(x,a,b)=>b&&a)"
    % (_SEALED_LENGTH, _LONG_CHECK_LENGTH, VIEW_LENGTH, CHECK_LENGTH)
)
"""A function in JavaScript: an address without its mark."""
# As short as can be, for it stands in each page that a link led to. Such a page was asked for with a mark, so a longer
# expression would find nothing else.
_SCRIPT = (
    b"history.replaceState(history.state,'',location.href.replace(/([?&])[%%~][7E]*=[\\w.-]{%d,}(&?)/,(x,a,b)=>b&&a))"
) % (VIEW_LENGTH + 1 + CHECK_LENGTH)
SCRIPT_ELEMENT = b"<script>" + _SCRIPT + b"</script>"
"""Removes the mark from the address that the browser shows; first in the head, before any script of the site runs."""
SCRIPT_HASH = b"'sha256-" + binascii.b2a_base64(sha256(_SCRIPT).digest(), newline=False) + b"'"
"""The source that a content security policy must allow."""
# What a request may have been made with. "form" is a form that is sent as a query, which drops the query of its action.
CHECKED_KINDS: tuple[MarkerKind, ...] = ("page", "sequence", "frame", "form", "trap")
_PURPOSES = (b"block", b"short-check", b"digest", b"view", b"check")
_LONGEST_CACHED = 500
_MOST_CACHED = 1 << 12
_SPACE = bytes(range(33))


class View(NamedTuple):
    """A page view as its links name it: the text of VIEW, and the block that its CHECKs depend on."""

    text: bytes
    block: bytes


class OpenedView(NamedTuple):
    """What VIEW says: the digests of visitor and page, the start of the day of the view, and its generation."""

    issued_to: bytes
    parent: bytes
    at: float
    block: bytes
    key: int
    generation: int
    is_sealed: bool
    """Whether VIEW has the earlier form."""


class ChecksPlan(NamedTuple):
    """What the CHECKs of a page's links have in common for all visitors."""

    links: int
    digests: int


class _Digests(dict[bytes, bytes]):
    """Keyed digests of what links lead to, by it. Those of short texts are kept, up to some number."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __missing__(self, content: bytes) -> bytes:
        digest = blake2b(content, key=self._key, digest_size=_BLOCK).digest()
        if len(content) <= _LONGEST_CACHED:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[content] = digest
        return digest


class _Ciphers:
    """The ciphers of one key. Single blocks, each of them another, are all that is encrypted as it is."""

    def __init__(self, key: bytes) -> None:
        block, check, digest, seal, long_check = (blake2b(key=key, person=purpose).digest() for purpose in _PURPOSES)
        self.digests = _Digests(digest)
        blocks = Cipher(AES(block[:32]), ECB())  # noqa: S305
        self.encrypt, self.decrypt = blocks.encryptor().update, blocks.decryptor().update
        self.check = Cipher(AES(check[:32]), ECB()).encryptor().update  # noqa: S305
        # For marks in the earlier form.
        self.unseal = AESSIV(seal).decrypt
        self.long_check = Cipher(AES(long_check[:32]), ECB()).encryptor().update  # noqa: S305


class CleanCodec:
    """
    Makes and opens the clean marks of one site, under a ring of keys.

    *keys* are the number and 64 bytes of each key, the newest last.
    """

    def __init__(self, keys: Sequence[tuple[int, bytes]]) -> None:
        self._ciphers = {number: _Ciphers(key) for number, key in keys}
        self._newest = keys[-1][0]

    def view(self, issued_to: bytes, parent: bytes, at: float, generation: int = 0) -> View:
        """Make the VIEW of a page view under the newest key."""
        day = max(0, min(int(at) // _DAY, 0xFFFF)).to_bytes(_DAY_BYTES, "big")
        block = self._ciphers[self._newest].encrypt(issued_to + parent + day + bytes((generation, 0)))
        return View(encode(bytes((self._newest,)) + block), block)

    def open(self, text: str) -> OpenedView | None:
        """Return what VIEW says, or None if it is not ours. Only a CHECK that goes with it proves that it is."""
        view = decode(text)
        if not view or view[0] not in self._ciphers:
            return None
        number, rest = view[0], view[1:]
        ciphers = self._ciphers[number]
        if len(rest) == _BLOCK:
            opened = ciphers.decrypt(rest)
            return None if opened[-1] else _opened(opened, rest, number, is_sealed=False)
        if len(view) != _SEALED_BYTES:
            return None
        try:
            return _opened(ciphers.unseal(rest, None), rest[:_BLOCK], number, is_sealed=True)
        except InvalidTag:
            return None

    def plan(self, contents: Sequence[bytes]) -> ChecksPlan:
        """Prepare the CHECKs of links: *contents* are the code of the kind and the target of each."""
        return self._plan(self._newest, contents)

    def checks(self, view: View, plan: ChecksPlan) -> Sequence[bytes]:
        """Return the CHECK of each link of a page, in one call of the cipher."""
        return _checks(self._ciphers[self._newest].check, view.block, plan, CHECK_LENGTH)

    def kind(self, view: OpenedView, check: str, target: str, path: str) -> MarkerKind | None:
        """
        Return the kind of link to *target* that CHECK was made for, or None if it was made for none.

        *path* is the target without its query, by which a form is checked that is sent as a query.
        """
        texts = [path if kind == "form" else target for kind in CHECKED_KINDS]
        contents = [
            KIND_CODES[kind] + text.encode("latin-1", "replace")
            for kind, text in zip(CHECKED_KINDS, texts, strict=True)
        ]
        ciphers = self._ciphers[view.key]
        cipher, length = (ciphers.long_check, _LONG_CHECK_LENGTH) if view.is_sealed else (ciphers.check, CHECK_LENGTH)
        found = _checks(cipher, view.block, self._plan(view.key, contents), length)
        given = check.encode("ascii", "replace")
        # All of them, so that the time does not depend on the CHECK.
        kinds = [kind for kind, made in zip(CHECKED_KINDS, found, strict=True) if compare_digest(made, given)]
        return kinds[0] if kinds else None

    def _plan(self, number: int, contents: Sequence[bytes]) -> ChecksPlan:
        digests = self._ciphers[number].digests
        joined = b"".join([digests[content] for content in contents])
        return ChecksPlan(len(contents), int.from_bytes(joined, "big"))


def _opened(view: bytes, block: bytes, number: int, *, is_sealed: bool) -> OpenedView:
    day = int.from_bytes(view[_DAY_AT:_GENERATION_AT], "big")
    return OpenedView(
        view[:VISITOR_BYTES], view[VISITOR_BYTES:_DAY_AT], float(day * _DAY), block, number, view[_GENERATION_AT],
        is_sealed,
    )  # fmt: skip


def _checks(encrypt: Callable[[bytes], bytes], block: bytes, plan: ChecksPlan, length: int) -> Sequence[bytes]:
    """Return the CHECKs of a plan, of *length* characters each."""
    count = plan.links
    mixed = int.from_bytes(block * count, "big") ^ plan.digests
    blocks = encrypt(mixed.to_bytes(_BLOCK * count, "big"))
    # Of each block the first three bytes, which are four characters, or six, which are eight, of which five are taken.
    used = 3 if length == CHECK_LENGTH else 6
    starts = b"".join(_cutter(f"{used}s{_BLOCK - used}x", count).unpack(blocks))
    return _cutter(f"{length}s{used * 4 // 3 - length}x", count).unpack(
        binascii.b2a_base64(starts, newline=False).translate(TO_URL)
    )


@lru_cache(maxsize=512)
def _cutter(form: str, count: int) -> Struct:
    return Struct(form * count)


def split_mark(text: str) -> tuple[str, str] | None:
    """
    Return VIEW and CHECK of the value of the parameter `~`, or None if it has not the form of a clean mark.

    >>> split_mark("abc"), split_mark("A" * VIEW_LENGTH + ".abcd")[1], split_mark("A" * 43 + ".abcde")[1]
    (None, 'abcd', 'abcde')
    """
    view, dot, check = text.partition(".")
    return (view, check) if dot and len(check) == _LENGTHS.get(len(view)) else None


_MARK = re.compile(
    rb"(?<=[?&])~=(?:[A-Za-z0-9_-]{%d}\.[A-Za-z0-9_-]{%d}|[A-Za-z0-9_-]{%d}\.[A-Za-z0-9_-]{%d})(?:&|\Z)"
    % (VIEW_LENGTH, CHECK_LENGTH, _SEALED_LENGTH, _LONG_CHECK_LENGTH)
)


def without_marks(url: bytes) -> bytes:
    """
    Return an address without the clean marks in its query, such as that of a link which somebody copied.

    >>> without_marks(b"/a?x=1&~=" + b"A" * 23 + b".abcd&y=2"), without_marks(b"/a?~=" + b"A" * 43 + b".abcde")
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

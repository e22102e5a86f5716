"""
What a program was given before, written into the entries that the state remembers of every visitor.

An entry is an address, and for programs more: the second at which the page was given and, if the page was given
unchanged, where its links lead.

    /a.html 1800000000               a page with marked links
    /a.html 1800000000 kJ3fA0...     a page that was given unchanged; its links as a Bloom filter
    /b.html 1800000000 .             a page to which such a link led
    /files/ 1800000000 /             a list of files
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from itertools import islice

from hedgerow.core.visit import Visit
from hedgerow.markers.encoding import decode, encode

MOST_LINKS = 600
"""Links of a page that are remembered. Each takes a byte, and one in forty others is taken for one of them."""
PACE = 10.0
"""Seconds between pages that a program may take as it follows links."""

_FRESH = 3_600.0
_FOLDER_FRESH = 86_400.0
_LONGEST = 200
_FOLDER, _FOLLOWED = "/", "."
_HASHES = 4
# The state remembers eight entries.
_FADING = 5


def entry_target(entry: str) -> str:
    """Return the address of an entry."""
    return entry.partition(" ")[0]


def page_entry(visit: Visit) -> str:
    """Return the entry of a page with marked links."""
    return f"{visit.target[:_LONGEST]} {visit.at:.0f}"


def first_entry(visit: Visit, links: Collection[bytes]) -> str:
    """Return the entry of a page that was given unchanged and has *links*."""
    return f"{page_entry(visit)} {encode(_bloom_filter(links)).decode()}"


def followed_entry(visit: Visit) -> str:
    """Return the entry of a page to which a link of an unchanged page led."""
    return f"{page_entry(visit)} {_FOLLOWED}"


def folder_entry(visit: Visit) -> str:
    """Return the entry of a folder whose files were listed."""
    return f"{_folder(visit.target)[:_LONGEST]} {visit.at:.0f} {_FOLDER}"


def _timed(entry: str) -> tuple[str, float, str] | None:
    """
    Return the parts of an entry of a program, or None if it is an address alone. An address may contain a space.

    >>> _timed("/a.html 1800000000 ."), _timed("/a? "), _timed("/a b")
    (('/a.html', 1800000000.0, '.'), None, None)
    """
    target, _, rest = entry.partition(" ")
    second, _, more = rest.partition(" ")
    return (target, float(second), more) if second.isascii() and second.isdigit() else None


class ProgramHistory:
    """What *entries* say about the program that makes *visit*."""

    def __init__(self, entries: Sequence[str], visit: Visit) -> None:
        self._visit = visit
        self._entries = entries
        self._target = visit.target[:_LONGEST]
        self._timed = [timed for entry in entries if (timed := _timed(entry)) is not None]

    @property
    def is_listed_file(self) -> bool:
        """Whether the target is below a folder whose files were listed to this program."""
        path = self._visit.target.partition("?")[0]
        return any(
            more == _FOLDER and self._visit.at - at < _FOLDER_FRESH and path.startswith(folder)
            for folder, at, more in self._timed
        )

    @property
    def had_this(self) -> bool:
        """Whether the program was given this page lately."""
        return any(target == self._target for target, _, _ in self._pages())

    @property
    def knew_this(self) -> bool:
        """Whether the program has asked for this page before, at any time that is remembered."""
        return any(entry_target(entry) == self._target for entry in self._entries)

    @property
    def had_this_unchanged(self) -> bool:
        """Whether the program was given this page unchanged."""
        return any(target == self._target and len(links) > 1 for target, _, links in self._pages())

    @property
    def had_others(self) -> bool:
        """Whether the program was given other pages lately."""
        return any(target != self._target for target, _, _ in self._pages())

    @property
    def links_here(self) -> str:
        """The page that was given unchanged and leads to this one, by its links or by the referrer; "" if none does."""
        referrer = self._visit.referring_target if self._visit.origin == "same" else ""
        for target, _, links in self._pages():
            if len(links) > 1 and target != self._target and (target == referrer or _is_in(links, self._visit.target)):
                return target
        return ""

    @property
    def began_just_now(self) -> bool:
        """Whether the program was given an unchanged page just now."""
        return any(len(links) > 1 and self._visit.at - at < PACE for _, at, links in self._pages())

    @property
    def fading_entry(self) -> str:
        """The entry of an unchanged page that would soon be forgotten among later ones, to be remembered once more."""
        latest = self._entries[-_FADING:]
        fading = [entry for entry in self._entries[:-_FADING] if entry not in latest]
        unchanged = [f"{target} {at:.0f} {links}" for target, at, links in self._pages() if len(links) > 1]
        return next((entry for entry in fading if entry in unchanged), "")

    @property
    def is_hasty(self) -> bool:
        """Whether the program has followed another link just now."""
        return any(
            more == _FOLLOWED and target != self._target and self._visit.at - at < PACE
            for target, at, more in self._pages()
        )

    def _pages(self) -> Iterator[tuple[str, float, str]]:
        return (one for one in self._timed if one[2] != _FOLDER and self._visit.at - one[1] < _FRESH)


def _folder(target: str) -> str:
    path = target.partition("?")[0]
    return path[: path.rfind("/") + 1]


# ---- Links as a Bloom filter: a set in few bytes, in which some are found that were never added


def _bloom_filter(links: Collection[bytes]) -> bytes:
    bits = bytearray(max(8, min(len(links), MOST_LINKS)))
    for link in islice(links, MOST_LINKS):
        for bit in _bits(link, len(bits)):
            bits[bit >> 3] |= 1 << (bit & 7)
    return bytes(bits)


def _is_in(text: str, target: str) -> bool:
    bits = decode(text) or bytes(1)
    return all(bits[bit >> 3] >> (bit & 7) & 1 for bit in _bits(target.encode("latin-1"), len(bits)))


def _bits(link: bytes, length: int) -> Iterator[int]:
    digest = blake2b(link, digest_size=4 * _HASHES).digest()
    return (int.from_bytes(digest[at : at + 4], "big") % (8 * length) for at in range(0, 4 * _HASHES, 4))

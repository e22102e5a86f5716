"""
Targets of hidden links with a clean mark: addresses that look like others of the page and lead to none of them.

A hidden link must not point where a visible one points: two links to one target with different CHECKs would show which
of them is hidden. So the start of one link of the page is combined with the end of another. Only addresses that the
page shows anyway go into it. Ends are those of links just before the hidden one, and a page uses few starts: what the
page has said before compresses well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from itertools import count, islice
from struct import Struct

_LEADS = 2
_FIRST = 8
_NEAR_TRIES = 4
_MOST_TRIES = 24
_NUMBERS = Struct(">32H")
# For a page without links of its own.
_NAMES = (b"overview", b"archive", b"notes", b"summary", b"details", b"history", b"appendix", b"contents")


class HiddenTargets:
    """
    Chooses targets for the hidden links of *page*, each another one. Every visitor gets the same.

    If *more_follow*, links may come that are not known yet: then targets are names that hardly any page links to.

    >>> linked = [b"/docs/a.html", b"/blog/b.html"]
    >>> targets = HiddenTargets(b"/start")
    >>> [targets.choose(linked, linked) for _ in range(3)]
    [b'/blog/b-b.html', b'/blog/b-a.html', b'/blog/a.html']
    """

    def __init__(self, page: bytes, *, more_follow: bool = False) -> None:
        self._page = page
        self._more_follow = more_follow
        self._is_mixed = False
        self._numbers = numbers_of(page)
        self._leads: list[tuple[bytes, bytes, bytes]] = []
        self.chosen: set[bytes] = set()

    def choose(self, linked: Collection[bytes], near: Sequence[bytes]) -> bytes:
        """Return a target that is none of *linked*, the targets of the page's links; *near* are some of them."""
        chosen, numbers = self.chosen, self._numbers
        if not self._leads:
            self._find_leads(linked)
        start, named, extension = self._leads[len(chosen) % _LEADS]
        some: Sequence[bytes] = ()
        for number in count(1):
            if near and number <= _NEAR_TRIES:
                its_start, rest = _split(near[(next(numbers) + number) % len(near)])
                if its_start == start and self._is_mixed and number < _NEAR_TRIES:
                    continue
                target = (start if its_start != start and self._is_mixed else named) + rest
            elif linked and number <= _MOST_TRIES:
                some = some or [*linked]
                target = named + _split(some[next(numbers) % len(some)])[1]
            elif number <= _MOST_TRIES:
                target = named + _NAMES[next(numbers) % len(_NAMES)] + extension
            else:
                target = named + b"%d" % number + extension
            # One with two slashes would name a host.
            if target not in linked and target not in chosen and target[:2] != b"//" and target != self._page:
                chosen.add(target)
                return target
        raise AssertionError

    def _find_leads(self, linked: Collection[bytes]) -> None:
        """Find what targets begin with: with and without the start of a name; and how those of made-up names end."""
        some = [target for target in islice(linked, _FIRST) if target[:2] != b"//"]
        parts = [_split(target) for target in some or [b"/" + self._page.lstrip(b"/")]]
        # Links of one folder have nothing to combine.
        self._is_mixed = len({start for start, _ in parts}) > 1 and not self._more_follow
        parts = [part for part in parts if part[1]] or parts
        for _ in range(_LEADS):
            start, end = parts[next(self._numbers) % len(parts)]
            stem, dot, extension = end.partition(b".")
            stem = stem.rstrip(b"/")
            self._leads.append((start, start + stem + b"-" if stem else start, dot + extension))


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Cut a target before its last name: the last part of its path, or the last value of its query."""
    at = target.rfind(b"=") + 1
    if not at or b"?" not in target:
        path = target.partition(b"?")[0] if b"?" in target else target
        at = max(at, path.rfind(b"/", 0, -1) + 1, 1)
    return target[:at], target[at:]


def numbers_of(page: bytes) -> Iterator[int]:
    """Yield numbers that look random and are the same for the same page."""
    for number in count():
        yield from _NUMBERS.unpack(blake2b(b"%d " % number + page, digest_size=_NUMBERS.size).digest())

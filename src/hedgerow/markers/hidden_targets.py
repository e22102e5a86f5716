"""
Targets of hidden links with a clean mark: addresses that look like others of the page and lead to none of them.

A hidden link must not point where a visible one points: two links to one target with different CHECKs would show which
of them is hidden. So the start of one link of the page is combined with the end of another. Only addresses that the
page shows anyway go into it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import blake2b
from itertools import count, pairwise
from struct import Struct

_TRIES = 24
_FIRST_TRIES = 5
_MOST_USED = 1_000
_NUMBERS = Struct(">32H")
# For a page without links of its own.
_NAMES = (b"overview", b"archive", b"notes", b"summary", b"details", b"history", b"appendix", b"contents")


def hidden_targets(page: bytes, linked: Collection[bytes], *, more_follow: bool = False) -> Iterator[bytes]:
    """
    Yield targets without end, each another one and none in *linked*, the targets of the links of *page*.

    Every visitor gets the same. If *more_follow*, links may come that are not known yet: then these are names that
    hardly any page links to.

    >>> next(hidden_targets(b"/start", [b"/docs/a.html", b"/blog/b.html"])) in {b"/docs/b.html", b"/blog/a.html"}
    True
    """
    used = {page}
    for target in _candidates(page, list(linked)[:_MOST_USED], combine=not more_follow):
        if target not in linked and target not in used and not target.startswith(b"//"):
            used.add(target)
            yield target


def _candidates(page: bytes, linked: list[bytes], *, combine: bool) -> Iterator[bytes]:
    numbers = numbers_of(page)
    examples = [target for target in linked if target[:2] != b"//"]

    def example() -> tuple[bytes, bytes]:
        return _split(examples[next(numbers) % len(examples)])

    if combine and len(examples) > 1:
        parts = [example() for _ in range(_FIRST_TRIES)]
        # Links of one folder have nothing to combine.
        if len({start for start, _ in parts}) > 1:
            parts += [example() for _ in range(_TRIES - _FIRST_TRIES)]
            yield from (start + end for (start, _), (_, end) in pairwise(parts))
    # A target with two slashes would name a host.
    examples = examples or [b"/" + page.lstrip(b"/")]
    for number in count(1):
        start, end = example()
        stem, dot, extension = end.partition(b".")
        if number > _TRIES * len(examples):
            # Some numbers are not used yet.
            name = b"%d" % number
        else:
            name = example()[1].partition(b".")[0] if linked else _NAMES[next(numbers) % len(_NAMES)]
        yield start + stem + (b"-" if stem and name else b"") + name + dot + extension


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

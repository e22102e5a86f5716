"""
Targets of hidden links with a clean mark: addresses that look like others of the page and lead to none of them.

A hidden link must not point where a visible one points: two links to one target with different CHECKs would show which
of them is hidden. So the start of one link of the page is combined with the end of another. Only addresses that the
page shows anyway go into it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import blake2b
from itertools import count

_TRIES = 24
_MOST_USED = 1_000
# For a page without links of its own.
_NAMES = (b"overview", b"archive", b"notes", b"summary", b"details", b"history", b"appendix", b"contents")


def hidden_targets(page: bytes, linked: Collection[bytes], *, more_follow: bool = False) -> Iterator[bytes]:
    """
    Yield targets without end, each another one and none in *linked*, the targets of the links of *page*.

    Every visitor gets the same. If *more_follow*, links may come that are not known yet: then these are names that
    hardly any page links to.

    >>> next(hidden_targets(b"/", [b"/docs/a.html", b"/blog/b.html"])) in {b"/docs/b.html", b"/blog/a.html"}
    True
    """
    used = {page}
    for target in _candidates(page, list(linked)[:_MOST_USED], combine=not more_follow):
        if target not in linked and target not in used and not target.startswith(b"//"):
            used.add(target)
            yield target


def _candidates(page: bytes, linked: list[bytes], *, combine: bool) -> Iterator[bytes]:
    numbers = numbers_of(page)
    examples = [target for target in linked if not target.startswith(b"//")]

    def example() -> tuple[bytes, bytes]:
        return _split(examples[next(numbers) % len(examples)])

    def name(number: int) -> bytes:
        # In the end there are numbers: some of them are not used yet.
        if number > _TRIES * len(examples):
            return b"%d" % number
        return example()[1].partition(b".")[0] if linked else _NAMES[next(numbers) % len(_NAMES)]

    if combine and len(examples) > 1:
        for _ in range(_TRIES):
            yield example()[0] + example()[1]
    examples = examples or [page]
    for number in count(1):
        start, end = example()
        stem, dot, extension = end.partition(b".")
        yield start + b"-".join(filter(None, [stem, name(number)])) + dot + extension


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Cut a target before its last name: the last part of its path, or the last value of its query."""
    at = max(target.rfind(b"="), target.partition(b"?")[0].rfind(b"/", 0, -1), 0) + 1
    return target[:at], target[at:]


def numbers_of(page: bytes) -> Iterator[int]:
    """Yield numbers that look random and are the same for the same page."""
    for number in count():
        digest = blake2b(b"%d " % number + page, digest_size=64).digest()
        yield from (int.from_bytes(digest[at : at + 2], "big") for at in range(0, 64, 2))

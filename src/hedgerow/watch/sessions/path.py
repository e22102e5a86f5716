"""
Paths: PathMarker's sessions and the six features of a long session.

A long session is 60 page visits of one visitor in a row. Within it, a short session is a run of visits less than 10 s
apart; one that crosses the end of the long session is cut there. A visit whose parent page was visited earlier in the
session has its parent's depth + 1, and makes its parent wider by 1; any other visit has depth 0. The same count starts
anew inside the longest short session.

Where the paper leaves a choice: a page that is visited again has the depth of its latest visit, and goes on with its
width; of short sessions of the same length the first is the longest; variance is that of the whole population; where
there is no interval, or all are 0, the variation is 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec

from hedgerow.core.visit import Visit
from hedgerow.markers.token import page_digest

LONG = 60
"""Page visits in a long session."""

SHORT_GAP = 10.0
"""Seconds; a visit that comes this long after the last one begins a new short session."""

PREFIXES = (10, 20, 30, 40, 50, 60)
"""How many visits a session has when a model is asked."""

SIX = ("depth", "width", "variation", "depth_difference", "width_difference", "short_variation")
"""The names of PathMarker's features, in the paper's order."""

FURTHER = (
    "gap_middle",
    "gap_low",
    "gap_high",
    "pauses",
    "entries",
    "strays",
    "revisits",
    "onward",
    "sideward",
    "beside",
    "longest",
)
"""The names of our own features; see `PathSession.further`."""

WIDE = SIX + FURTHER

_ENTRY, _STRAY, _SAME_STRAY = 255, 254, 253
_STRAYS = frozenset({_STRAY, _SAME_STRAY})
# Three bytes of a page's digest: in one session of 9,000 two of its pages are taken for one.
_NAME = 3
# Of a step: the seconds before it; its page, by the number of that page's first visit; its parent, likewise.
_STEP = struct.Struct("<fBB")
_HEAD = struct.Struct(f"<BHBd{_NAME}s")
_VERSION = 3
_MOST_BESIDE = 65_535
_LONGEST_GAP = 1e30


class Step(NamedTuple):
    """One page visit of a path. *parent* is None where nobody knows which page led here."""

    at: float
    page: bytes
    parent: bytes | None


def step_of(visit: Visit, host: str = "") -> Step | None:
    """
    The step that *visit* takes, or None where it takes none: assets, calls and prefetches are no part of a path.

    The parent is the marker's. Without a marker it is the page that the referrer names, if that is one of this site:
    by the visit's own host, or by *host* where the visit comes from a log that does not name it.
    """
    if visit.kind != "page" or visit.prefetch:
        return None
    marker = visit.marker
    if marker is not None and marker.kind in {"page", "form", "frame"}:
        return Step(visit.at, page_digest(visit.target), marker.parent)
    parent = None
    _, separator, rest = visit.referrer.partition("://")
    if separator:
        place, slash, path = rest.partition("#")[0].partition("/")
        own = visit.host or host
        if own and place.lower() == own.lower():
            parent = page_digest("/" + path if slash else "/")
    return Step(visit.at, page_digest(visit.target), parent)


class PathSession(msgspec.Struct, gc=False, eq=False):
    """
    The long session of one visitor that is under way: at most 60 steps, in less than a kilobyte.

    A step that comes when the session is full begins the next one. Times that run backwards count as no time. Of times
    only the seconds between steps are kept, in single precision, and of the last one all of it.

    >>> session = PathSession()
    >>> for at, page, parent in [(0.0, "/", None), (1.0, "/a", "/"), (3.0, "/a/1", "/a"), (4.0, "/b", "/")]:
    ...     session.add(at, page, parent)
    >>> [round(feature, 3) for feature in session.features()]
    [0.5, 0.5, 0.125, 0.0, 0.0, 0.125]
    """

    # Bytes that are replaced at every step take less room than arrays that can grow.
    _steps: bytes = b""
    _digests: bytes = b""
    # The last step's parent, where this session has not visited it.
    _led: bytes = b""
    latest: float = 0.0
    """When the last step was taken, or 0 where there is none."""
    beside: int = 0
    """Visits beside the path: assets, calls and prefetches."""

    @property
    def size(self) -> int:
        """Steps so far."""
        return len(self._steps) // _STEP.size

    @property
    def full(self) -> bool:
        return len(self._steps) >= LONG * _STEP.size

    def add(self, at: float, page: bytes | str, parent: bytes | str | None) -> None:
        """One more step. A page may be given by its digest or by its target."""
        if len(self._steps) >= LONG * _STEP.size:
            self.clear()
        number, led = _ENTRY, b""
        if parent is not None:
            led = (parent if isinstance(parent, bytes) else page_digest(parent))[-_NAME:]
            number = self._number(led)
            if number == _ENTRY:
                number = _SAME_STRAY if led == self._led else _STRAY
            else:
                led = b""
        self._led = led
        here = (page if isinstance(page, bytes) else page_digest(page))[-_NAME:]
        known = self._number(here)
        if known == _ENTRY:
            known = len(self._digests) // _NAME
            self._digests += here
        gap = 0.0
        if self._steps:
            gap = min(max(at - self.latest, 0.0), _LONGEST_GAP)
            at = max(at, self.latest)
        self._steps += _STEP.pack(gap, known, number)
        self.latest = at

    def note(self) -> None:
        """One more visit beside the path. Before the first step there is nothing that it could be beside."""
        if self._steps and self.beside < _MOST_BESIDE:
            self.beside += 1

    def clear(self) -> None:
        """Begin anew."""
        self._digests = self._steps = self._led = b""
        self.latest = 0.0
        self.beside = 0

    def features(self) -> tuple[float, ...]:
        """
        The six features (`SIX`) of the steps so far; of a session of less than 60 they are those of a prefix.

        Depth and width are divided by the number of steps there are.
        """
        gaps = self._seconds()
        return self._six(gaps, _longest_run(gaps))

    def further(self) -> tuple[float, ...]:
        """
        Our own features (`FURTHER`) of the steps so far.

        gap_middle, gap_low, gap_high: median, lower and upper tenth of the seconds between steps. The rest are shares
        of the steps: pauses (new short sessions), entries (no parent known), strays (a parent that this session has
        not seen), revisits, onward (the parent is the last step's page), sideward (the parent is the last step's
        parent), beside (visits beside the path; may be above 1), longest (the length of the longest short session).
        """
        gaps = self._seconds()
        return self._more(gaps, _longest_run(gaps))

    def wide(self) -> tuple[float, ...]:
        """All features: `SIX`, then `FURTHER`."""
        gaps = self._seconds()
        longest = _longest_run(gaps)
        return self._six(gaps, longest) + self._more(gaps, longest)

    def to_bytes(self) -> bytes:
        """The session as it is kept elsewhere: less than a kilobyte."""
        head = _HEAD.pack(_VERSION, self.beside, self.size, self.latest, self._led)
        return head + self._steps + self._digests

    @classmethod
    def from_bytes(cls, kept: bytes) -> Self | None:
        """The session that was kept as *kept*, or None where that is none of ours."""
        if len(kept) < _HEAD.size:
            return None
        version, beside, size, latest, led = _HEAD.unpack_from(kept)
        digests_at = _HEAD.size + size * _STEP.size
        steps = kept[_HEAD.size : digests_at]
        numbers, parents = steps[4 :: _STEP.size], steps[5 :: _STEP.size]
        pages = max(numbers, default=-1) + 1
        if version != _VERSION or size > LONG or len(kept) != digests_at + pages * _NAME:
            return None
        if any(parent >= pages and parent != _ENTRY and parent not in _STRAYS for parent in parents):
            return None
        session = cls()
        session._led = led if parents and parents[-1] in _STRAYS else b""
        session._steps, session._digests = steps, kept[digests_at:]
        session.latest, session.beside = latest, beside
        return session

    def _number(self, digest: bytes) -> int:
        """Which page *digest* is, or `_ENTRY` where it was not visited."""
        found = self._digests.find(digest)
        while found % _NAME and found != -1:
            found = self._digests.find(digest, found + 1)
        return found // _NAME if found != -1 else _ENTRY

    def _seconds(self) -> list[float]:
        """The seconds between steps."""
        return [gap for gap, _, _ in _STEP.iter_unpack(self._steps[_STEP.size :])]

    def _six(self, gaps: Sequence[float], longest: tuple[int, int]) -> tuple[float, ...]:
        size = self.size
        if not size:
            return (0.0,) * len(SIX)
        start, end = longest
        depth, width = self._shape(0, size)
        short_depth, short_width = (depth, width) if end - start == size else self._shape(start, end)
        length = end - start
        return (
            depth / size,
            width / size,
            _variation(gaps),
            abs(depth / size - short_depth / length),
            abs(width / size - short_width / length),
            _variation(gaps[start : end - 1]),
        )

    def _more(self, gaps: Sequence[float], longest: tuple[int, int]) -> tuple[float, ...]:
        size = self.size
        if not size:
            return (0.0,) * len(FURTHER)
        numbers, parents = self._steps[4 :: _STEP.size], self._steps[5 :: _STEP.size]
        ordered = sorted(gaps) or [0.0]
        last = len(ordered) - 1
        onward = sum(parent == before for parent, before in zip(parents[1:], numbers, strict=False))
        sideward = parents.count(_SAME_STRAY) + sum(
            parent == before and parent < _SAME_STRAY for parent, before in zip(parents[1:], parents, strict=False)
        )
        return (
            ordered[(last + 1) // 2],
            ordered[last // 10],
            ordered[last - last // 10],
            sum(gap >= SHORT_GAP for gap in gaps) / size,
            parents.count(_ENTRY) / size,
            (parents.count(_STRAY) + parents.count(_SAME_STRAY)) / size,
            1 - len(self._digests) / _NAME / size,
            onward / size,
            sideward / size,
            self.beside / size,
            (longest[1] - longest[0]) / size,
        )

    def _shape(self, start: int, end: int) -> tuple[int, int]:
        """Greatest depth and width of the steps from *start* to before *end*, as if there were no others."""
        depths: dict[int, int] = {}
        widths: dict[int, int] = {}
        deepest = widest = 0
        for _, number, parent in _STEP.iter_unpack(self._steps[start * _STEP.size : end * _STEP.size]):
            depth = 0
            if parent in depths:
                depth = depths[parent] + 1
                deepest = max(deepest, depth)
                width = widths[parent] = widths.get(parent, 0) + 1
                widest = max(widest, width)
            depths[number] = depth
        return deepest, widest


def _longest_run(gaps: Sequence[float]) -> tuple[int, int]:
    """The longest short session: its first step, and the step after its last."""
    start, best = 0, (0, 1)
    for number, gap in enumerate(gaps, 1):
        if gap >= SHORT_GAP:
            start = number
        if number + 1 - start > best[1] - best[0]:
            best = (start, number + 1)
    return best


def _variation(gaps: Sequence[float]) -> float:
    """
    Variance over the square of the mean.

    >>> _variation([1.0, 3.0]), _variation([5.0]), _variation([0.0, 0.0])
    (0.25, 0.0, 0.0)
    """
    total = sum(gaps)
    if total <= 0:
        return 0.0
    mean = total / len(gaps)
    return sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2

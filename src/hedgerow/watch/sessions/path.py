"""
PathMarker's sessions and the features of a long session.

A long session is 60 consecutive page visits of one visitor. Within it, a short session is a run of visits less than 10
s apart; one that crosses the end of the long session is cut there. A visit whose parent page was visited earlier in the
session has its parent's depth + 1, and increases its parent's width by 1. Any other visit has depth 0. Inside the
longest short session, depth and width are counted afresh.

Choices that the paper leaves open: a revisited page has the depth of its latest visit and keeps its width. Among short
sessions of equal length, the first counts as the longest. Variance is that of the whole population. If there is no
interval, or all intervals are 0, the variation is 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, Literal, NamedTuple, Self

import msgspec

from hedgerow.core.visit import HIDDEN_KINDS, Visit
from hedgerow.markers.token import page_digest

LONG = 60
"""Page visits in a long session, unless set otherwise."""

SHORT_GAP = 10.0
"""Seconds between two visits from which on the second begins a new short session, unless set otherwise."""

PREFIXES = (10, 20, 30, 40, 50, 60)
"""Session lengths at which a model classifies the session, unless set otherwise."""


class PathLengths(msgspec.Struct, frozen=True):
    """The lengths of sessions: *long* pages, *short_gap* seconds, and the numbers of pages at which to classify."""

    long: int = LONG
    short_gap: float = SHORT_GAP
    judge_at: tuple[int, ...] = PREFIXES


MAX_LONG = 250
"""The largest possible long session: a page is stored by its number, in a byte."""

PATHMARKER_FEATURES = ("depth", "width", "variation", "depth_difference", "width_difference", "short_variation")
"""The names of PathMarker's features, in the paper's order."""

EXTRA_FEATURES = (
    "gap_middle", "gap_low", "gap_high", "pauses", "entries", "strays", "revisits", "onward", "sideward", "beside",
    "longest",
)  # fmt: skip
"""
Further features of our own.

gap_middle, gap_low and gap_high are the median, lower and upper tenth of the seconds between steps. The others are
shares of the steps: pauses (new short sessions), entries (no known parent), strays (a parent that this session has not
visited), revisits, onward (the parent is the page of the last step), sideward (the parent is that of the last step),
beside (side requests; may exceed 1), longest (length of the longest short session).
"""

ALL_FEATURES = PATHMARKER_FEATURES + EXTRA_FEATURES

_ENTRY, _STRAY, _SAME_STRAY = 255, 254, 253
_STRAYS = frozenset({_STRAY, _SAME_STRAY})
# Three bytes of a page's digest. In one session of 9,000, two different pages have the same bytes.
_DIGEST = 3
# A step: seconds since the previous step; number of its page, in order of first visits; number of its parent page.
_STEP = struct.Struct("<fBB")
_HEAD = struct.Struct(f"<BHBBBd{_DIGEST}s")
_VERSION = 5
_MAX_SIDE_REQUESTS = 65_535
# Of readers, see `PathSession.reader`. Chosen by hand.
_IN_SEQUENCE = 0.8
_HUMAN_PACE = 0.4
_UNHURRIED_PACE = 4.0
_PAUSE = 2.0
_MOST_AT_ONCE = 20
_MAX_GAP = 1e30
_MOSTLY = 0.8


Reader = Literal["", "brisk", "hurried", "turning", "unhurried"]
"""How a person can have taken the steps of a session, or cannot: see `PathSession.reader`."""


def find_record(records: bytes, key: bytes, width: int) -> int:
    """Return the number of the record that begins with *key*, in consecutive records of *width* bytes, or -1."""
    offset = records.find(key)
    while offset % width and offset != -1:
        offset = records.find(key, offset + 1)
    return offset // width


class Step(NamedTuple):
    """
    One page visit of a path. *parent* is None if the page that led here is unknown.

    *in_sequence*: the link there named it the next or the previous page.
    """

    at: float
    page: bytes
    parent: bytes | None
    in_sequence: bool = False


def step_of(visit: Visit, host: str = "") -> Step | None:
    """
    Return the step that *visit* takes, or None: assets, API calls, prefetches and hidden links are not part of a path.

    The parent is that of the marker. Without a marker, it is the page of this site that the referrer names. The site's
    host is that of the visit, or *host* for visits from a log that does not contain it.
    """
    marker = visit.marker
    if visit.kind != "page" or visit.prefetch or (marker is not None and marker.kind in HIDDEN_KINDS):
        return None
    if marker is not None and marker.kind != "visitor":
        return Step(visit.at, page_digest(visit.target), marker.parent, marker.kind == "sequence")
    parent = None
    _, separator, rest = visit.referrer.partition("://")
    if separator:
        referrer_host, slash, path = rest.partition("#")[0].partition("/")
        own = visit.host or host
        if own and referrer_host.lower() == own.lower():
            parent = page_digest("/" + path if slash else "/")
    return Step(visit.at, page_digest(visit.target), parent)


class PathSession(msgspec.Struct, gc=False, eq=False):
    """
    The current long session of one visitor: at most 60 steps, in less than a kilobyte. `path_sessions` changes lengths.

    A step after a full session begins the next session. Times that run backwards count as no time. Only the last time
    is stored in full; for earlier steps, the seconds between them are stored in single precision.

    >>> session = PathSession()
    >>> for at, page, parent in [(0.0, "/", None), (1.0, "/a", "/"), (3.0, "/a/1", "/a"), (4.0, "/b", "/")]:
    ...     session.add(at, page, parent)
    >>> [round(feature, 3) for feature in session.features()]
    [0.5, 0.5, 0.125, 0.0, 0.0, 0.125]
    """

    lengths: ClassVar[PathLengths] = PathLengths()
    # Bytes that are replaced at every step take less memory than growing arrays.
    _steps: bytes = b""
    _digests: bytes = b""
    # The parent of the last step, if this session has not visited it.
    _last_stray: bytes = b""
    latest: float = 0.0
    """Time of the last step; 0 if there is none."""
    side_requests: int = 0
    """Requests that are not steps: assets, API calls and prefetches."""
    in_sequence: int = 0
    """Steps by links to a next or a previous page."""
    unmarked: int = 0
    """Steps to new pages without a mark, although links to them have one."""

    @property
    def size(self) -> int:
        return len(self._steps) // _STEP.size

    @property
    def full(self) -> bool:
        return len(self._steps) >= self.lengths.long * _STEP.size

    def add(
        self,
        at: float,
        page: bytes | str,
        parent: bytes | str | None,
        in_sequence: bool = False,
        unmarked: bool = False,
    ) -> None:
        """Add a step. Pages are given as digest or as target."""
        if self.full:
            self.clear()
        self.in_sequence += in_sequence
        number, stray = _ENTRY, b""
        if parent is not None:
            stray = (parent if isinstance(parent, bytes) else page_digest(parent))[-_DIGEST:]
            number = self._number(stray)
            if number == _ENTRY:
                number = _SAME_STRAY if stray == self._last_stray else _STRAY
            else:
                stray = b""
        self._last_stray = stray
        here = (page if isinstance(page, bytes) else page_digest(page))[-_DIGEST:]
        known = self._number(here)
        if known == _ENTRY:
            known = len(self._digests) // _DIGEST
            self._digests += here
            self.unmarked += unmarked
        gap = 0.0
        if self._steps:
            gap = min(max(at - self.latest, 0.0), _MAX_GAP)
            at = max(at, self.latest)
        self._steps += _STEP.pack(gap, known, number)
        self.latest = at

    def add_side_request(self) -> None:
        """Count a request that is not a step. Requests before the first step are ignored."""
        if self._steps and self.side_requests < _MAX_SIDE_REQUESTS:
            self.side_requests += 1

    def clear(self) -> None:
        self._digests = self._steps = self._last_stray = b""
        self.latest = 0.0
        self.side_requests = self.in_sequence = self.unmarked = 0

    @property
    def is_mostly_unmarked(self) -> bool:
        """Tell whether four of five steps led to new pages without a mark: from a list, or made up."""
        return self.unmarked >= _MOSTLY * self.size > 0

    @property
    def reader(self) -> Reader:
        """
        Whether a person can have taken these steps, whatever their order is.

        "turning": four of five were by links to the next or the previous page, so their order is that of the site. Most
        took 0.4 seconds or more. "unhurried": most took four seconds or more, in which a person can choose a link.
        "brisk": most took 0.4 seconds or more. "hurried": faster, and for longer than people open tabs from a list.
        """
        if not self._steps:
            return ""
        middle = _middle([gap for gap, _, _ in _STEP.iter_unpack(self._steps[_STEP.size :])])
        if middle < _HUMAN_PACE:
            return "hurried" if self._is_hurried() else ""
        if self.in_sequence >= _IN_SEQUENCE * (self.size - 1):
            return "turning"
        return "unhurried" if middle >= _UNHURRIED_PACE else "brisk"

    def _is_hurried(self) -> bool:
        """
        Tell whether the last steps were more than people open at once, by links, and too fast to look at any.

        Steps to pages that the session knows do not count, as when a browser opens its tabs again. Neither do steps
        without a parent, such as bookmarks. A pause of two seconds ends what was opened at once.
        """
        gaps: list[float] = []
        known = 0
        for gap, number, parent in _STEP.iter_unpack(self._steps):
            if gap >= _PAUSE:
                gaps.clear()
            if number == known and parent != _ENTRY:
                gaps.append(gap)
            known = max(known, number + 1)
        return len(gaps) >= _MOST_AT_ONCE - 1 and _middle(gaps) < _HUMAN_PACE

    def features(self) -> tuple[float, ...]:
        """Return PathMarker's six features of the steps so far."""
        return self.all_features()[: len(PATHMARKER_FEATURES)]

    def all_features(self) -> tuple[float, ...]:
        """Return `ALL_FEATURES` of the steps so far. Depth and width are divided by the number of steps."""
        size = self.size
        if not size:
            return (0.0,) * len(ALL_FEATURES)
        gaps = [gap for gap, _, _ in _STEP.iter_unpack(self._steps[_STEP.size :])]
        start, end = _longest_run(gaps, self.lengths.short_gap)
        length = end - start
        depth, width = self._shape(0, size)
        short_depth, short_width = (depth, width) if length == size else self._shape(start, end)
        numbers, parents = self._steps[4 :: _STEP.size], self._steps[5 :: _STEP.size]
        ordered = sorted(gaps) or [0.0]
        last = len(ordered) - 1
        onward = sum(parent == before for parent, before in zip(parents[1:], numbers, strict=False))
        sideward = parents.count(_SAME_STRAY) + sum(
            parent == before and parent < _SAME_STRAY for parent, before in zip(parents[1:], parents, strict=False)
        )
        return (
            depth / size,
            width / size,
            _variation(gaps),
            abs(depth / size - short_depth / length),
            abs(width / size - short_width / length),
            _variation(gaps[start : end - 1]),
            ordered[(last + 1) // 2],
            ordered[last // 10],
            ordered[last - last // 10],
            sum(gap >= self.lengths.short_gap for gap in gaps) / size,
            parents.count(_ENTRY) / size,
            (parents.count(_STRAY) + parents.count(_SAME_STRAY)) / size,
            1 - len(self._digests) / _DIGEST / size,
            onward / size,
            sideward / size,
            self.side_requests / size,
            length / size,
        )

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(
            _VERSION, self.side_requests, self.size, self.in_sequence, self.unmarked, self.latest, self._last_stray
        )  # fmt: skip
        return head + self._steps + self._digests

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """Return the session in *data*, or None if *data* is not a valid session."""
        if len(data) < _HEAD.size:
            return None
        version, side_requests, size, in_sequence, unmarked, latest, last_stray = _HEAD.unpack_from(data)
        digests_at = _HEAD.size + size * _STEP.size
        steps = data[_HEAD.size : digests_at]
        numbers, parents = steps[4 :: _STEP.size], steps[5 :: _STEP.size]
        pages = max(numbers, default=-1) + 1
        if version != _VERSION or size > cls.lengths.long or len(data) != digests_at + pages * _DIGEST:
            return None
        if any(parent >= pages and parent != _ENTRY and parent not in _STRAYS for parent in parents):
            return None
        session = cls()
        session._last_stray = last_stray if parents and parents[-1] in _STRAYS else b""
        session._steps, session._digests = steps, data[digests_at:]
        session.latest, session.side_requests = latest, side_requests
        session.in_sequence, session.unmarked = in_sequence, unmarked
        return session

    def _number(self, digest: bytes) -> int:
        """Return the number of the page with *digest*, or `_ENTRY` if it was not visited."""
        number = find_record(self._digests, digest, _DIGEST)
        return number if number >= 0 else _ENTRY

    def _shape(self, start: int, end: int) -> tuple[int, int]:
        """Return the greatest depth and width of the steps from *start* to before *end*, taken on their own."""
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


@cache
def path_sessions(lengths: PathLengths) -> type[PathSession]:
    """Return the class of sessions with *lengths*: as an attribute of each session they would take memory."""
    if lengths == PathSession.lengths:
        return PathSession

    class OtherPathSession(PathSession, gc=False, eq=False):
        lengths: ClassVar[PathLengths]

    OtherPathSession.lengths = lengths
    return OtherPathSession


def _longest_run(gaps: Sequence[float], short_gap: float) -> tuple[int, int]:
    """Return the longest short session: the index of its first step, and the index after its last."""
    start, best = 0, (0, 1)
    for number, gap in enumerate(gaps, 1):
        if gap >= short_gap:
            start = number
        if number + 1 - start > best[1] - best[0]:
            best = (start, number + 1)
    return best


def _middle(gaps: Sequence[float]) -> float:
    """Return the median of *gaps*, the upper one of two; 0 if there is none."""
    return sorted(gaps)[len(gaps) // 2] if gaps else 0.0


def _variation(gaps: Sequence[float]) -> float:
    """
    Return the variance divided by the square of the mean.

    >>> _variation([1.0, 3.0]), _variation([5.0]), _variation([0.0, 0.0])
    (0.25, 0.0, 0.0)
    """
    total = sum(gaps)
    if total <= 0:
        return 0.0
    mean = total / len(gaps)
    return sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2

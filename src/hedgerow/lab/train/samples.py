"""Training samples: the features of sessions at each length, from simulated and recorded walks or from visits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

from hedgerow.core.visit import Visit
from hedgerow.watch.sessions.path import LONG, PathLengths, PathSession, path_sessions, step_of
from hedgerow.watch.sessions.window import (
    Access,
    Agent,
    Referrer,
    SessionWindow,
    WindowLengths,
    access_of,
    session_windows,
)

PATH_LENGTHS, WINDOW_LENGTHS = PathLengths(), WindowLengths()
PERSON = "person"
LOG = "log"
"""The source of samples from a site's own log."""


class Stride(NamedTuple):
    """One page view: its time, page, parent page, and the number of side requests (assets) that came with it."""

    at: float
    page: int
    parent: int | None
    side_requests: int = 0


class Walk(NamedTuple):
    """All strides of one visitor. *label* is its true identity, *source* the walker or log that it is from."""

    visitor: str
    label: str
    source: str
    site: str
    strides: tuple[Stride, ...]

    def sessions(self, long: int = LONG) -> list[list[Stride]]:
        """Return the strides of each long session; the last one may be shorter."""
        return [list(self.strides[n : n + long]) for n in range(0, len(self.strides), long)]


def digest(page: int) -> bytes:
    return page.to_bytes(6, "big", signed=True)


def add_stride(session: PathSession, stride: Stride) -> None:
    parent = None if stride.parent is None else digest(stride.parent)
    session.add(stride.at, digest(stride.page), parent)
    for _ in range(stride.side_requests):
        session.add_side_request()


class Sample(NamedTuple):
    """The features of a session at *size* visits, and its visitor's identity. *number* counts long sessions from 0."""

    visitor: str
    label: str
    source: str
    site: str
    number: int
    size: int
    features: tuple[float, ...]


def samples_of(
    walk: Walk, sizes: tuple[int, ...] | None = None, lengths: PathLengths = PATH_LENGTHS
) -> Iterator[Sample]:
    """Yield the samples of one walk: all its long sessions, at each of *sizes*, or where sessions are judged."""
    new_session, sizes = path_sessions(lengths), sizes or lengths.judge_at
    for number, strides in enumerate(walk.sessions(lengths.long)):
        session = new_session()
        for stride in strides:
            add_stride(session, stride)
            if session.size in sizes:
                yield Sample(*walk[:4], number, session.size, session.all_features())


def windows_of(walks: Iterable[Walk], rng: Random, lengths: WindowLengths = WINDOW_LENGTHS) -> list[Sample]:
    """
    Return the samples for the window of 27 to 40 visits: of the first long session of each walk, at 27 and at 54 pages.

    A window that has just begun differs from one that has slid, and a model must know both. Properties that a walk does
    not contain are drawn. Half of the sites set cookies; nine of ten people keep theirs, and four of ten crawlers. Half
    of the crawlers send no referrer, or that of a search engine on every page. One visitor in fifty changes between two
    addresses. One crawler in fifty, and one person in a thousand, sends a cookie that the site did not make. The user
    agent is a browser's, except for three crawlers in ten and one person in a hundred.
    """
    last = 2 * lengths.least
    return [row for walk in walks for pages, row in windows_along(walk, rng, lengths) if pages <= last]


def windows_along(walk: Walk, rng: Random, lengths: WindowLengths = WINDOW_LENGTHS) -> Iterator[tuple[int, Sample]]:
    """Yield the samples of a walk for the window, each with the number of pages so far; see `windows_of`."""
    window = session_windows(lengths)()
    number = 0
    for pages, access in enumerate(_accesses(walk, rng), 1):
        window.add(access)
        if window.is_due:
            window.fresh = 0
            yield pages, Sample(*walk[:4], number, window.size, window.features())
            number += 1


def _accesses(walk: Walk, rng: Random) -> Iterator[Access]:
    person = walk.label == PERSON
    keeps_cookies = rng.random() < 0.5 and rng.random() < (0.9 if person else 0.4)  # noqa: PLR2004 - shares
    has_second_address = rng.random() < 0.02  # noqa: PLR2004 - likewise
    has_wrong_cookie = rng.random() < (0.001 if person else 0.02)
    address = 1
    # Some crawlers name a search engine on every page, to look like readers.
    referrer: Referrer = "own" if person else rng.choices(("own", "absent", "foreign"), (45, 45, 10))[0]
    is_unusual = rng.random() < (0.01 if person else 0.3)
    agent: Agent = rng.choice(("absent", "unknown", "unknown", "false")) if is_unusual else "browser"
    for stride in walk.strides:
        cookie = b"cookie" if keeps_cookies and stride is not walk.strides[0] else b""
        is_entry = stride.parent is None
        is_foreign = person and is_entry and rng.random() < 0.5  # noqa: PLR2004 - a share
        if has_second_address and rng.random() < 0.1:  # noqa: PLR2004 - a share
            address = 3 - address
        parent = None if stride.parent is None else digest(stride.parent)
        yield Access(
            stride.at, f"192.0.2.{address}", cookie or b"address", digest(stride.page), parent,
            "foreign" if is_foreign else "absent" if is_entry and referrer == "own" else referrer,
            cookie, "wrong" if has_wrong_cookie else "good" if cookie else "absent", agent,
        )  # fmt: skip


def visits_to_samples(
    visits: Iterable[Visit], label_of: Callable[[Visit], str], *, host: str = "", lengths: PathLengths = PATH_LENGTHS
) -> list[Sample]:
    """Return the samples of a log or ledger. A visit for which *label_of* returns "" is skipped."""
    sessions: dict[str, PathSession] = defaultdict(path_sessions(lengths))
    numbers: Counter[str] = Counter()
    samples = []
    for visit in visits:
        visitor, label = visit.visitor, label_of(visit)
        if not label:
            continue
        session, step = sessions[visitor], step_of(visit, host)
        if step is None:
            session.add_side_request()
            continue
        numbers[visitor] += session.full
        session.add(*step)
        if session.size in lengths.judge_at:
            features = session.all_features()
            samples.append(Sample(visitor, label, LOG, LOG, numbers[visitor], session.size, features))
    return samples


def visits_to_windows(
    visits: Iterable[Visit],
    label_of: Callable[[Visit], str],
    *,
    host: str = "",
    lengths: WindowLengths = WINDOW_LENGTHS,
) -> list[Sample]:
    """Return the samples for the window model: one whenever 27 pages have come, as in the watch."""
    windows: dict[str, SessionWindow] = defaultdict(session_windows(lengths))
    numbers: Counter[str] = Counter()
    samples = []
    for visit in visits:
        visitor, step = visit.visitor, step_of(visit, host)
        if step is None:
            continue
        window = windows[visitor]
        window.add(access_of(visit, step, host))
        if window.is_due:
            window.fresh = 0
            number, features = numbers[visitor], window.features()
            samples.append(Sample(visitor, label_of(visit), LOG, LOG, number, lengths.least, features))
            numbers[visitor] += 1
    return samples

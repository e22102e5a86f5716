"""
Window: the last 27 to 40 visits of one visitor, and their features (Liu et al., "sliding time window").

Up to 27 visits the window just grows. From then on a new visit makes it longer if two of three hold: it is of the same
session as the last one; it comes sooner than the window's mean interval; its referrer joins the forest of referrers
without changing the number of trees. Else the window slides: the oldest visit leaves. At 40 it only slides.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

from hedgerow.marker.seal import page_digest, visitor_digest
from hedgerow.recall import CLEARANCE
from hedgerow.visit import Visit

LEAST, MOST = 27, 40
SESSION_GAP = 1800.0
"""Seconds without a visit after which a visitor without an account is in a new session."""

_ENOUGH = 2

Cookie = Literal["absent", "wrong", "good"]
Referrer = Literal["absent", "foreign", "own"]
Agent = Literal["absent", "unknown", "browser", "false", "true"]
"""
What the user agent declares: nothing, a crawler that nobody knows, no crawler at all, a known crawler from a wrong
address, a known crawler from its own.
"""

NAMES = (
    "length",
    "cookie_absent",
    "cookie_wrong",
    "cookie_good",
    "cookies",
    "sessions",
    "session_shared",
    "session_most",
    "gap_most",
    "gap_middle",
    "gap_variance",
    "referrer_absent",
    "referrer_foreign",
    "referrer_own",
    "agent_absent",
    "agent_unknown",
    "agent_false",
    "agent_true",
)
"""The features, in this order. What a visit may or may not have is a share of the window's visits."""


class Access(NamedTuple):
    """One visit, as the window sees it. *cookie* names the cookie, and is empty where there is none."""

    at: float
    address: str
    session: bytes
    page: bytes
    referrer: bytes | None
    referred: Referrer
    cookie: bytes
    cookie_state: Cookie
    agent: Agent


def access_of(visit: Visit, host: str = "") -> Access:
    """
    What the window is told of *visit*. *host* is the site's, where the visit does not name it.

    A session is an account's or a clearance's, else that of an address with one user agent. A visit carries no
    cookies: a cookie of ours shows in who the visitor is held to be, or was before. One that fails its check is never
    told from one that is absent.
    """
    own = visit.host or host
    _, separator, rest = visit.referrer.partition("://")
    place, slash, path = rest.partition("#")[0].partition("/")
    parent: bytes | None = None
    referred: Referrer = "absent"
    if separator:
        referred = "own" if own and place.lower() == own.lower() else "foreign"
        parent = page_digest("/" + path if slash else "/") if referred == "own" else None
    if visit.marker is not None and visit.marker.kind in {"page", "form", "frame"}:
        parent = visit.marker.parent
    known = bool(visit.account) or visit.visitor.startswith(CLEARANCE)
    cookie = visitor_digest(visit.visitor) if known else visit.linked[0] if visit.linked else b""
    session = cookie or visitor_digest(f"{visit.prefix} {visit.user_agent}")
    state: Cookie = "good" if cookie else "absent"
    page = page_digest(visit.target)
    return Access(visit.at, visit.address, session, page, parent, referred, cookie, state, _agent(visit))


def _agent(visit: Visit) -> Agent:
    if visit.bot or visit.proof == "verified":
        return "true"
    if visit.proof == "false":
        return "false"
    if not visit.user_agent:
        return "absent"
    return "unknown" if visit.claim or "program" in visit.signs else "browser"


class Window:
    """
    The last visits of one visitor.

    >>> window = Window()
    >>> page = Access(0.0, "192.0.2.1", b"s", b"/", None, "absent", b"", "absent", "browser")
    >>> for number in range(30):
    ...     window.add(page._replace(at=float(number)))
    >>> window.size
    30
    """

    __slots__ = ("_visits",)

    def __init__(self) -> None:
        self._visits: deque[Access] = deque(maxlen=MOST)

    @property
    def size(self) -> int:
        return len(self._visits)

    @property
    def ready(self) -> bool:
        """Whether there are as many visits as a judgement needs."""
        return len(self._visits) >= LEAST

    def add(self, access: Access) -> None:
        """One more visit: the window grows, or slides."""
        visits = self._visits
        if len(visits) >= LEAST and not (len(visits) < MOST and self._joins(access)):
            visits.popleft()
        visits.append(access)

    def features(self) -> tuple[float, ...]:
        """The features (`NAMES`) of the visits in the window."""
        visits = self._visits
        size = len(visits)
        if not size:
            return (0.0,) * len(NAMES)
        cookies = Counter(visit.cookie_state for visit in visits)
        referrers = Counter(visit.referred for visit in visits)
        agents = Counter(visit.agent for visit in visits)
        sessions = list(_sessions(visits))
        addresses: dict[tuple[bytes, int], set[str]] = {}
        for session, visit in zip(sessions, visits, strict=True):
            addresses.setdefault(session, set()).add(visit.address)
        gaps = self._gaps() or [0.0]
        mean = sum(gaps) / len(gaps)
        return (
            float(size),
            cookies["absent"] / size,
            cookies["wrong"] / size,
            cookies["good"] / size,
            float(len({visit.cookie for visit in visits if visit.cookie})),
            float(len(addresses)),
            float(any(len(places) > 1 for places in addresses.values())),
            float(max(Counter(sessions).values())),
            max(gaps),
            _median(gaps),
            sum((gap - mean) ** 2 for gap in gaps) / len(gaps),
            referrers["absent"] / size,
            referrers["foreign"] / size,
            referrers["own"] / size,
            agents["absent"] / size,
            agents["unknown"] / size,
            agents["false"] / size,
            agents["true"] / size,
        )

    def _gaps(self) -> list[float]:
        times = [visit.at for visit in self._visits]
        return [max(after - before, 0.0) for before, after in pairwise(times)]

    def _joins(self, access: Access) -> bool:
        last = self._visits[-1]
        gap = access.at - last.at
        gaps = self._gaps()
        same = access.session == last.session and gap < SESSION_GAP
        soon = gap < sum(gaps) / len(gaps)
        return same + soon + (trees([*self._visits, access]) == trees(self._visits)) >= _ENOUGH


def trees(visits: Iterable[Access]) -> int:
    """
    How many trees the referrers of *visits* make: pages that are not linked, by any chain of referrers.

    >>> def visit(page, parent): return Access(0.0, "", b"", page, parent, "own", b"", "good", "browser")
    >>> trees([visit(b"a", None), visit(b"b", b"a"), visit(b"c", None), visit(b"d", b"b")])
    2
    """
    roots: dict[bytes, bytes] = {}

    def root(page: bytes) -> bytes:
        while (above := roots.setdefault(page, page)) != page:
            page = above
        return page

    for visit in visits:
        here = root(visit.page)
        if visit.referrer is not None:
            roots[here] = root(visit.referrer)
    return sum(page == above for page, above in roots.items())


def _sessions(visits: Iterable[Access]) -> Iterable[tuple[bytes, int]]:
    """The session of each visit: a name, and how many long silences it had before."""
    seen: dict[bytes, tuple[float, int]] = {}
    for visit in visits:
        latest, number = seen.get(visit.session, (visit.at, 0))
        if visit.at - latest >= SESSION_GAP:
            number += 1
        seen[visit.session] = (visit.at, number)
        yield visit.session, number


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

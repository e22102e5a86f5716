"""
Window: the last 27 to 40 visits of one visitor, and their features (Liu et al., "sliding time window").

Up to 27 visits the window just grows. From then on a new visit makes it longer if two of three hold: it is of the same
session as the last one; it comes sooner than the window's mean interval; its referrer joins the forest of referrers
without changing the number of trees. Else the window slides: the oldest visit leaves. At 40 it only slides.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, Self, get_args
from zlib import crc32

import msgspec

from hedgerow.core.state import CLEARANCE
from hedgerow.core.visit import Visit
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.sessions.path import Step

LEAST, MOST = 27, 40
SESSION_GAP = 1800.0
"""Seconds without a visit after which a visitor without an account is in a new session."""

Cookie = Literal["absent", "wrong", "good"]
Referrer = Literal["absent", "foreign", "own"]
Agent = Literal["absent", "unknown", "browser", "false", "true"]
"""
What the user agent declares: nothing, a crawler that nobody knows, no crawler at all, a known crawler from a wrong
address, a known crawler from its own.
"""

_COOKIES: tuple[Cookie, ...] = get_args(Cookie)
_REFERRERS: tuple[Referrer, ...] = get_args(Referrer)
_AGENTS: tuple[Agent, ...] = get_args(Agent)
# In the order of their features; a browser is the rule, and none.
_COUNTED_AGENTS = [_AGENTS.index(agent) for agent in ("absent", "unknown", "false", "true")]
_COOKIE_BITS, _HAS_COOKIE, _AGENT_AT = 3, 4, 3
_REFERRER_BITS, _HAS_PARENT, _GUISE_AT = 3, 4, 3
# Two bytes for a page: in one window of 80 two of its pages are taken for one, when trees are counted.
_NAME, _PAGE, _SHORT = 4, 2, 2
_MOST_GUISES = 16
_LONGEST_KEPT = 500
# Of a visit: the seconds before it, page, parent, and referrer and guise in one. Of a guise: session, address, cookie,
# states.
_VISIT = struct.Struct(f"<f{_PAGE}s{_PAGE}sB")
_GAP = struct.Struct("<f")
_GUISE = struct.Struct(f"<{_NAME}s{_SHORT}s{_SHORT}sB")
_HEAD = struct.Struct("<BBBd")
_VERSION = 2
_LONGEST_GAP = 1e30

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


def access_of(visit: Visit, step: Step, host: str = "") -> Access:
    """
    What the window is told of *visit*, which takes *step*. *host* is the site's, where the visit does not name it.

    A session is an account's or a clearance's, else that of an address with one user agent. A visit carries no
    cookies: a cookie of ours shows in who the visitor is held to be, or was before. One that fails its check is never
    told from one that is absent.
    """
    referred: Referrer = "absent"
    _, separator, rest = visit.referrer.partition("://")
    if separator:
        own = visit.host or host
        referred = "own" if own and rest.partition("#")[0].partition("/")[0].lower() == own.lower() else "foreign"
    known = bool(visit.account) or visit.visitor.startswith(CLEARANCE)
    cookie = visitor_digest(visit.visitor) if known else visit.linked[0] if visit.linked else b""
    session = cookie
    if not session:
        # A memory whose entries are as long as a client likes has no bound.
        session_of = _kept_session if len(visit.user_agent) <= _LONGEST_KEPT else _session
        session = session_of(visit.prefix, visit.user_agent)
    state: Cookie = "good" if cookie else "absent"
    return Access(visit.at, visit.address, session, step.page, step.parent, referred, cookie, state, _agent(visit))


def _agent(visit: Visit) -> Agent:
    if visit.bot or visit.proof == "verified":
        return "true"
    if visit.proof == "false":
        return "false"
    if not visit.user_agent:
        return "absent"
    return "unknown" if visit.claim or "program" in visit.anomalies else "browser"


class SessionWindow(msgspec.Struct, gc=False, eq=False):
    """
    The last visits of one visitor, in 700 bytes at the most: names are kept as a few bytes of them.

    >>> window = Window()
    >>> page = Access(0.0, "192.0.2.1", b"s", b"/", None, "absent", b"", "absent", "browser")
    >>> for number in range(30):
    ...     window.add(page._replace(at=float(number)))
    >>> window.size, window.is_due
    (30, True)
    """

    # One record for each visit, and one for each guise in which the visitor came.
    _visits: bytes = b""
    _guises: bytes = b""
    # The seconds from the first visit to the last, as they are kept.
    _total: float = 0.0
    latest: float = 0.0
    """When the last visit was."""
    fresh: int = 0
    """Visits since the last judgement."""

    @property
    def size(self) -> int:
        return len(self._visits) // _VISIT.size

    @property
    def ready(self) -> bool:
        """Whether there are as many visits as a judgement needs."""
        return len(self._visits) >= LEAST * _VISIT.size

    @property
    def is_due(self) -> bool:
        """Whether it is time for a judgement: at 27 visits, and again when 27 others have come."""
        return self.fresh >= LEAST

    def add(self, access: Access) -> None:
        """One more visit: the window grows, or slides."""
        size = len(self._visits) // _VISIT.size
        gap = max(access.at - self.latest, 0.0) if size else 0.0
        guise = self._guise(access)
        page = access.page[-_PAGE:].ljust(_PAGE, b"\0")
        how, parent = _REFERRERS.index(access.referred), None
        if access.referrer is not None:
            how, parent = how | _HAS_PARENT, access.referrer[-_PAGE:].ljust(_PAGE, b"\0")
        visit = _VISIT.pack(min(gap, _LONGEST_GAP), page, parent or b"", how | guise << _GUISE_AT)
        if size >= LEAST and not (size < MOST and self._joins(gap, guise, page, parent)):
            self._visits = self._visits[_VISIT.size :] + visit
            # Nothing is between the first visit and one before it.
            self._total -= _GAP.unpack_from(self._visits)[0]
        else:
            self._visits += visit
        self._total += _GAP.unpack(visit[: _GAP.size])[0] if size else 0.0
        self.latest = max(access.at, self.latest) if size else access.at
        self.fresh = min(self.fresh + 1, LEAST)

    def features(self) -> tuple[float, ...]:
        """The features (`NAMES`) of the visits in the window."""
        visits = list(_VISIT.iter_unpack(self._visits))
        size = len(visits)
        if not size:
            return (0.0,) * len(NAMES)
        all_gaps, _, _, hows = zip(*visits, strict=True)
        numbers = [how >> _GUISE_AT for how in hows]
        gaps = all_gaps[1:] or (0.0,)
        mean = sum(gaps) / len(gaps)
        cookies, referrers, agents = [0] * len(_COOKIES), [0] * len(_REFERRERS), [0] * len(_AGENTS)
        named: set[bytes] = set()
        # Few guises, with many visits in each.
        guises = {number: _GUISE.unpack_from(self._guises, number * _GUISE.size) for number in set(numbers)}
        for number, (_, _, cookie, states) in guises.items():
            count = numbers.count(number)
            cookies[states & _COOKIE_BITS] += count
            agents[states >> _AGENT_AT] += count
            if states & _HAS_COOKIE:
                named.add(cookie)
        for how in set(hows):
            referrers[how & _REFERRER_BITS] += hows.count(how)
        sessions = _sessions((0.0, *gaps), [guises[number][0] for number in numbers])
        places = {(session, guises[number][1]) for session, number in zip(sessions, numbers, strict=False)}
        counts = Counter(sessions)
        return (
            float(size),
            *[count / size for count in cookies],
            float(len(named)),
            float(len(counts)),
            # One of them came from several addresses.
            float(len(places) > len(counts)),
            float(max(counts.values())),
            max(gaps),
            _median(gaps),
            sum([(gap - mean) ** 2 for gap in gaps]) / len(gaps),
            *[count / size for count in referrers],
            *[agents[number] / size for number in _COUNTED_AGENTS],
        )

    def to_bytes(self) -> bytes:
        """The window as it is kept elsewhere."""
        head = _HEAD.pack(_VERSION, self.fresh, len(self._guises) // _GUISE.size, self.latest)
        return head + self._guises + self._visits

    @classmethod
    def from_bytes(cls, kept: bytes) -> Self | None:
        """The window that was kept as *kept*, or None where that is none of ours."""
        if len(kept) < _HEAD.size:
            return None
        version, fresh, guises, latest = _HEAD.unpack_from(kept)
        visits_at = _HEAD.size + guises * _GUISE.size
        visits = kept[visits_at:]
        if version != _VERSION or len(kept) < visits_at or len(visits) % _VISIT.size or fresh > LEAST:
            return None
        if len(visits) > MOST * _VISIT.size:
            return None
        if any(
            how >> _GUISE_AT >= guises or how & _REFERRER_BITS == _REFERRER_BITS
            for *_, how in _VISIT.iter_unpack(visits)
        ):
            return None
        window = cls()
        window._guises, window._visits = kept[_HEAD.size : visits_at], visits
        if any(
            states & _COOKIE_BITS >= len(_COOKIES) or states >> _AGENT_AT >= len(_AGENTS)
            for *_, states in _GUISE.iter_unpack(window._guises)
        ):
            return None
        window.fresh, window.latest = fresh, latest
        window._total = sum([gap for gap, *_ in _VISIT.iter_unpack(visits)][1:])
        return window

    def _guise(self, access: Access) -> int:
        """The number of the guise in which a visitor comes: session, address, cookie and user agent."""
        guise = _packed(access.session, access.address, access.cookie, access.cookie_state, access.agent)
        found = _find(self._guises, guise)
        if found < 0:
            if len(self._guises) >= _MOST_GUISES * _GUISE.size:
                self._forget_guises()
            found = len(self._guises) // _GUISE.size
            if found >= _MOST_GUISES:
                # More is not told apart: who comes in sixteen guises is conspicuous enough.
                return found - 1
            self._guises += guise
        return found

    def _forget_guises(self) -> None:
        """Keep those guises only in which the visits of the window came."""
        visits = list(_VISIT.iter_unpack(self._visits))
        used = dict.fromkeys(visit[3] >> _GUISE_AT for visit in visits)
        numbers = {guise: number for number, guise in enumerate(used)}
        width = _GUISE.size
        self._guises = b"".join(self._guises[guise * width : (guise + 1) * width] for guise in numbers)
        self._visits = b"".join(
            _VISIT.pack(*visit[:3], visit[3] & (1 << _GUISE_AT) - 1 | numbers[visit[3] >> _GUISE_AT] << _GUISE_AT)
            for visit in visits
        )

    def _joins(self, gap: float, guise: int, page: bytes, parent: bytes | None) -> bool:
        """Whether a visit makes the window longer: two of three."""
        width = _GUISE.size
        last, here = (self._visits[-1] >> _GUISE_AT) * width, guise * width
        same = gap < SESSION_GAP and self._guises[last : last + _NAME] == self._guises[here : here + _NAME]
        soon = gap < self._total / (len(self._visits) // _VISIT.size - 1)
        if same == soon:
            # The forest of referrers decides only where the other two do not agree.
            return same
        visits = _VISIT.iter_unpack(self._visits)
        edges = [(visit[1], visit[2] if visit[3] & _HAS_PARENT else None) for visit in visits]
        return not changes_trees(edges, page, parent)


@lru_cache(maxsize=1 << 12)
def _packed(session: bytes, address: str, cookie: bytes, cookie_state: Cookie, agent: Agent) -> bytes:
    states = _COOKIES.index(cookie_state) | _AGENTS.index(agent) << _AGENT_AT
    return _GUISE.pack(
        session[-_NAME:], _short(address)[-_SHORT:], cookie[-_SHORT:], states | (_HAS_COOKIE if cookie else 0)
    )


def _session(prefix: str, user_agent: str) -> bytes:
    """What tells the sessions of visitors without an account or a cookie apart."""
    return _short(f"{prefix} {user_agent}")


_kept_session = lru_cache(maxsize=1 << 12)(_session)


def _find(records: bytes, record: bytes) -> int:
    """Which of the records, all of one length, is *record*; -1 where none is."""
    found = records.find(record)
    while found % len(record) and found != -1:
        found = records.find(record, found + 1)
    return found // len(record) if found != -1 else -1


def _short(name: str) -> bytes:
    """A few bytes that stand for a name."""
    return crc32(name.encode("utf-8", "surrogateescape")).to_bytes(_NAME, "big")


def changes_trees(edges: Sequence[tuple[bytes, bytes | None]], page: bytes, parent: bytes | None) -> bool:
    """
    Whether a visit to *page*, led to by *parent*, changes how many trees pages and their referrers make.

    A tree is all pages that are linked by any chain of referrers. A page that is new and led to by none that is known
    is a tree more; one that links two trees makes them one.

    >>> forest = [(b"a", None), (b"b", b"a"), (b"c", None)]
    >>> changes_trees(forest, b"d", b"b"), changes_trees(forest, b"d", None), changes_trees(forest, b"c", b"b")
    (False, True, True)
    """
    known = {one for edge in edges for one in edge}
    if parent is None:
        return page not in known
    if page not in known or parent not in known:
        return page not in known and parent not in known
    roots: dict[bytes, bytes] = {}

    def root(one: bytes) -> bytes:
        while (above := roots.get(one, one)) != one:
            one = above
        return one

    for one, referrer in edges:
        if referrer is not None:
            roots[root(one)] = root(referrer)
    return root(page) != root(parent)


def _sessions(gaps: Sequence[float], names: Sequence[bytes]) -> Sequence[object]:
    """What tells the session of each visit: its name, and how many long silences that had before."""
    if sum(gaps) < SESSION_GAP:
        return names
    found: list[object] = []
    seen: dict[bytes, tuple[float, int]] = {}
    at = 0.0
    for gap, name in zip(gaps, names, strict=False):
        at += gap
        latest, number = seen.get(name, (at, 0))
        if at - latest >= SESSION_GAP:
            number += 1
        seen[name] = (at, number)
        found.append((name, number))
    return found


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

"""
The last 27 to 40 visits of one visitor, and their features (Liu et al., "sliding time window").

The window grows up to 27 visits. After that, a new visit extends it if two of three conditions hold: it belongs to the
same session as the last visit; it comes sooner than the mean interval of the window; its referrer joins the forest of
referrers without changing the number of trees. Otherwise the window slides, and the oldest visit leaves. At 40 visits
it only slides.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from statistics import median
from typing import ClassVar, Literal, NamedTuple, Self, get_args
from zlib import crc32

import msgspec

from hedgerow.core.state import CLEARANCE
from hedgerow.core.visit import WRONG_COOKIE, Visit
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.sessions.path import Step, find_record

MIN_WINDOW, MAX_WINDOW = 27, 40
"""The numbers of visits of a window, unless set otherwise."""


class WindowLengths(msgspec.Struct, frozen=True):
    """The least and the greatest number of visits of a window."""

    least: int = MIN_WINDOW
    most: int = MAX_WINDOW


SESSION_GAP = 1800.0
"""Seconds without a visit after which a visitor without an account begins a new session."""

Cookie = Literal["absent", "wrong", "good"]
Referrer = Literal["absent", "foreign", "own"]
Agent = Literal["absent", "unknown", "browser", "false", "true"]
"""
What the user agent declares: nothing, an unknown crawler, a browser, a known crawler from a wrong address ("false"),
or a known crawler from its own address ("true").
"""

_WRONG_COOKIES = frozenset({WRONG_COOKIE, "clearance-shared"})
_COOKIES: tuple[Cookie, ...] = get_args(Cookie)
_REFERRERS: tuple[Referrer, ...] = get_args(Referrer)
_AGENTS: tuple[Agent, ...] = get_args(Agent)
# In the order of the features. A browser is the normal case, and has no feature.
_COUNTED_AGENTS = [_AGENTS.index(agent) for agent in ("absent", "unknown", "false", "true")]
_COOKIE_BITS, _HAS_COOKIE, _AGENT_AT = 3, 4, 3
_REFERRER_BITS, _HAS_PARENT, _CLIENT_AT = 3, 4, 3
# Two bytes of a page's digest. In one window of 80, two different pages have the same bytes when trees are counted.
_NAME, _PAGE, _SHORT = 4, 2, 2
_MAX_CLIENTS = 16
_MAX_CACHED_AGENT = 500
# A visit: seconds since the previous one, page, parent, and one byte for referrer and client. A client is a combination
# of session, address, cookie and states under which the visitor came.
_VISIT = struct.Struct(f"<f{_PAGE}s{_PAGE}sB")
_GAP = struct.Struct("<f")
_CLIENT = struct.Struct(f"<{_NAME}s{_SHORT}s{_SHORT}sB")
_HEAD = struct.Struct("<BBBd")
_VERSION = 2
_MAX_GAP = 1e30

WINDOW_FEATURES = (
    "length", "cookie_absent", "cookie_wrong", "cookie_good", "cookies", "sessions", "session_shared", "session_most",
    "gap_most", "gap_middle", "gap_variance", "referrer_absent", "referrer_foreign", "referrer_own", "agent_absent",
    "agent_unknown", "agent_false", "agent_true",
)  # fmt: skip
"""The features, in this order. A property that a visit may or may not have is a share of the visits."""


class Access(NamedTuple):
    """The data of one visit that the window uses. *cookie* identifies the cookie, and is empty without one."""

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
    Return the `Access` of *visit*, which takes *step*. *host* is that of the site, for visits that do not name it.

    A session belongs to an account or a clearance, otherwise to an address with one user agent. A visit carries no
    cookies: our cookie shows in the visitor's identity, now or before. A cookie is wrong if we did not make it, or if a
    clearance is used from several networks at once.
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
        # A cache of strings whose length the client chooses would have no bound.
        session_of = _cached_session if len(visit.user_agent) <= _MAX_CACHED_AGENT else _session
        session = session_of(visit.prefix, visit.user_agent)
    wrong = visit.anomalies and not _WRONG_COOKIES.isdisjoint(visit.anomalies)
    state: Cookie = "wrong" if wrong else "good" if cookie else "absent"
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
    The last visits of one visitor, in at most 700 bytes: names are stored as a few bytes of their digest.

    `session_windows` changes the lengths.

    >>> window = SessionWindow()
    >>> page = Access(0.0, "192.0.2.1", b"s", b"/", None, "absent", b"", "absent", "browser")
    >>> for number in range(30):
    ...     window.add(page._replace(at=float(number)))
    >>> window.size, window.is_due
    (30, True)
    """

    lengths: ClassVar[WindowLengths] = WindowLengths()
    # One record for each visit, and one for each client under which the visitor came.
    _visits: bytes = b""
    _clients: bytes = b""
    # Seconds from the first visit to the last.
    _total: float = 0.0
    latest: float = 0.0
    """Time of the last visit."""
    fresh: int = 0
    """Visits since the last classification."""

    @property
    def size(self) -> int:
        return len(self._visits) // _VISIT.size

    @property
    def ready(self) -> bool:
        return len(self._visits) >= self.lengths.least * _VISIT.size

    @property
    def is_due(self) -> bool:
        """Whether to classify the window: at 27 visits, and again after 27 others."""
        return self.fresh >= self.lengths.least

    def add(self, access: Access) -> None:
        size = len(self._visits) // _VISIT.size
        gap = max(access.at - self.latest, 0.0) if size else 0.0
        client = self._client_number(access)
        page = access.page[-_PAGE:].ljust(_PAGE, b"\0")
        referrer_state, parent = _REFERRERS.index(access.referred), None
        if access.referrer is not None:
            referrer_state, parent = referrer_state | _HAS_PARENT, access.referrer[-_PAGE:].ljust(_PAGE, b"\0")
        visit = _VISIT.pack(min(gap, _MAX_GAP), page, parent or b"", referrer_state | client << _CLIENT_AT)
        if size >= self.lengths.least and not (size < self.lengths.most and self._joins(gap, client, page, parent)):
            self._visits = self._visits[_VISIT.size :] + visit
            # The first visit has no interval before it.
            self._total -= _GAP.unpack_from(self._visits)[0]
        else:
            self._visits += visit
        self._total += _GAP.unpack(visit[: _GAP.size])[0] if size else 0.0
        self.latest = max(access.at, self.latest) if size else access.at
        self.fresh = min(self.fresh + 1, self.lengths.least)

    def features(self) -> tuple[float, ...]:
        visits = list(_VISIT.iter_unpack(self._visits))
        size = len(visits)
        if not size:
            return (0.0,) * len(WINDOW_FEATURES)
        all_gaps, _, _, referrer_states = zip(*visits, strict=True)
        numbers = [referrer_state >> _CLIENT_AT for referrer_state in referrer_states]
        gaps = all_gaps[1:] or (0.0,)
        mean = sum(gaps) / len(gaps)
        cookies, referrers, agents = [0] * len(_COOKIES), [0] * len(_REFERRERS), [0] * len(_AGENTS)
        distinct_cookies: set[bytes] = set()
        # There are few clients, with many visits each.
        clients = {number: _CLIENT.unpack_from(self._clients, number * _CLIENT.size) for number in set(numbers)}
        for number, (_, _, cookie, states) in clients.items():
            count = numbers.count(number)
            cookies[states & _COOKIE_BITS] += count
            agents[states >> _AGENT_AT] += count
            if states & _HAS_COOKIE:
                distinct_cookies.add(cookie)
        for referrer_state in set(referrer_states):
            referrers[referrer_state & _REFERRER_BITS] += referrer_states.count(referrer_state)
        sessions = _sessions((0.0, *gaps), [clients[number][0] for number in numbers])
        session_addresses = {(session, clients[number][1]) for session, number in zip(sessions, numbers, strict=False)}
        counts = Counter(sessions)
        return (
            float(size),
            *[count / size for count in cookies],
            float(len(distinct_cookies)),
            float(len(counts)),
            # Whether one session came from several addresses.
            float(len(session_addresses) > len(counts)),
            float(max(counts.values())),
            max(gaps),
            median(gaps),
            sum([(gap - mean) ** 2 for gap in gaps]) / len(gaps),
            *[count / size for count in referrers],
            *[agents[number] / size for number in _COUNTED_AGENTS],
        )

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(_VERSION, self.fresh, len(self._clients) // _CLIENT.size, self.latest)
        return head + self._clients + self._visits

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """Return the window in *data*, or None if *data* is not a valid window."""
        if len(data) < _HEAD.size:
            return None
        version, fresh, clients, latest = _HEAD.unpack_from(data)
        visits_at = _HEAD.size + clients * _CLIENT.size
        visits = data[visits_at:]
        if version != _VERSION or len(data) < visits_at or len(visits) % _VISIT.size or fresh > cls.lengths.least:
            return None
        records = list(_VISIT.iter_unpack(visits))
        states = data[_HEAD.size + _CLIENT.size - 1 : visits_at : _CLIENT.size]
        is_valid = (
            len(records) <= cls.lengths.most
            and all(r >> _CLIENT_AT < clients and r & _REFERRER_BITS != _REFERRER_BITS for *_, r in records)
            and all(s & _COOKIE_BITS < len(_COOKIES) and s >> _AGENT_AT < len(_AGENTS) for s in states)
        )
        if not is_valid:
            return None
        total = sum([gap for gap, *_ in records][1:])
        return cls(visits, data[_HEAD.size : visits_at], total, latest, fresh)

    def _client_number(self, access: Access) -> int:
        """Return the number of the client (session, address, cookie and user agent) of a visit."""
        client = _packed(access.session, access.address, access.cookie, access.cookie_state, access.agent)
        number = find_record(self._clients, client, _CLIENT.size)
        if number < 0:
            if len(self._clients) >= _MAX_CLIENTS * _CLIENT.size:
                self._drop_unused_clients()
            number = len(self._clients) // _CLIENT.size
            if number >= _MAX_CLIENTS:
                # Further clients share the last number: sixteen are conspicuous enough.
                return number - 1
            self._clients += client
        return number

    def _drop_unused_clients(self) -> None:
        visits = list(_VISIT.iter_unpack(self._visits))
        used = dict.fromkeys(visit[3] >> _CLIENT_AT for visit in visits)
        numbers = {client: number for number, client in enumerate(used)}
        width = _CLIENT.size
        self._clients = b"".join(self._clients[client * width : (client + 1) * width] for client in numbers)
        self._visits = b"".join(
            _VISIT.pack(*visit[:3], visit[3] & (1 << _CLIENT_AT) - 1 | numbers[visit[3] >> _CLIENT_AT] << _CLIENT_AT)
            for visit in visits
        )

    def _joins(self, gap: float, client: int, page: bytes, parent: bytes | None) -> bool:
        """Return whether a visit extends the window: two of three conditions hold."""
        width = _CLIENT.size
        last, here = (self._visits[-1] >> _CLIENT_AT) * width, client * width
        same = gap < SESSION_GAP and self._clients[last : last + _NAME] == self._clients[here : here + _NAME]
        soon = gap < self._total / (len(self._visits) // _VISIT.size - 1)
        if same == soon:
            # The forest of referrers decides only if the other two conditions disagree.
            return same
        visits = _VISIT.iter_unpack(self._visits)
        edges = [(visit[1], visit[2] if visit[3] & _HAS_PARENT else None) for visit in visits]
        return not changes_trees(edges, page, parent)


@cache
def session_windows(lengths: WindowLengths) -> type[SessionWindow]:
    """Return the class of windows with *lengths*: as an attribute of each window they would take memory."""
    if lengths == SessionWindow.lengths:
        return SessionWindow

    class OtherSessionWindow(SessionWindow, gc=False, eq=False):
        lengths: ClassVar[WindowLengths]

    OtherSessionWindow.lengths = lengths
    return OtherSessionWindow


@lru_cache(maxsize=1 << 12)
def _packed(session: bytes, address: str, cookie: bytes, cookie_state: Cookie, agent: Agent) -> bytes:
    states = _COOKIES.index(cookie_state) | _AGENTS.index(agent) << _AGENT_AT
    return _CLIENT.pack(
        session[-_NAME:], _short(address)[-_SHORT:], cookie[-_SHORT:], states | (_HAS_COOKIE if cookie else 0)
    )


def _session(prefix: str, user_agent: str) -> bytes:
    """Return the session name of a visitor without an account or a cookie."""
    return _short(f"{prefix} {user_agent}")


_cached_session = lru_cache(maxsize=1 << 12)(_session)


def _short(name: str) -> bytes:
    return crc32(name.encode("utf-8", "surrogateescape")).to_bytes(_NAME, "big")


def changes_trees(edges: Sequence[tuple[bytes, bytes | None]], page: bytes, parent: bytes | None) -> bool:
    """
    Return whether a visit to *page*, referred by *parent*, changes the number of trees of pages and referrers.

    A tree is a set of pages connected by referrers. A new page without a known referrer adds a tree. A visit that
    connects two trees merges them.

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
    """Return the session of each visit: its name, and the number of long pauses before it."""
    if sum(gaps) < SESSION_GAP:
        return names
    sessions: list[object] = []
    seen: dict[bytes, tuple[float, int]] = {}
    at = 0.0
    for gap, name in zip(gaps, names, strict=False):
        at += gap
        latest, number = seen.get(name, (at, 0))
        if at - latest >= SESSION_GAP:
            number += 1
        seen[name] = (at, number)
        sessions.append((name, number))
    return sessions

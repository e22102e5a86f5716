"""
Row builder: texts become small numbers, and lines become rows.

Visitors can send any number of texts of any length. So only a limited number of texts of each kind is kept; later ones
share the number 1, "others". 0 is "none". Numbers are given in the order of the lines, however the log is divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.address import network_of, prefix_of
from hedgerow.core.ip_bytes import format_ipv4, pack_ipv4
from hedgerow.core.visit import Visit
from hedgerow.logs.dialect import SourceKey
from hedgerow.logs.formats import DEFAULT_PORT, account_of, address_of
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.line_scanner import AGENTS, CLIENTS, HOSTS, PLACES, SHAPES, USERS, Scanned
from hedgerow.report.tables.rows import ROW, Rows, renumber
from hedgerow.report.tables.topics import BROWSER, TOPIC_SHIFT, is_call, topic_of_target, with_method
from hedgerow.report.tables.url_features import (
    ASSET,
    CALL,
    HEAD,
    OLD_HTTP,
    OUTLINE_SIZE,
    PAGE,
    PREFETCH,
    REFERRED,
    DigestKey,
    outline,
    split_referrer,
)  # fmt: skip
from hedgerow.request.account import visitor_of

NONE, OTHERS = 0, 1
_KINDS = {"page": PAGE, "call": CALL, "asset": ASSET, "prefetch": PREFETCH}
_READING = frozenset({"GET", "HEAD"})
_MOST_TEXTS = 200_000
_LONGEST_TEXT = 1000
_OF_A_NETWORK = "/24"
_MOST_SESSIONS = 2_000_000
_HARDLY_ANY = 0.1
_MOST_REMEMBERED = 100_000
_MOST_KNOWN = 1_000_000
_KIND_BITS = 0x9E3779B97F4A7C15
"""Times the kind of a symbol: what is added to its digest, so that symbols of all kinds can be in one table."""

NamedSessions = dict[int, tuple[int, list[bytes]]]
"""By source: how many of its page visits name a session, and the different sessions."""


class InternTable:
    """Texts of one kind, numbered from 2 on in the order of their arrival; at most *most*."""

    def __init__(self, most: int = _MOST_TEXTS) -> None:
        self.texts: list[bytes] = [b"", b""]
        self._numbers: dict[bytes | int, int] = {b"": NONE}
        self._most = most

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def keys(self) -> list[bytes | int]:
        """The keys of the texts, from number 2 on."""
        return list(self._numbers)[1:]

    def number(self, text: bytes, key: bytes | int | None = None) -> int:
        """Return the number of *text*, or of its *key* if that distinguishes texts."""
        key = text if key is None else key
        found = self._numbers.get(key)
        if found is None:
            if len(self.texts) >= self._most:
                return OTHERS
            found = self._numbers[key] = len(self.texts)
            self.texts.append(text[:_LONGEST_TEXT])
        return found


class SessionCookies:
    """
    The sessions that page visits of each source name. With too many sessions nothing is known.

    A visitor that accepts cookies returns with the same session. One that does not gets a new session with each
    request. So the page visits that begin a session are those that name none, and one for each named session.
    """

    def __init__(self, most: int = _MOST_SESSIONS) -> None:
        self._named: dict[int, int] = {}
        self._different: dict[int, set[bytes]] = {}
        self._left = most

    def note(self, visit: Visit, source: int) -> None:
        if visit.linked and visit.kind == "page":
            self._add(source, 1, visit.linked[:1])

    def add(self, sessions: NamedSessions) -> None:
        """Add the sessions of another part of the log."""
        for source, (named, different) in sessions.items():
            self._add(source, named, different)

    @property
    def sessions(self) -> NamedSessions:
        return {source: (named, sorted(self._different[source])) for source, named in self._named.items()}

    def renewed(self, sources: NDArray[np.uint64], pages: NDArray[np.int64]) -> NDArray[np.float64]:
        """
        Return the share of page visits (*pages*) of each of *sources* that begin a session.

        nan for all sources if hardly any page visit names a session that came before.
        """
        named = np.array([self._named.get(source, 0) for source in sources.tolist()], np.int64)
        different = np.array([len(self._different.get(source, ())) for source in sources.tolist()], np.int64)
        if self._left < 0 or (named - different).sum() <= _HARDLY_ANY * pages.sum():
            return np.full(len(sources), np.nan)
        return np.where(pages, (pages - named + different) / np.maximum(pages, 1), np.nan)

    def _add(self, source: int, named: int, different: Iterable[bytes]) -> None:
        if self._left < 0:
            return
        known = self._different.setdefault(source, set())
        before = len(known)
        known.update(different)
        self._left -= len(known) - before
        self._named[source] = self._named.get(source, 0) + named


class RowBuilder:
    """
    The texts of a log: *agents*, *places* (hosts of referrers), *shapes* (an example of each), and its sources, of the
    kind *by*. *key* is the key of all digests.
    """

    def __init__(self, by: SourceKey = "visitor", key: DigestKey | None = None) -> None:
        self.by: SourceKey = by
        self.key = key or DigestKey()
        self.agents = InternTable()
        self.places = InternTable()
        self.shapes = InternTable()
        self.hosts: Counter[str] = Counter()
        """Lines by virtual host, where the log names it."""
        self.cookies = SessionCookies()
        self._known: dict[int, int] = {}
        """The numbers of symbols that came before."""
        self._targets: dict[bytes, tuple[int, int, int, int, int]] = {}
        self._referrers: dict[bytes, tuple[int, int, int]] = {}
        self._outline = bytearray(OUTLINE_SIZE)
        self._sources: dict[str, int] = {}
        self._visitors: list[str] = []
        self._addresses: list[str] = []

    def number(self, scanned: Scanned, odd: Sequence[tuple[int, Visit]]) -> tuple[int, int]:
        """
        Replace the symbols in scanned rows by the numbers of their texts, and fill in the rows of *odd* lines (place
        and visit).

        Return the first and last time of the other rows.
        """
        symbols, rows = scanned.symbols, scanned.rows
        keys = (symbols["digest"] + symbols["kind"].astype(np.uint64) * np.uint64(_KIND_BITS)).tolist()
        found: list[Any] = [NONE, *map(self._known.get, keys)]
        # Of new texts and odd lines those come first whose line does.
        new = [(int(symbols["line"][k - 1]), 1, k) for k, number in enumerate(found) if number is None]
        turns = sorted([*new, *((int(rows["t"][place]), 0, k) for k, (place, _) in enumerate(odd))])
        made: list[tuple[int, ...]] = []
        for _, is_symbol, k in turns:
            if not is_symbol:
                made.append(self._row(odd[k][1]))
                continue
            found[k] = number = self._number(symbols[k - 1], scanned.data)
            if number > OTHERS and len(self._known) < _MOST_KNOWN:
                self._known[keys[k - 1]] = number
        for symbol in symbols[symbols["kind"] == HOSTS]:
            host = scanned.data[symbol["start"] : symbol["end"]].tobytes().decode("latin-1")
            self.hosts[DEFAULT_PORT.sub("", host).lower()] += int(symbol["count"])
        span = renumber(rows, np.array(found, np.uint64), network=self.by == "network")
        if made:
            rows[[place for place, _ in odd]] = np.array(made, ROW)
        return span

    def _number(self, symbol: Any, data: NDArray[np.uint8]) -> int:
        """Return the number of the text of a symbol in the piece *data*."""
        kind, start, end = int(symbol["kind"]), symbol["start"], symbol["end"]
        text = data[start:end].tobytes()
        if kind == AGENTS:
            return self.agents.number(text)
        if kind == SHAPES:
            return self.shapes.number(text, int(symbol["digest"]))
        if kind == PLACES:
            return self.places.number(text.lower())
        if kind == CLIENTS:
            address = address_of(text.decode("latin-1"))
            return self.source(self._visitor(address), address)
        if kind == USERS:
            # Before the user stand the client and a word.
            client = data[symbol["line"] : start].tobytes().split(b" ")[-3]
            return self.source(visitor_of(account_of(text.decode("latin-1")), ""), address_of(client.decode("latin-1")))
        return NONE

    def rows_of(self, visits: Sequence[Visit]) -> Rows:
        """Return the rows of visits that were parsed line by line."""
        return np.array([self._row(visit) for visit in visits], ROW)

    def _row(self, visit: Visit) -> tuple[int, ...]:
        source = self.source_of(visit)
        page, order, shape, flags, topic = self._target(_bytes(visit.target))
        parent, place, lead = NONE, NONE, NONE
        if visit.referrer:
            flags |= REFERRED
            parent, place, lead = self._referrer(_bytes(visit.referrer))
        if visit.method == "HEAD":
            flags |= HEAD
        if visit.old_http:
            flags |= OLD_HTTP
        if visit.host:
            self.hosts[visit.host.lower()] += 1
        self.cookies.note(visit, source)
        agent, at = self.agents.number(_bytes(visit.user_agent)), round(visit.at * 1e6)
        status, kind = visit.status & 0xFFFF, _KINDS[visit.kind]
        topic = BROWSER if kind == PREFETCH else with_method(topic, visit.method in _READING)
        if kind == PAGE and is_call(topic):
            kind = CALL
        flags |= topic << TOPIC_SHIFT
        return source, at, page, parent, order, shape, lead, place, agent, status, kind, flags, 0

    def _target(self, text: bytes) -> tuple[int, int, int, int, int]:
        """Return page, order, shape, flags and topic of a target. Recent results are cached."""
        found = self._targets.get(text)
        if found is None:
            if len(self._targets) >= _MOST_REMEMBERED:
                self._targets.clear()
            order, size, flags = outline(text, 0, len(text), self._outline)
            shape = self.shapes.number(text, self.key.digest(bytes(self._outline[:size])))
            topic = int(topic_of_target(text, 0, len(text)))
            found = self._targets[text] = self.key.digest(text), int(order), shape, flags, topic
        return found

    def _referrer(self, text: bytes) -> tuple[int, int, int]:
        """Return parent, place and lead of a referrer: its page, its host, and the shape of the page."""
        found = self._referrers.get(text)
        if found is None:
            if len(self._referrers) >= _MOST_REMEMBERED:
                self._referrers.clear()
            host, slash, stop = split_referrer(text, 0, len(text))
            found = NONE, NONE, NONE
            if slash > host:
                place = self.places.number(text[host:slash].lower())
                page, _, shape, *_ = self._target(text[slash:stop] or b"/")
                found = page, place, shape
            self._referrers[text] = found
        return found

    def _visitor(self, address: str) -> str:
        """Return the source of an address if nothing else is known about the visitor."""
        if self.by == "address":
            return address
        return network_of(address) or address if self.by == "network" else prefix_of(address)

    def source_of(self, visit: Visit) -> int:
        """Return the number of the source of a visit."""
        if self.by in {"visitor", "session"}:
            return self.source(visit.visitor, visit.address)
        if self.by == "account":
            return self.source(visitor_of(visit.account, visit.prefix), visit.address)
        return self.source(self._visitor(visit.address), visit.address)

    def source(self, visitor: str, address: str) -> int:
        """Return the number of *visitor*, who has *address*."""
        found = self._sources.get(visitor)
        if found is None:
            number = _ipv4(visitor.removesuffix(_OF_A_NETWORK) if self.by == "network" else visitor)
            if number < int(OTHER_CLIENT):
                return number
            found = self._sources[visitor] = int(OTHER_CLIENT) + len(self._visitors)
            self._visitors.append(visitor)
            self._addresses.append(address)
        return found

    @property
    def others(self) -> list[tuple[str, str]]:
        """The sources that are not plain IPv4 addresses, by their numbers: each as `source` takes it."""
        return list(zip(self._visitors, self._addresses, strict=True))

    def name(self, source: int) -> str:
        """Return the name of a source: an address, prefix, network, account or session."""
        other = source - int(OTHER_CLIENT)
        if other >= 0:
            return self._visitors[other]
        return f"{_dotted(source)}{_OF_A_NETWORK if self.by == 'network' else ''}"

    def names(self, sources: NDArray[np.uint64]) -> list[str]:
        """Return the names of *sources* (ascending), in a quarter of the time of `name`."""
        others = int(np.searchsorted(sources, OTHER_CLIENT))
        plain = sources[:others].astype(">u4").tobytes()
        end = _OF_A_NETWORK if self.by == "network" else ""
        found = [f"{format_ipv4(plain[k : k + 4])}{end}" for k in range(0, len(plain), 4)]
        return found + [self._visitors[other] for other in (sources[others:] - OTHER_CLIENT).tolist()]

    def address(self, source: int) -> str:
        """Return the first address of a source."""
        other = source - int(OTHER_CLIENT)
        return _dotted(source) if other < 0 else self._addresses[other]


@lru_cache(maxsize=1 << 16)
def _ipv4(visitor: str) -> int:
    """Return the number of an IPv4 address, OTHER_CLIENT for anything else."""
    try:
        return int.from_bytes(pack_ipv4(visitor))
    except (OSError, ValueError):
        return int(OTHER_CLIENT)


def _dotted(number: int) -> str:
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "backslashreplace")

"""
Numbering: texts become small numbers, and rows are made of them.

What a visitor sends is of any number and length. So only so many texts of each kind are kept; those that come later
share the number 1, "others". 0 is "none".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.address import network_of, prefix_of
from hedgerow.core.ip_bytes import format_ipv4
from hedgerow.core.visit import Visit
from hedgerow.logs.dialect import SourceKey
from hedgerow.logs.formats import account_of, address_of
from hedgerow.report.tables.intern_cache import UNKNOWN, InternCache
from hedgerow.report.tables.jit import lean
from hedgerow.report.tables.line_scanner import (
    AGENT,
    CLIENT,
    HOST,
    LEAD,
    OTHER_CLIENT,
    PLACE,
    SHAPE,
    Scanned,
    ipv4,
)  # fmt: skip
from hedgerow.report.tables.log_users import users
from hedgerow.report.tables.session_cookies import SessionCookies
from hedgerow.report.tables.url_features import (
    ASSET,
    CALL,
    HEAD,
    OLD_HTTP,
    PAGE,
    PREFETCH,
    describe_all,
)  # fmt: skip
from hedgerow.request.account import visitor_of

NONE, OTHERS = 0, 1
_KINDS = {"page": PAGE, "call": CALL, "asset": ASSET, "prefetch": PREFETCH}
_MOST_TEXTS = 200_000
_LONGEST_TEXT = 1000
_NETWORK = np.uint64((1 << 64) - 256)
_OF_A_NETWORK = "/24"

COLUMNS = {
    "source": np.uint64, "t": np.int64, "page": np.uint64, "parent": np.uint64, "ord": np.uint64, "shape": np.uint32,
    "lead": np.uint32, "place": np.uint32, "agent": np.uint32, "status": np.uint16, "kind": np.uint8, "flags": np.uint8,
}  # fmt: skip
"""
The columns of a row: who, when (microseconds since 1970), which page, the page that led there (as if it were ours), its
place in the alphabet, its shape, the shape of the page that led there, the host that led there, the user agent, the
answer's status, what kind of request it is, and flags.
"""

Rows = dict[str, NDArray[Any]]


class InternTable:
    """Texts of one kind, numbered from 2 on as they come; at most *most* of them."""

    def __init__(self, most: int = _MOST_TEXTS) -> None:
        self.texts: list[bytes] = [b"", b""]
        self._numbers: dict[bytes | int, int] = {b"": NONE}
        self._most = most

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def keys(self) -> list[bytes | int]:
        """What tells the texts apart, from number 2 on."""
        return list(self._numbers)[1:]

    def number(self, text: bytes, key: bytes | int | None = None) -> int:
        """The number of *text*, or of its *key*, where that is what tells texts apart."""
        told = text if key is None else key
        found = self._numbers.get(told)
        if found is None:
            if len(self.texts) >= self._most:
                return OTHERS
            found = self._numbers[told] = len(self.texts)
            self.texts.append(text[:_LONGEST_TEXT])
        return found


class RowBuilder:
    """
    The texts of a log: *agents*, *places* (hosts of referrers), *shapes* (an example of each), and its sources, which
    are what *by* says.
    """

    def __init__(self, by: SourceKey = "visitor") -> None:
        self.by: SourceKey = by
        self.agents = InternTable()
        self.places = InternTable()
        self.shapes = InternTable()
        self.hosts: Counter[str] = Counter()
        """Lines by virtual host, where the log names it."""
        self.kept = SessionCookies()
        """Which sessions sources came with, where the log names any."""
        self._recalled = InternCache()
        self._sources: dict[str, int] = {}
        self._visitors: list[str] = []
        self._addresses: list[str] = []

    def rows_of(self, scanned: Scanned, data: NDArray[np.uint8]) -> Rows:
        """The rows of the lines that were scanned; those of odd lines are empty."""
        words = scanned.words
        numbers = np.zeros(len(words) + 1, np.uint64)
        recalled = self._recalled.numbers(scanned)
        numbers[:-1] = recalled.astype(np.uint64)
        new = np.flatnonzero(recalled == UNKNOWN)
        numbers[new] = 0
        for k, (column, start, end) in zip(new.tolist(), words[new].tolist(), strict=True):
            text = data[start:end].tobytes()
            if column == AGENT:
                numbers[k] = self.agents.number(text)
            elif column == SHAPE:
                numbers[k] = self.shapes.number(text, int(scanned.digests[k]))
            elif column == PLACE:
                numbers[k] = self.places.number(text.lower())
            elif column == CLIENT:
                address = address_of(text.decode("latin-1"))
                numbers[k] = self.source(self._visitor(address), address)
        kept = new[numbers[new] > OTHERS]
        self._recalled.remember(scanned, kept, numbers[kept].astype(np.int64))
        texts = scanned.texts
        if texts[HOST].max(initial=-1) >= 0:
            used = texts[HOST][texts[HOST] >= 0]
            for k, count in enumerate(np.bincount(used, minlength=0).tolist()):
                if count:
                    self.hosts[data[words[k, 1] : words[k, 2]].tobytes().decode("latin-1").lower()] += count
        source = scanned.source
        others = texts[CLIENT] >= 0
        if self.by == "network":
            source &= _NETWORK
        if others.any():
            source[others] = numbers[texts[CLIENT][others]]
        if self.by == "account":
            self._tell_accounts(scanned, data, source)
        small = np.empty((4, len(source)), np.uint32)
        _gather(texts, numbers, small)
        return {
            "source": source, "t": scanned.at, "page": scanned.page, "parent": scanned.parent, "ord": scanned.order,
            "shape": small[0], "lead": small[1], "place": small[2], "agent": small[3],
            "status": scanned.status, "kind": scanned.kind, "flags": scanned.flags,
        }  # fmt: skip

    def rows_of_visits(self, visits: Sequence[Visit]) -> Rows:
        """The rows of visits that were parsed line by line."""
        targets = [_bytes(visit.target) for visit in visits]
        referrers = [_bytes(visit.referrer) for visit in visits]
        joined = b"".join(targets) + b"".join(referrers)
        data = np.frombuffer(joined or b"\0", np.uint8)
        ends = np.cumsum([len(text) for text in targets + referrers], dtype=np.int64)
        n = len(visits)
        told = describe_all(data, ends[:n], ends[n:])
        page, order, shape, _, flags, hosts, parent, lead = told
        number = self.shapes.number
        lead_texts = [b"/" + text.partition(b"://")[2].partition(b"/")[2].partition(b"#")[0] for text in referrers]
        flags |= np.array([HEAD if visit.method == "HEAD" else 0 for visit in visits], np.uint8)
        flags |= np.array([OLD_HTTP if visit.old_http else 0 for visit in visits], np.uint8)
        for visit in visits:
            if visit.host:
                self.hosts[visit.host.lower()] += 1
        sources = [self.source_of(visit) for visit in visits]
        self.kept.note(visits, sources)
        return {
            "source": np.array(sources, np.uint64),
            "t": np.array([round(visit.at * 1e6) for visit in visits], np.int64),
            "page": page, "parent": parent, "ord": order,
            "shape": np.array([number(t, int(s)) for t, s in zip(targets, shape, strict=True)], np.uint32),
            "lead": np.array([number(t, int(s)) if s else 0 for t, s in zip(lead_texts, lead, strict=True)], np.uint32),
            "place": np.array([self.places.number(joined[a:b].lower()) for a, b in hosts.tolist()], np.uint32),
            "agent": np.array([self.agents.number(_bytes(visit.user_agent)) for visit in visits], np.uint32),
            "status": np.array([visit.status & 0xFFFF for visit in visits], np.uint16),
            "kind": np.array([_KINDS[visit.kind] for visit in visits], np.uint8),
            "flags": flags,
        }  # fmt: skip

    def _visitor(self, address: str) -> str:
        """What an address counts as, of which no more is known."""
        if self.by == "address":
            return address
        return network_of(address) or address if self.by == "network" else prefix_of(address)

    def _tell_accounts(self, scanned: Scanned, data: NDArray[np.uint8], source: NDArray[np.uint64]) -> None:
        """Put accounts into *source*, where lines name any."""
        which, named = users(scanned, data)
        numbers = []
        for line, name in named:
            client = int(scanned.texts[CLIENT][line])
            if client >= 0:
                text = data[scanned.words[client, 1] : scanned.words[client, 2]].tobytes().decode("latin-1")
                address = address_of(text)
            else:
                address = self.address(int(source[line]))
            numbers.append(self.source(visitor_of(account_of(name.decode("latin-1")), ""), address))
        there = which >= 0
        source[there] = np.array(numbers, np.uint64)[which[there]]

    def source_of(self, visit: Visit) -> int:
        """The number of the source that a visit is of."""
        if self.by in {"visitor", "session"}:
            return self.source(visit.visitor, visit.address)
        if self.by == "account":
            return self.source(visitor_of(visit.account, visit.prefix), visit.address)
        return self.source(self._visitor(visit.address), visit.address)

    def source(self, visitor: str, address: str) -> int:
        """The number of *visitor*, who has *address*."""
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
        """The sources that are no plain IPv4 addresses, by their numbers: each as `source` takes it."""
        return list(zip(self._visitors, self._addresses, strict=True))

    def name(self, source: int) -> str:
        """The name of a source: an address, a prefix, a network, an account, a session."""
        other = source - int(OTHER_CLIENT)
        if other >= 0:
            return self._visitors[other]
        return f"{_dotted(source)}{_OF_A_NETWORK if self.by == 'network' else ''}"

    def names(self, sources: NDArray[np.uint64]) -> list[str]:
        """The names of *sources*, which rise: what `name` says of each, in a quarter of the time."""
        others = int(np.searchsorted(sources, OTHER_CLIENT))
        plain = sources[:others].astype(">u4").tobytes()
        end = _OF_A_NETWORK if self.by == "network" else ""
        found = [f"{format_ipv4(plain[k : k + 4])}{end}" for k in range(0, len(plain), 4)]
        return found + [self._visitors[other] for other in (sources[others:] - OTHER_CLIENT).tolist()]

    def address(self, source: int) -> str:
        """An address of a source; the first that it had."""
        other = source - int(OTHER_CLIENT)
        return _dotted(source) if other < 0 else self._addresses[other]


@lean
def _gather(texts: Any, numbers: Any, out: Any) -> None:
    """The numbers of shapes, leads, places and user agents of all rows; of those that have none the last number."""
    none = len(numbers) - 1
    for i in range(texts.shape[1]):
        for k, column in enumerate((SHAPE, LEAD, PLACE, AGENT)):
            word = texts[column, i]
            out[k, i] = numbers[word if word >= 0 else none]


@lru_cache(maxsize=1 << 16)
def _ipv4(visitor: str) -> int:
    """The number of an IPv4 address; OTHER_CLIENT where it is none."""
    text = np.frombuffer(_bytes(visitor) or b"-", np.uint8)
    return int(ipv4(text, 0, len(text)))


def _dotted(number: int) -> str:
    """The text of an IPv4 address."""
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "backslashreplace")


@lean
def _close(column: Any, gaps: Any) -> None:
    """Move what stands behind each of *gaps* over it."""
    k = gaps[0]
    for g in range(len(gaps)):
        for i in range(gaps[g] + 1, gaps[g + 1] if g + 1 < len(gaps) else len(column)):
            column[k] = column[i]
            k += 1


def only(rows: Rows, good: NDArray[np.bool_]) -> Rows:
    """Those of *rows* that are *good*; *rows* are spent."""
    bad = np.flatnonzero(~good)
    if not len(bad):
        return rows
    for column in rows.values():
        _close(column, bad)
    return {name: column[: len(column) - len(bad)] for name, column in rows.items()}


def fill(rows: Rows, where: NDArray[np.int64], more: Rows) -> None:
    """Put the rows *more* into the places *where* of *rows*."""
    for name, column in rows.items():
        column[where] = more[name]

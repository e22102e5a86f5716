"""
The white and black lists in memory: entries, subjects, and the entry that applies to a visit.

If several entries match a visit, the most specific one applies: an account before any address, a longer prefix before a
shorter one, a network before its operator (AS number), and all of them before a user agent, which anybody can claim.
White wins a tie. An entry is in force until its end; *since* only says when it was made.

Among a million networks a lookup takes one to two microseconds (`bench/lists.py`); see `lookup`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Literal, get_args

import msgspec

from hedgerow.core.decision import Action, Decision, Evidence
from hedgerow.core.ip_bytes import format_ipv4, format_ipv6, pack_ipv4, pack_ipv6
from hedgerow.lists.lookup import NetworksV4
from hedgerow.lists.lookup_v6 import NetworksV6
from hedgerow.request.network_rules import AsnOf, NetworkRule, NetworkRules

ListName = Literal["white", "black"]
SubjectKind = Literal["address", "network", "account", "agent", "asn"]
LISTS: tuple[ListName, ...] = get_args(ListName)
SUBJECT_KINDS: tuple[SubjectKind, ...] = get_args(SubjectKind)

ACCOUNT, AGENT, ASN = "account:", "agent:", "AS"
OWN_AUTHOR = "hedgerow report"
"""The author of entries that Hedgerow makes itself."""

_MAX_SUBJECT_LENGTH = 300
_MAX_TEXT_LENGTH = 500
_CACHE_SIZE = 1 << 14
_V4, _V6 = 4, 6
_V4_BITS, _V6_BITS = 32, 128
_MAX_ASN = 2**32 - 1

_ASN = re.compile(r"as\s*(\d{1,10})", re.ASCII | re.IGNORECASE)


class Listing(msgspec.Struct, frozen=True, gc=False):
    """An entry of a list. Times are in seconds since 1970; *until* is 0 for an entry without end."""

    list: ListName
    subject: str
    reason: str = ""
    author: str = ""
    since: float = 0.0
    until: float = 0.0

    def in_force(self, at: float) -> bool:
        return not self.until or self.until > at


class Subject(msgspec.Struct, frozen=True, gc=False):
    """
    The subject of an entry in canonical form.

    A network has *version*, its first address as the number *start*, and *shift*, the number of host bits. *name* is
    the account's name or the user agent's pattern, *number* the AS number.
    """

    kind: SubjectKind
    text: str
    version: int = 0
    start: int = 0
    shift: int = 0
    name: str = ""
    number: int = 0


def parse_subject(text: str) -> Subject:
    """
    Parse a subject, or raise ValueError.

    >>> [parse_subject(s).text for s in ("192.0.2.1/32", "2001:DB8::/32", "as64496", "agent:*Bot*", "account:ann")]
    ['192.0.2.1', '2001:db8::/32', 'AS64496', 'agent:*Bot*', 'account:ann']
    """
    text = text.strip()
    if (subject := _parse_address(text)) is not None:
        return subject
    if len(text) > _MAX_SUBJECT_LENGTH or not text.isprintable():
        raise ValueError(f"{text[:40]!r} is too long or not printable")
    if text.startswith(ACCOUNT):
        name = text.removeprefix(ACCOUNT).strip()
        if not name:
            raise ValueError("'account:' names no account; write it like account:ann")
        return Subject("account", ACCOUNT + name, name=name)
    if text.startswith(AGENT):
        pattern = text.removeprefix(AGENT).strip()
        if not pattern.replace("*", "").strip():
            raise ValueError(f"{text!r} would match every visitor; write it like agent:*Bot*")
        return Subject("agent", AGENT + pattern, name=pattern)
    if match := _ASN.fullmatch(text):
        number = int(match[1])
        if not 0 < number <= _MAX_ASN:
            raise ValueError(f"{text!r} is not an AS number; write it like AS64496")
        return Subject("asn", f"{ASN}{number}", number=number)
    return _parse_network(text)


def _parse_address(text: str) -> Subject | None:
    """Parse an ordinary address or network, or return None. Fast, for long imports."""
    address, slash, prefix = text.partition("/")
    if slash and not (prefix.isdecimal() and prefix.isascii() and len(prefix) <= 3):  # noqa: PLR2004 - up to 128
        return None
    is_v6 = ":" in address
    try:
        start = int.from_bytes(pack_ipv6(address) if is_v6 else pack_ipv4(address))
    except (OSError, ValueError):
        return None
    version, bits = (_V6, _V6_BITS) if is_v6 else (_V4, _V4_BITS)
    shift = bits - int(prefix) if slash else 0
    # An IPv6 address that starts with zeros may be an IPv4-mapped one.
    if shift < 0 or start & ((1 << shift) - 1) or (is_v6 and not start >> 48):
        return None
    return Subject("network" if shift else "address", network_text(version, start, shift), version, start, shift)


def _parse_network(text: str) -> Subject:
    try:
        network = ip_network(text)
    except ValueError:
        try:
            corrected = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"{text!r} is not an address, network, account:NAME, agent:PATTERN or AS number") from None
        raise ValueError(f"{text!r} is not a network; {corrected} is") from None
    if "%" in text:
        raise ValueError(f"{text!r} names an interface; write only the address")
    if isinstance(network, IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= _V6_BITS - _V4_BITS:
            network = IPv4Network((int(mapped), network.prefixlen - (_V6_BITS - _V4_BITS)))
    shift = network.max_prefixlen - network.prefixlen
    text = str(network) if shift else str(network.network_address)
    start = int(network.network_address)
    return Subject("network" if shift else "address", text, network.version, start, shift)


def network_text(version: int, start: int, shift: int) -> str:
    """Format a network, or an address if *shift* is 0."""
    text, bits = (format_ipv4(start.to_bytes(4)), 32) if version == _V4 else (format_ipv6(start.to_bytes(16)), 128)
    return f"{text}/{bits - shift}" if shift else text


def clean_text(text: str) -> str:
    """Normalise a reason or an author: one printable line of limited length."""
    line = " ".join(text.split())[:_MAX_TEXT_LENGTH].strip()
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def agent_pattern(pattern: str) -> re.Pattern[str]:
    """
    Compile a pattern of lower-cased user agents, in which `*` stands for anything.

    Atomic groups never backtrack, so that the time is proportional to the length of the user agent.

    >>> bool(agent_pattern("*Scrapy/*").fullmatch("scrapy/2.12")), bool(agent_pattern("curl").fullmatch("curl/8.0"))
    (True, False)
    """
    first, *rest = map(re.escape, pattern.lower().split("*"))
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(first + middle + (".*" + rest[-1] if rest else ""), re.DOTALL)


class Note(msgspec.Struct, frozen=True, gc=False):
    """
    An entry without its subject, and the decision that follows. All entries of one import share it.

    *ends* is *until*, or infinity. The fields after it are derived from the others.
    """

    list: ListName
    reason: str
    author: str
    since: float
    until: float
    ends: float
    action: Action
    code: str
    weight: float
    text: str
    details: str


_Notes = tuple[Note, ...]
"""The notes of one subject, white before black."""
ListMatch = tuple[Note, str]
"""The result of a lookup: a note and its subject."""

_SUBJECTS: dict[SubjectKind, str] = {
    "address": "This address", "network": "This network", "account": "This account", "agent": "This user agent",
    "asn": "The operator of this network",
}  # fmt: skip


def _note(kind: SubjectKind, name: ListName, reason: str, author: str, since: float, until: float) -> Note:
    black = name == "black"
    details = "; ".join(part for part in (reason and f"reason: {reason}", author and f"by: {author}") if part)
    return Note(
        name, reason, author, since, until, ends=until or math.inf, action="refuse" if black else "pass",
        code=f"list-{name}", weight=1.0 if black else 0.0, text=f"{_SUBJECTS[kind]} is on the {name} list.",
        details=details,
    )  # fmt: skip


def entry_of(match: ListMatch) -> Listing:
    note, subject = match
    return Listing(note.list, subject, note.reason, note.author, note.since, note.until)


def decide(match: ListMatch) -> Decision:
    """Return the decision of an entry: white passes, black is refused. The evidence has its reason and author."""
    note, subject = match
    evidence = Evidence("lists", note.code, note.weight, note.text, subject, note.details)
    return Decision(note.action, (evidence,), note.until)


def _no_asn(_: str) -> int:
    return 0


def _no_pause() -> None:
    pass


class Lists:
    """All entries, ready for lookup. One thread at a time may change them, and `settle` applies the changes."""

    def __init__(
        self, listings: Iterable[Listing] = (), *, asn_of: AsnOf | None = None, networks: Sequence[NetworkRule] = ()
    ) -> None:
        self.networks = NetworkRules(networks)
        """The rules for countries and operators. They come after all entries."""
        self.has_networks = bool(networks)
        self._v4: NetworksV4[Note] = NetworksV4()
        self._v6: NetworksV6[Note] = NetworksV6()
        self._accounts: dict[str, _Notes] = {}
        self._asns: dict[int, _Notes] = {}
        self._agents: dict[str, _Notes] = {}
        self.use(asn_of or _no_asn)
        self._notes: dict[tuple[Any, ...], _Notes] = {}
        self.has_entries = False
        """Whether there was any entry when changes were last applied: a visit need not be looked up otherwise."""
        self.sizes: dict[ListName, int] = dict.fromkeys(LISTS, 0)
        """The number of entries of each list, including those that have ended."""
        for listing in listings:
            self.put(listing)
        self.settle()

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def put(self, listing: Listing) -> None:
        """Add an entry, or replace the one on the same subject in the same list."""
        subject = parse_subject(listing.subject)
        table, key = self._table(subject)
        fields = subject.kind, listing.list, listing.reason, listing.author, listing.since, listing.until
        own = self._notes.get(fields)
        if own is None:
            own = self._notes[fields] = (_note(*fields),)
        notes = table.get(key)
        if notes is None:
            table[key] = own
            self.sizes[listing.list] += 1
            return
        (note,) = own
        others = tuple(n for n in notes if n.list != listing.list)
        table[key] = (note, *others) if note.list == "white" else (*others, note)
        self.sizes[listing.list] += len(others) == len(notes)

    def drop(self, name: ListName, subject: str) -> None:
        """Remove an entry if it exists."""
        table, key = self._table(parse_subject(subject))
        notes = table.get(key, ())
        others = tuple(note for note in notes if note.list != name)
        if len(others) == len(notes):
            return
        self.sizes[name] -= 1
        if others:
            table[key] = others
        else:
            del table[key]

    def clear(self) -> None:
        self._v4.clear()
        self._v6.clear()
        self._accounts, self._asns, self._agents = {}, {}, {}
        self.sizes = dict.fromkeys(LISTS, 0)

    def use(self, asn_of: AsnOf) -> None:
        """Set the function that returns the operators of addresses."""
        self._asn_of = lru_cache(_CACHE_SIZE)(asn_of)

    def settle(self, pause: Callable[[], None] = _no_pause) -> None:
        """Apply all changes. *pause* is called from time to time, so that other threads can run."""
        self._v4.settle(pause)
        self._v6.settle(pause)
        # White patterns come first. User agents have no other order.
        self._patterns = patterns = tuple(
            (agent_pattern(pattern), AGENT + pattern, note)
            for name in LISTS
            for pattern, notes in self._agents.items()
            for note in notes
            if note.list == name
        )
        # A new cache, not a cleared one: a concurrent lookup may still add its result to the old one.
        self._matches_of = lru_cache(_CACHE_SIZE)(
            lambda agent: [(note, name) for pattern, name, note in patterns if pattern.fullmatch(agent.lower())]
        )
        self._notes = {}
        self.has_entries = any(self.sizes.values())

    def _table(self, subject: Subject) -> tuple[dict[Any, _Notes], int | str]:
        if subject.version:
            return (self._v4 if subject.version == _V4 else self._v6).table(subject.start, subject.shift)
        if subject.kind == "asn":
            return self._asns, subject.number
        return self._accounts if subject.kind == "account" else self._agents, subject.name

    def find(self, at: float, address: str, account: str = "", user_agent: str = "") -> ListMatch | None:
        """Return the entry that applies to a visitor at the time *at*, or None."""
        if not self.has_entries:
            return None
        if account and (notes := self._accounts.get(account)) and (note := _first_in_force(notes, at)):
            return note, ACCOUNT + account
        try:
            match = self._v6.find(at, address) if ":" in address else self._v4.find(at, address)
        except (OSError, ValueError):
            # A host name in a log, or the empty address of a Unix socket.
            pass
        else:
            if match is not None:
                return match
            if self._asns and (note := _first_in_force(self._asns.get(number := self._asn_of(address), ()), at)):
                return note, f"{ASN}{number}"
        if self._patterns:
            # A long user agent is not cached.
            find = self._matches_of if len(user_agent) <= _MAX_SUBJECT_LENGTH else self._matches_of.__wrapped__
            return next((match for match in find(user_agent) if match[0].ends > at), None)
        return None


class SiteLists(Lists):
    """The lists of one of several sites. If none of their entries applies to a visitor, the *common* lists count."""

    def __init__(self, common: Lists, *, networks: Sequence[NetworkRule] = ()) -> None:
        self._common = common
        self._has_own = False
        super().__init__(networks=networks)

    @property
    def has_entries(self) -> bool:
        return self._has_own or self._common.has_entries

    @has_entries.setter
    def has_entries(self, value: bool) -> None:
        self._has_own = value

    def find(self, at: float, address: str, account: str = "", user_agent: str = "") -> ListMatch | None:
        own = super().find(at, address, account, user_agent) if self._has_own else None
        return own if own is not None else self._common.find(at, address, account, user_agent)


def _first_in_force(notes: _Notes, at: float) -> Note | None:
    for note in notes:
        if note.ends > at:
            return note
    return None

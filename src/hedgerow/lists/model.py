"""
Lists: who is let in, or kept out, by the administrator's word. White, black; everybody else is unknown.

Where several entries speak of one visit the most specific counts: an account before any address, a longer prefix before
a shorter one, every network before its operator (ASN), and all of them before a user agent, which is anybody's claim.
Where two are as specific, white wins. An entry is in force until its end; *since* only says when it was made.

Among a million networks a look-up costs one to two microseconds, whether something is found or not (`bench/lists.py`);
how is said in `networks`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Literal, get_args

import msgspec

from hedgerow.core.decision import Action, Decision, Evidence
from hedgerow.core.ip_bytes import format_ipv4, format_ipv6, pack_ipv4, pack_ipv6
from hedgerow.lists.lookup import NetworksV4, NetworksV6

ListName = Literal["white", "black"]
SubjectKind = Literal["address", "network", "account", "agent", "asn"]
LISTS: tuple[ListName, ...] = get_args(ListName)
SORTS: tuple[SubjectKind, ...] = get_args(SubjectKind)
AsnOf = Callable[[str], int]
"""The number of the network operator of an address, 0 where it is not known."""

ACCOUNT, AGENT, ASN = "account:", "agent:", "AS"

_LONGEST_SUBJECT = 300
_LONGEST_TEXT = 500
_CACHED = 1 << 14
_V4, _V6 = 4, 6
_V4_BITS, _V6_BITS = 32, 128
_MOST_ASN = 2**32 - 1

_ASN = re.compile(r"as\s*(\d{1,10})", re.ASCII | re.IGNORECASE)


class Listing(msgspec.Struct, frozen=True, gc=False):
    """An entry of a list: whom, why, by whom, since when and until when, in seconds since 1970; 0: for good."""

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
    Whom an entry is about, in its canonical form.

    For networks: *version*, the first address as the number *start*, and *shift*, how many bits the network leaves
    open. *name* is the account's name or the pattern, *number* the operator's.
    """

    sort: SubjectKind
    text: str
    version: int = 0
    start: int = 0
    shift: int = 0
    name: str = ""
    number: int = 0


def parse_subject(text: str) -> Subject:
    """
    The subject in *text*; ValueError with a sentence where it is none.

    >>> [parse_subject(s).text for s in ("192.0.2.1/32", "2001:DB8::/32", "as64496", "agent:*Bot*", "account:ann")]
    ['192.0.2.1', '2001:db8::/32', 'AS64496', 'agent:*Bot*', 'account:ann']
    """
    text = text.strip()
    if (subject := _quick(text)) is not None:
        return subject
    if len(text) > _LONGEST_SUBJECT or not text.isprintable():
        raise ValueError(f"{text[:40]!r} is too long, or holds what cannot be printed")
    if text.startswith(ACCOUNT):
        name = text.removeprefix(ACCOUNT).strip()
        if not name:
            raise ValueError("'account:' names no account; write it like account:ann")
        return Subject("account", ACCOUNT + name, name=name)
    if text.startswith(AGENT):
        pattern = text.removeprefix(AGENT).strip()
        if not pattern.replace("*", "").strip():
            raise ValueError(f"{text!r} would fit every visitor; write it like agent:*Bot*")
        return Subject("agent", AGENT + pattern, name=pattern)
    if found := _ASN.fullmatch(text):
        number = int(found[1])
        if not 0 < number <= _MOST_ASN:
            raise ValueError(f"{text!r} is not the number of a network operator; write it like AS64496")
        return Subject("asn", f"{ASN}{number}", number=number)
    return _network(text)


def _quick(text: str) -> Subject | None:
    """The address or network in *text*, or None where it needs a closer look: the quick way for long imports."""
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
    # Where its first bits are zeros it may be an address of IPv4 in disguise.
    if shift < 0 or start & ((1 << shift) - 1) or (is_v6 and not start >> 48):
        return None
    return Subject("network" if shift else "address", network_text(version, start, shift), version, start, shift)


def _network(text: str) -> Subject:
    try:
        network = ip_network(text)
    except ValueError:
        try:
            meant = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"{text!r} is no address, network, account:NAME, agent:PATTERN or AS number") from None
        raise ValueError(f"{text!r} is no network; {meant} is") from None
    if "%" in text:
        raise ValueError(f"{text!r} names an interface; write the address alone")
    if isinstance(network, IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= _V6_BITS - _V4_BITS:
            network = IPv4Network((int(mapped), network.prefixlen - (_V6_BITS - _V4_BITS)))
    shift = network.max_prefixlen - network.prefixlen
    text = str(network) if shift else str(network.network_address)
    start = int(network.network_address)
    return Subject("network" if shift else "address", text, network.version, start, shift)


def network_text(version: int, start: int, shift: int) -> str:
    """A network as one writes it; an address where it holds no other."""
    if version == _V4:
        text = format_ipv4(start.to_bytes(4))
        return f"{text}/{_V4_BITS - shift}" if shift else text
    text = format_ipv6(start.to_bytes(16))
    return f"{text}/{_V6_BITS - shift}" if shift else text


def clean_text(text: str) -> str:
    """A reason or an author as lists keep it: one line, printable, not too long."""
    line = " ".join(text.split())[:_LONGEST_TEXT].strip()
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def pattern_fits(pattern: str, user_agent: str) -> bool:
    """
    Whether a user agent has the form of *pattern*, in which `*` stands for anything. Small letters are as capitals.

    Takes time in proportion to the user agent, whatever the pattern.

    >>> pattern_fits("*scrapy/*", "Scrapy/2.12 (+https://scrapy.org)"), pattern_fits("curl", "curl/8.0")
    (True, False)
    """
    return _fits(pattern.lower().split("*"), user_agent.lower())


def _fits(parts: Sequence[str], text: str) -> bool:
    first, *rest = parts
    if not rest:
        return text == first
    *middle, last = rest
    if not text.startswith(first):
        return False
    position, end = len(first), len(text) - len(last)
    if end < position or not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


class Note(msgspec.Struct, frozen=True, gc=False):
    """
    What an entry says besides its subject, and what it leads to. Entries of one import share it.

    *ends* is *until*, or never. What comes after it is made of the rest: see `decide`.
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
"""The notes on one subject, white before black."""
ListMatch = tuple[Note, str]
"""An entry as it is looked up: what it says, and its subject."""

_WHOSE: dict[SubjectKind, str] = {
    "address": "This address",
    "network": "This network",
    "account": "This account",
    "agent": "This user agent",
    "asn": "The operator of this network",
}


def _note(sort: SubjectKind, name: ListName, reason: str, author: str, since: float, until: float) -> Note:
    black = name == "black"
    details = "; ".join(part for part in (reason and f"reason: {reason}", author and f"by: {author}") if part)
    return Note(
        name,
        reason,
        author,
        since,
        until,
        ends=until or math.inf,
        action="refuse" if black else "pass",
        code=f"list-{name}",
        weight=1.0 if black else 0.0,
        text=f"{_WHOSE[sort]} is on the {name} list.",
        details=details,
    )


def entry_of(found: ListMatch) -> Listing:
    """What was found as an entry of a list."""
    note, subject = found
    return Listing(note.list, subject, note.reason, note.author, note.since, note.until)


def decide(found: ListMatch) -> Decision:
    """
    What an entry leads to: white passes, black is refused.

    The evidence names the entry; its reason and author are in the details, for the administrator and not for the
    visitor.
    """
    note, subject = found
    evidence = Evidence("lists", note.code, note.weight, note.text, subject, note.details)
    return Decision(note.action, (evidence,), note.until)


def _no_asn(_: str) -> int:
    return 0


def _no_pause() -> None:
    pass


class Lists:
    """
    All entries, ready to be looked up.

    One thread at a time may `put` and `drop`; what it changed counts once it has called `settle`. Others may `find`
    meanwhile.
    """

    def __init__(self, listings: Iterable[Listing] = (), *, asn_of: AsnOf | None = None) -> None:
        self._v4: NetworksV4[Note] = NetworksV4()
        self._v6: NetworksV6[Note] = NetworksV6()
        self._accounts: dict[str, _Notes] = {}
        self._asns: dict[int, _Notes] = {}
        self._agents: dict[str, _Notes] = {}
        self._patterns: tuple[tuple[list[str], str, _Notes], ...] = ()
        self._asn_of = asn_of or _no_asn
        self._operators: dict[str, int] = {}
        self._claims: dict[str, tuple[tuple[str, _Notes], ...]] = {}
        self._notes: dict[tuple[Any, ...], _Notes] = {}
        self._any = False
        self.sizes: dict[ListName, int] = dict.fromkeys(LISTS, 0)
        """How many entries each list has, those that have ended among them."""
        for listing in listings:
            self.put(listing)
        self.settle()

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def put(self, listing: Listing) -> None:
        """Take an entry, in place of the one on the same subject in the same list."""
        subject = parse_subject(listing.subject)
        place, key = self._place(subject)
        said = subject.sort, listing.list, listing.reason, listing.author, listing.since, listing.until
        alone = self._notes.get(said)
        if alone is None:
            alone = self._notes[said] = (_note(*said),)
        notes = place.get(key)
        if notes is None:
            place[key] = alone
            self.sizes[listing.list] += 1
            return
        (note,) = alone
        others = tuple(n for n in notes if n.list != listing.list)
        place[key] = (note, *others) if note.list == "white" else (*others, note)
        self.sizes[listing.list] += len(others) == len(notes)

    def drop(self, name: ListName, subject: str) -> None:
        """Forget an entry, where there is one."""
        place, key = self._place(parse_subject(subject))
        notes = place.get(key, ())
        others = tuple(note for note in notes if note.list != name)
        if len(others) == len(notes):
            return
        self.sizes[name] -= 1
        if others:
            place[key] = others
        else:
            del place[key]

    def clear(self) -> None:
        """Forget all entries."""
        self._v4.clear()
        self._v6.clear()
        self._accounts, self._asns, self._agents = {}, {}, {}
        self.sizes = dict.fromkeys(LISTS, 0)

    def use(self, asn_of: AsnOf) -> None:
        """Ask this for the operators of addresses from now on."""
        self._asn_of = asn_of
        self._operators = {}

    def settle(self, pause: Callable[[], None] = _no_pause) -> None:
        """What was put and dropped counts from now on. *pause* is called now and then, for others to do their work."""
        self._v4.settle(pause)
        self._v6.settle(pause)
        # White patterns first: user agents know no other order.
        self._patterns = tuple(
            (pattern.lower().split("*"), pattern, (note,))
            for name in LISTS
            for pattern, notes in self._agents.items()
            for note in notes
            if note.list == name
        )
        self._notes = {}
        self._any = any(self.sizes.values())
        # A new one, not a cleared one: a look-up that is under way puts what it found into the old.
        self._claims = {}

    def _place(self, subject: Subject) -> tuple[dict[Any, _Notes], int | str]:
        if subject.version:
            return (self._v4 if subject.version == _V4 else self._v6).place(subject.start, subject.shift)
        if subject.sort == "asn":
            return self._asns, subject.number
        return self._accounts if subject.sort == "account" else self._agents, subject.name

    def find(self, at: float, address: str, account: str = "", user_agent: str = "") -> ListMatch | None:
        """The entry that counts for who asks at *at*, or None where nobody knows it."""
        if not self._any:
            return None
        if account and (notes := self._accounts.get(account)) and (note := _first(notes, at)):
            return note, ACCOUNT + account
        try:
            found = self._v6.find(at, address) if ":" in address else self._v4.find(at, address)
        except (OSError, ValueError):
            # A host name in a log, or the empty address of a Unix socket.
            pass
        else:
            if found is not None:
                return found
            if self._asns and (note := _first(self._asns.get(number := self._operator(address), ()), at)):
                return note, f"{ASN}{number}"
        if self._patterns:
            for pattern, notes in self._claim(user_agent):
                if note := _first(notes, at):
                    return note, AGENT + pattern
        return None

    def _operator(self, address: str) -> int:
        operators = self._operators
        number = operators.get(address)
        if number is None:
            number = self._asn_of(address)
            if len(operators) >= _CACHED:
                operators = self._operators = {}
            operators[address] = number
        return number

    def _claim(self, user_agent: str) -> tuple[tuple[str, _Notes], ...]:
        claims = self._claims
        found = claims.get(user_agent)
        if found is None:
            text = user_agent.lower()
            found = tuple((pattern, notes) for parts, pattern, notes in self._patterns if _fits(parts, text))
            if len(user_agent) <= _LONGEST_SUBJECT:
                if len(claims) >= _CACHED:
                    claims = self._claims = {}
                claims[user_agent] = found
        return found


def _first(notes: _Notes, at: float) -> Note | None:
    """The first of the notes that is in force."""
    for note in notes:
        if note.ends > at:
            return note
    return None

"""
Lists: who is let in, or kept out, by the administrator's word. White, black; everybody else is unknown.

Where several entries speak of one visit the most specific counts: an account before any address, a longer prefix before
a shorter one, every network before its operator (ASN), and all of them before a user agent, which is anybody's claim.
Where two are as specific, white wins. An entry is in force until its end; *since* only says when it was made.

Among a million networks a look-up costs half a microsecond for an address seen lately, and 2 to 4 for one never seen
(`bench/lists.py`). Networks are kept in buckets by their
first bits, and each bucket as a sorted row of stretches, within which the same networks hold an address: one look-up
finds the bucket, one bisection the stretch. Networks too short for a bucket are few, and looked up by their length.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, Literal, get_args

import msgspec

from hedgerow.verdict import Decision, Evidence
from hedgerow.visit import Visit

ListName = Literal["white", "black"]
Sort = Literal["address", "network", "account", "agent", "asn"]
LISTS: tuple[ListName, ...] = get_args(ListName)
SORTS: tuple[Sort, ...] = get_args(Sort)
AsnOf = Callable[[str], int]
"""The number of the network operator of an address, 0 where it is not known."""

ACCOUNT, AGENT, ASN = "account:", "agent:", "AS"

_LONGEST_SUBJECT = 300
_LONGEST_TEXT = 500
# No address is longer; what is longer must not fill the cache.
_LONGEST_ADDRESS = 45
_CACHED = 1 << 14
# All buckets of IPv4.
_MOST_WHOLE = 1 << 16
_V4, _V6 = 4, 6
_V4_BITS, _V6_BITS = 32, 128
_MOST_ASN = 2**32 - 1

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:/(\d{1,2}))?", re.ASCII)
_ASN = re.compile(r"as\s*(\d{1,10})", re.ASCII | re.IGNORECASE)


class Listing(msgspec.Struct, frozen=True):
    """An entry of a list: whom, why, by whom, since when and until when, in seconds since 1970; 0: for good."""

    list: ListName
    subject: str
    reason: str = ""
    author: str = ""
    since: float = 0.0
    until: float = 0.0

    def in_force(self, at: float) -> bool:
        return not self.until or self.until > at


class Asker(msgspec.Struct, frozen=True, gc=False):
    """As much of a visit as the lists look at, for who has no more: quicker to make than a visit."""

    at: float
    address: str
    account: str = ""
    user_agent: str = ""


class Subject(msgspec.Struct, frozen=True, gc=False):
    """
    Whom an entry is about, in its canonical form.

    For networks: *version*, the first address as the number *start*, and *shift*, how many bits the network leaves
    open. *name* is the account's name or the pattern, *number* the operator's.
    """

    sort: Sort
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
    if found := _IPV4.fullmatch(text):
        subject = _ipv4(found)
        if subject is not None:
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


def _ipv4(found: re.Match[str]) -> Subject | None:
    """The address or network in a match, or None where it needs a closer look: the quick way for long imports."""
    *parts, prefix = found.groups()
    start = 0
    for part in parts:
        if part[0] == "0" and part != "0":
            return None
        value = int(part)
        if value > 255:  # noqa: PLR2004 - a byte
            return None
        start = start << 8 | value
    shift = 0 if prefix is None else _V4_BITS - int(prefix)
    if shift < 0 or start & ((1 << shift) - 1):
        return None
    if not shift:
        return Subject("address", found[0].partition("/")[0], _V4, start)
    return Subject("network", f"{'.'.join(parts)}/{_V4_BITS - shift}", _V4, start, shift)


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
        text = f"{start >> 24}.{start >> 16 & 255}.{start >> 8 & 255}.{start & 255}"
        return f"{text}/{_V4_BITS - shift}" if shift else text
    address = str(IPv6Address(start))
    return f"{address}/{_V6_BITS - shift}" if shift else address


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


class _Note(msgspec.Struct, frozen=True, gc=False):
    """What an entry says besides its subject. Entries of one import share it."""

    list: ListName
    reason: str
    author: str
    since: float
    until: float


_Notes = tuple[_Note, ...]
"""The notes on one subject, white before black."""
_Chain = tuple[tuple[int, _Notes], ...]
"""The networks that hold an address, the smallest first, each by its shift; then its operator, as a negative number."""

_Row = tuple[Sequence[int], Sequence[_Chain]]
"""The stretches of a bucket: where each begins, and the networks that hold its addresses."""


class _Networks:
    """
    The networks of one version of IP.

    Those with at least *bucket* bits are members of the bucket of their first bits. What is looked up is made of the
    members by `settle`, bucket by bucket, and put in place at once: a look-up in another thread sees the old or the
    new.
    """

    def __init__(self, bits: int, bucket: int) -> None:
        self._bits = bits
        self._open = bits - bucket
        self._members: dict[int, dict[int, _Notes]] = {}
        self._short: dict[int, dict[int, _Notes]] = {}
        self._shifts: tuple[int, ...] = ()
        self._rows: dict[int, _Row] = {}
        # The same with the networks that hold the whole of a bucket: of the buckets that were asked for.
        self._whole: dict[int, _Row] = {}
        self._changed: set[int] = set()

    def place(self, subject: Subject) -> tuple[dict[int, _Notes], int]:
        """The dictionary in which a network's notes are to be, and its key; it is held to be about to change."""
        if subject.shift > self._open:
            return self._short.setdefault(subject.shift, {}), subject.start >> subject.shift
        bucket = subject.start >> self._open
        self._changed.add(bucket)
        return self._members.setdefault(bucket, {}), subject.start << 8 | subject.shift

    def clear(self) -> None:
        self._changed.update(self._members)
        self._members = {bucket: {} for bucket in self._members}
        self._short = {shift: {} for shift in self._short}

    def settle(self, pause: Callable[[], None]) -> None:
        self._shifts = tuple(sorted(shift for shift, networks in self._short.items() if networks))
        chains: dict[tuple[int, int], _Chain] = {}
        while self._changed:
            bucket = self._changed.pop()
            members = self._members[bucket]
            if members:
                self._rows[bucket] = self._row(bucket, members, chains)
            else:
                self._rows.pop(bucket, None)
                del self._members[bucket]
            pause()
        # A new one, not a cleared one: a look-up that is under way puts what it found into the old.
        self._whole = {}

    def _row(self, bucket: int, members: dict[int, _Notes], chains: dict[tuple[int, int], _Chain]) -> _Row:
        """The stretches of a bucket: where each begins, and the chain of networks that hold its addresses."""
        first = bucket << self._open
        starts: MutableSequence[int] = array("I", (first,)) if self._bits == _V4_BITS else [first]
        row: list[_Chain] = [()]
        enclosing: list[tuple[int, _Chain]] = []

        def begin(at: int, chain: _Chain) -> None:
            if starts[-1] == at:
                row[-1] = chain
            else:
                starts.append(at)
                row.append(chain)

        def leave(before: int) -> None:
            while enclosing and enclosing[-1][0] <= before:
                end, _ = enclosing.pop()
                begin(end, enclosing[-1][1] if enclosing else ())

        # A network before those that it holds: they begin at the same address or later, and leave fewer bits open.
        for start, shift, key in sorted((key >> 8, -(key & 255), key) for key in members):
            leave(start)
            link = (-shift, members[key])
            # Most networks are alone, and most entries are of one import: their chains are one.
            alone = chains.setdefault((shift, id(link[1])), (link,))
            chain = (link, *enclosing[-1][1]) if enclosing else alone
            enclosing.append((start + (1 << -shift), chain))
            begin(start, chain)
        leave(first + (1 << self._open) - 1)
        return starts, tuple(row)

    def chain(self, number: int) -> _Chain:
        """The networks that hold an address."""
        bucket = number >> self._open
        row = self._whole.get(bucket)
        if row is None:
            row = self._whole_row(bucket)
        return row[1][bisect_right(row[0], number) - 1]

    def _whole_row(self, bucket: int) -> _Row:
        whole = self._whole
        first = bucket << self._open
        row = self._rows.get(bucket, ((first,), ((),)))
        found = ((shift, self._short[shift].get(first >> shift)) for shift in self._shifts)
        over = tuple((shift, notes) for shift, notes in found if notes)
        if over:
            row = (row[0], tuple(chain + over for chain in row[1]))
        if len(whole) >= _MOST_WHOLE:
            whole = self._whole = {}
        whole[bucket] = row
        return row


# What each part of an IPv4 address adds to its number: twice as quick as `int`, and nothing else is a part.
_FIRST, _SECOND, _THIRD, _FOURTH = ({str(n): n << shift for n in range(256)} for shift in (24, 16, 8, 0))


_GROUPS = "%4s" * 8


def _ipv4_number(text: str) -> int:
    a, b, c, d = text.split(".")
    return _FIRST[a] | _SECOND[b] | _THIRD[c] | _FOURTH[d]


def _ipv6_number(text: str) -> int:
    """The number of an IPv6 address; `ipaddress` takes several times as long."""
    head, double, tail = text.partition("::")
    groups = head.split(":") if head else []
    if double:
        after = tail.split(":") if tail else []
        groups += ["0"] * (8 - len(groups) - len(after)) + after
    if len(groups) != 8 or "." in text:  # noqa: PLR2004 - so many groups has an address
        return int(IPv6Address(text))
    return int((_GROUPS % tuple(groups)).replace(" ", "0"), 16)


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
        self._networks = {_V4: _Networks(_V4_BITS, 16), _V6: _Networks(_V6_BITS, 32)}
        self._v4, self._v6 = self._networks[_V4], self._networks[_V6]
        self._accounts: dict[str, _Notes] = {}
        self._asns: dict[int, _Notes] = {}
        self._agents: dict[str, _Notes] = {}
        self._patterns: tuple[tuple[list[str], str, _Notes], ...] = ()
        self._asn_of = asn_of or _no_asn
        self._chains: dict[str, _Chain] = {}
        self._claims: dict[str, tuple[tuple[str, _Notes], ...]] = {}
        self._notes: dict[_Note, _Notes] = {}
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
        note = _Note(listing.list, listing.reason, listing.author, listing.since, listing.until)
        place, key = self._place(parse_subject(listing.subject))
        notes = place.get(key)
        if notes is None:
            place[key] = self._notes.setdefault(note, (note,))
            self.sizes[listing.list] += 1
            return
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
        for networks in self._networks.values():
            networks.clear()
        self._accounts, self._asns, self._agents = {}, {}, {}
        self.sizes = dict.fromkeys(LISTS, 0)

    def use(self, asn_of: AsnOf) -> None:
        """Ask this for the operators of addresses from now on."""
        self._asn_of = asn_of
        self._chains = {}

    def settle(self, pause: Callable[[], None] = _no_pause) -> None:
        """What was put and dropped counts from now on. *pause* is called now and then, for others to do their work."""
        for networks in self._networks.values():
            networks.settle(pause)
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
        # New ones, not cleared ones: a look-up that is under way puts what it found into the old.
        self._chains = {}
        self._claims = {}

    def _place(self, subject: Subject) -> tuple[dict[Any, _Notes], int | str]:
        if subject.version:
            return self._networks[subject.version].place(subject)
        if subject.sort == "asn":
            return self._asns, subject.number
        return self._accounts if subject.sort == "account" else self._agents, subject.name

    def find(self, visit: Visit | Asker) -> Listing | None:
        """The entry that counts for a visit, or None where its maker is unknown."""
        if not self._any:
            return None
        at, address = visit.at, visit.address
        if visit.account and self._accounts and (note := _first(self._accounts.get(visit.account, ()), at)):
            return _listing(ACCOUNT + visit.account, note)
        chain = self._chains.get(address)
        if chain is None:
            chain = self._chain(address)
        for shift, notes in chain:
            if note := _first(notes, at):
                return _listing(_subject_of(address, shift), note)
        if self._patterns:
            for pattern, notes in self._claim(visit.user_agent):
                if note := _first(notes, at):
                    return _listing(AGENT + pattern, note)
        return None

    def _chain(self, address: str) -> _Chain:
        if len(address) > _LONGEST_ADDRESS:
            return ()
        chains = self._chains
        try:
            is_v6 = ":" in address
            chain = self._v6.chain(_ipv6_number(address)) if is_v6 else self._v4.chain(_ipv4_number(address))
        except (ValueError, KeyError):
            # A host name in a log, or the empty address of a Unix socket.
            return ()
        if self._asns and (notes := self._asns.get(number := self._asn_of(address))):
            chain = (*chain, (-number, notes))
        if len(chains) >= _CACHED:
            chains = self._chains = {}
        chains[address] = chain
        return chain

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


def _first(notes: _Notes, at: float) -> _Note | None:
    """The first of the notes that is in force."""
    for note in notes:
        if not note.until or note.until > at:
            return note
    return None


def _listing(subject: str, note: _Note) -> Listing:
    return Listing(note.list, subject, note.reason, note.author, note.since, note.until)


def _subject_of(address: str, shift: int) -> str:
    if shift < 0:
        return f"{ASN}{-shift}"
    if not shift:
        return address
    if ":" in address:
        return network_text(_V6, _ipv6_number(address) >> shift << shift, shift)
    return network_text(_V4, _ipv4_number(address) >> shift << shift, shift)


_WHOSE: dict[Sort, str] = {
    "address": "This address",
    "network": "This network",
    "account": "This account",
    "agent": "This user agent",
    "asn": "The operator of this network",
}


def decide(listing: Listing) -> Decision:
    """
    What an entry leads to: white passes, black is refused.

    The evidence names the entry; its reason and author are in the details, for the administrator and not for the
    visitor.
    """
    text = f"{_WHOSE[parse_subject(listing.subject).sort]} is on the {listing.list} list."
    said = "; ".join(
        f"{name}: {value}" for name, value in (("reason", listing.reason), ("by", listing.author)) if value
    )
    evidence = Evidence(
        "lists",
        f"list-{listing.list}",
        1.0 if listing.list == "black" else 0.0,
        text,
        key=listing.subject,
        details=said,
    )
    return Decision("refuse" if listing.list == "black" else "pass", (evidence,), listing.until)

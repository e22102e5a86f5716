"""
Export of lists to plain text, CSV, JSON, and to files for nginx, Apache, HAProxy, nftables and ipset.

A program that chooses the most specific network itself (nginx `geo`, HAProxy) gets both lists. The others get the black
list without the white list: the smallest number of networks that do not overlap. These formats contain addresses only.
Accounts, user agents and operators are left out, and a comment says how many.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal, get_args

from hedgerow.lists.importer import COLUMNS
from hedgerow.lists.model import Listing, ListName, network_text, parse_subject
from hedgerow.lists.times import iso

Target = Literal["plain", "csv", "json", "nginx-deny", "nginx-geo", "apache", "haproxy", "nftables", "ipset"]
TARGETS: tuple[Target, ...] = get_args(Target)

_NEEDS_QUOTES = re.compile(r'["#;]')
_BATCH_SIZE = 500
_MAX_IPSET = 4_194_304
_BITS = {4: 32, 6: 128}

_Network = tuple[int, int, int]
"""Version, first address, host bits."""


def write(target: Target, listings: Iterable[Listing], *, at: float) -> Iterator[str]:
    """Yield the text of an export of entries in force, of one list for `plain`. *at* is the time in its comment."""
    if target in _ENTRY_WRITERS:
        yield from _ENTRY_WRITERS[target](listings)
        return
    networks = _Networks(listings)
    left_out = f"; {networks.others} entries that are no addresses are left out" if networks.others else ""
    yield f"# Written by Hedgerow, {iso(float(int(at)))}{left_out}.\n"
    if target in _NETWORK_WRITERS:
        yield from _NETWORK_WRITERS[target](networks)
        return
    begin, line, end = _LINES[target]
    yield begin
    if line.count("{}") > 1:
        yield from (line.format(network_text(*network), name) for network, name in networks.networks.items())
    else:
        yield from (line.format(network) for version in _BITS for network in networks.refused(version))
    yield end


def fields_of(listing: Listing) -> dict[str, str | None]:
    """Return an entry as in JSON. No end is null."""
    return {
        "list": listing.list, "subject": listing.subject, "reason": listing.reason, "author": listing.author,
        "since": iso(listing.since) or None, "until": iso(listing.until) or None,
    }  # fmt: skip


def _plain(listings: Iterable[Listing]) -> Iterator[str]:
    for listing in listings:
        subject = listing.subject
        if _NEEDS_QUOTES.search(subject):
            subject = json.dumps(subject, ensure_ascii=False)
        yield f"{subject} # {listing.reason}\n" if listing.reason else f"{subject}\n"


def _csv(listings: Iterable[Listing]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for listing in listings:
        writer.writerow("" if value is None else value for value in fields_of(listing).values())
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def _json(listings: Iterable[Listing]) -> Iterator[str]:
    before = "[\n"
    for listing in listings:
        yield before + json.dumps(fields_of(listing), ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


class _Networks:
    """The networks among the listings. A network in both lists is white."""

    def __init__(self, listings: Iterable[Listing]) -> None:
        self.networks: dict[_Network, ListName] = {}
        self.others = 0
        for listing in listings:
            subject = parse_subject(listing.subject)
            if not subject.version:
                self.others += 1
                continue
            network = (subject.version, subject.start, subject.shift)
            if self.networks.get(network) != "white":
                self.networks[network] = listing.list

    def refused(self, version: int) -> Iterator[str]:
        """Yield the black list without the white list as networks that do not overlap."""
        for first, last in _joined(self._ranges(version)):
            for start, shift in _cut(first, last):
                yield network_text(version, start, shift)

    def _ranges(self, version: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of addresses whose most specific entry is black, in order."""
        within: list[tuple[int, ListName]] = []
        at = 0
        networks = sorted((start, -shift, name) for (v, start, shift), name in self.networks.items() if v == version)
        for start, negative, name in networks:
            while within and within[-1][0] < start:
                last, outer = within.pop()
                if outer == "black" and at <= last:
                    yield at, last
                at = last + 1
            if within and within[-1][1] == "black" and at < start:
                yield at, start - 1
            at = start
            within.append((start + (1 << -negative) - 1, name))
        while within:
            last, outer = within.pop()
            if outer == "black" and at <= last:
                yield at, last
            at = max(at, last + 1)


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join adjacent ranges."""
    current: tuple[int, int] | None = None
    for first, last in ranges:
        if current is not None and current[1] + 1 == first:
            current = (current[0], last)
            continue
        if current is not None:
            yield current
        current = (first, last)
    if current is not None:
        yield current


def _cut(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Split a range of addresses into networks: the start and host bits of each."""
    while first <= last:
        shift = (last - first + 1).bit_length() - 1
        if first:
            shift = min(shift, (first & -first).bit_length() - 1)
        yield first, shift
        first += 1 << shift


def _nftables(networks: _Networks) -> Iterator[str]:
    yield "add table inet hedgerow\n"
    for version in _BITS:
        name = f"inet hedgerow black{version}"
        yield f"add set {name} {{ type ipv{version}_addr; flags interval; }}\nflush set {name}\n"
        refused = networks.refused(version)
        while batch := list(islice(refused, _BATCH_SIZE)):
            yield f"add element {name} {{ {', '.join(batch)} }}\n"


def _ipset(networks: _Networks) -> Iterator[str]:
    """Fill a second set, then swap it in. A set cannot contain /0, so that network is cut in half."""
    for version, bits in _BITS.items():
        name = f"hedgerow{version}"
        kind = f"hash:net family inet{'6' if version == 6 else ''} maxelem {_MAX_IPSET} -exist"  # noqa: PLR2004
        yield f"create {name} {kind}\ncreate {name}-new {kind}\nflush {name}-new\n"
        for network in networks.refused(version):
            halves = [network]
            if network.endswith("/0"):
                halves = [network_text(version, half << bits - 1, bits - 1) for half in (0, 1)]
            for half in halves:
                yield f"add {name}-new {half}\n"
        yield f"swap {name}-new {name}\ndestroy {name}-new\n"


_ENTRY_WRITERS: dict[Target, Callable[[Iterable[Listing]], Iterator[str]]] = {
    "plain": _plain, "csv": _csv, "json": _json,
}  # fmt: skip
_NETWORK_WRITERS: dict[Target, Callable[[_Networks], Iterator[str]]] = {"nftables": _nftables, "ipset": _ipset}
_LINES: dict[Target, tuple[str, str, str]] = {
    "nginx-deny": ("", "deny {};\n", ""),
    "nginx-geo": ('geo $hedgerow_list {\n    default "";\n', "    {} {};\n", "}\n"),
    "apache": ("<RequireAll>\n    Require all granted\n", "    Require not ip {}\n", "</RequireAll>\n"),
    "haproxy": ("", "{} {}\n", ""),
}
"""Beginning, line and end. A line with the name of the list is for both lists, one without is for the black list."""

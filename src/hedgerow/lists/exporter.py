"""
Lists going out: plain text, CSV and JSON for ourselves, and what nginx, Apache, HAProxy, nftables and ipset read.

Where a program takes the most specific network itself (nginx `geo`, HAProxy), it gets both lists. The others get what
remains of the black list when the white one is taken out of it: networks that do not overlap, as few as there can be.
They hold addresses only; accounts, user agents and operators stay behind, and a comment says how many.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from hedgerow.lists.importer import COLUMNS
from hedgerow.lists.model import Listing, ListName, network_text, parse_subject
from hedgerow.lists.times import iso

Target = Literal["plain", "csv", "json", "nginx-deny", "nginx-geo", "apache", "haproxy", "nftables", "ipset"]
TARGETS: tuple[Target, ...] = get_args(Target)

_NEEDS_QUOTES = re.compile(r'["#;]')
_AT_ONCE = 500
_MOST_IN_SET = 4_194_304
_BITS = {4: 32, 6: 128}

_Network = tuple[int, int, int]
"""Version, first address, open bits."""


def write(target: Target, listings: Iterable[Listing], *, at: float) -> Iterator[str]:
    """
    The text of an export, piece by piece. *at* goes into a comment.

    The listings are those in force, white and black; `plain` takes one list, the one that they are of.
    """
    return _WRITERS[target](listings, at)


def fields_of(listing: Listing) -> dict[str, str | None]:
    """An entry as JSON has it; no end is null."""
    return {
        "list": listing.list,
        "subject": listing.subject,
        "reason": listing.reason,
        "author": listing.author,
        "since": iso(listing.since) or None,
        "until": iso(listing.until) or None,
    }


def _plain(listings: Iterable[Listing], _: float) -> Iterator[str]:
    for listing in listings:
        subject = listing.subject
        if _NEEDS_QUOTES.search(subject):
            subject = json.dumps(subject, ensure_ascii=False)
        yield f"{subject} # {listing.reason}\n" if listing.reason else f"{subject}\n"


def _csv(listings: Iterable[Listing], _: float) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for listing in listings:
        writer.writerow("" if value is None else value for value in fields_of(listing).values())
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def _json(listings: Iterable[Listing], _: float) -> Iterator[str]:
    before = "[\n"
    for listing in listings:
        yield before + json.dumps(fields_of(listing), ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


class _Chosen:
    """The networks among the listings, one entry for each: white where it is in both lists."""

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

    def comment(self, at: float) -> str:
        left = f"; {self.others} entries that are no addresses are left out" if self.others else ""
        return f"# Written by Hedgerow, {iso(float(int(at)))}{left}.\n"

    def refused(self, version: int) -> Iterator[str]:
        """What is to be refused: the black list less the white one, as networks that do not overlap."""
        for first, last in _joined(self._stretches(version)):
            for start, shift in _cut(first, last):
                yield network_text(version, start, shift)

    def _stretches(self, version: int) -> Iterator[tuple[int, int]]:
        """Stretches of addresses, from the first to the last, of which the most specific entry is black; in order."""
        within: list[tuple[int, ListName]] = []
        at = 0
        networks = sorted((start, -shift, name) for (of, start, shift), name in self.networks.items() if of == version)
        for start, negative, name in networks:
            while within and within[-1][0] < start:
                last, of = within.pop()
                if of == "black" and at <= last:
                    yield at, last
                at = last + 1
            if within and within[-1][1] == "black" and at < start:
                yield at, start - 1
            at = start
            within.append((start + (1 << -negative) - 1, name))
        while within:
            last, of = within.pop()
            if of == "black" and at <= last:
                yield at, last
            at = max(at, last + 1)


def _joined(stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same with neighbours joined."""
    known: tuple[int, int] | None = None
    for first, last in stretches:
        if known is not None and known[1] + 1 == first:
            known = (known[0], last)
            continue
        if known is not None:
            yield known
        known = (first, last)
    if known is not None:
        yield known


def _cut(first: int, last: int) -> Iterator[tuple[int, int]]:
    """A stretch of addresses as networks: the start and open bits of each."""
    while first <= last:
        shift = (last - first + 1).bit_length() - 1
        if first:
            shift = min(shift, (first & -first).bit_length() - 1)
        yield first, shift
        first += 1 << shift


def _nginx_deny(listings: Iterable[Listing], at: float) -> Iterator[str]:
    chosen = _Chosen(listings)
    yield chosen.comment(at)
    for version in _BITS:
        for network in chosen.refused(version):
            yield f"deny {network};\n"


def _nginx_geo(listings: Iterable[Listing], at: float) -> Iterator[str]:
    chosen = _Chosen(listings)
    yield chosen.comment(at)
    yield 'geo $hedgerow_list {\n    default "";\n'
    for network, name in chosen.networks.items():
        yield f"    {network_text(*network)} {name};\n"
    yield "}\n"


def _apache(listings: Iterable[Listing], at: float) -> Iterator[str]:
    chosen = _Chosen(listings)
    yield chosen.comment(at)
    yield "<RequireAll>\n    Require all granted\n"
    for version in _BITS:
        for network in chosen.refused(version):
            yield f"    Require not ip {network}\n"
    yield "</RequireAll>\n"


def _haproxy(listings: Iterable[Listing], at: float) -> Iterator[str]:
    chosen = _Chosen(listings)
    yield chosen.comment(at)
    for network, name in chosen.networks.items():
        yield f"{network_text(*network)} {name}\n"


def _nftables(listings: Iterable[Listing], at: float) -> Iterator[str]:
    chosen = _Chosen(listings)
    yield chosen.comment(at)
    yield "add table inet hedgerow\n"
    for version in _BITS:
        name = f"inet hedgerow black{version}"
        yield f"add set {name} {{ type ipv{version}_addr; flags interval; }}\nflush set {name}\n"
        for batch in _batches(chosen.refused(version)):
            yield f"add element {name} {{ {', '.join(batch)} }}\n"


def _ipset(listings: Iterable[Listing], at: float) -> Iterator[str]:
    """Filled beside and then swapped in. A set of networks takes none of length 0, so that one is cut in half."""
    chosen = _Chosen(listings)
    yield chosen.comment(at)
    for version, bits in _BITS.items():
        name = f"hedgerow{version}"
        kind = f"hash:net family inet{'6' if version == 6 else ''} maxelem {_MOST_IN_SET} -exist"  # noqa: PLR2004
        yield f"create {name} {kind}\ncreate {name}-new {kind}\nflush {name}-new\n"
        for network in chosen.refused(version):
            halves = [network]
            if network.endswith("/0"):
                halves = [network_text(version, half << bits - 1, bits - 1) for half in (0, 1)]
            for half in halves:
                yield f"add {name}-new {half}\n"
        yield f"swap {name}-new {name}\ndestroy {name}-new\n"


def _batches(networks: Iterator[str]) -> Iterator[list[str]]:
    batch = []
    for network in networks:
        batch.append(network)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


_WRITERS: dict[Target, Callable[[Iterable[Listing], float], Iterator[str]]] = {
    "plain": _plain,
    "csv": _csv,
    "json": _json,
    "nginx-deny": _nginx_deny,
    "nginx-geo": _nginx_geo,
    "apache": _apache,
    "haproxy": _haproxy,
    "nftables": _nftables,
    "ipset": _ipset,
}

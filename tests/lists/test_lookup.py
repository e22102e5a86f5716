"""Lookup of networks; the oracle is a plain dictionary, through repeated changes."""

from __future__ import annotations

import random
from ipaddress import ip_address, ip_network

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lists import lookup as module
from hedgerow.lists.lookup import Networks, NetworksV4
from hedgerow.lists.lookup_v6 import NetworksV6
from property_tests import examples


class Note(msgspec.Struct, frozen=True):
    name: str
    ends: float


Plain = dict[tuple[int, int], tuple[Note, ...]]
KINDS = {4: (NetworksV4, 32), 6: (NetworksV6, 128)}
# The edges of buckets and chunks, of both halves of an address, and of all there is.
_OPEN = {4: [0, 0, 1, 4, 8, 15, 16, 17, 20, 24, 31, 32], 6: [0, 0, 1, 8, 62, 63, 64, 65, 95, 96, 97, 99, 112, 127, 128]}
_BASES = {
    4: [0, 0xC0000200, 0xC000FFFE, 0xC1000000, 0xFFFFFF00],
    6: [
        0,
        0x20010DB8 << 96,
        0x2A010DB8 << 96,
        (0x20010DB8 << 96) + (1 << 64) - 2,
        (0x20010DB9 << 96) - 4,
        2**128 - 256,
    ],
}


def _numbers(version: int) -> st.SearchStrategy[int]:
    return st.tuples(st.sampled_from(_BASES[version]), st.integers(0, 255)).map(lambda p: p[0] | p[1])


def _networks(version: int) -> st.SearchStrategy[tuple[int, int]]:
    pairs = st.tuples(_numbers(version), st.sampled_from(_OPEN[version]))
    return pairs.map(lambda p: (p[0] >> p[1] << p[1], p[1]))


_ROUNDS = st.sampled_from([4, 6]).flatmap(
    lambda version: st.tuples(
        st.just(version),
        st.lists(st.lists(st.tuples(_networks(version), st.integers(0, 3)), max_size=12), max_size=4),
        st.lists(_numbers(version), min_size=1, max_size=20),
    )
)


def counts(networks: Plain, version: int, number: int, at: float) -> tuple[Note, str] | None:
    """The reference: a scan of all networks."""
    bits = KINDS[version][1]
    for (start, shift), notes in sorted(networks.items(), key=lambda item: item[0][1]):
        for note in notes if start >> shift == number >> shift else ():
            if note.ends > at:
                address = ip_address(start.to_bytes(bits // 8))
                return note, str(ip_network((address, bits - shift)) if shift else address)
    return None


def change(networks: Networks[Note], plain: Plain, network: tuple[int, int], notes: tuple[Note, ...]) -> None:
    """Store a network with notes, or remove it if there are none."""
    table, key = networks.table(*network)
    if notes:
        table[key] = plain[network] = notes
    else:
        table.pop(key, None)
        plain.pop(network, None)


def compare(networks: Networks[Note], plain: Plain, version: int, numbers: list[int]) -> None:
    for number in numbers:
        address = str(ip_address(number.to_bytes(KINDS[version][1] // 8)))
        for at in (0.5, 1.5, 2.5):
            assert networks.find(at, address) == counts(plain, version, number, at), (address, at)
        if version == 6:
            # Nobody need write it the canonical way.
            assert networks.find(0.5, ip_address(address).exploded.upper()) == networks.find(0.5, address)


@given(_ROUNDS)
@examples(60)
def test_lookup_agrees_with_a_plain_scan(asked):
    version, rounds, numbers = asked
    networks: Networks[Note] = KINDS[version][0]()
    plain: Plain = {}
    short, longer, longest = (Note(name, ends) for name, ends in (("a", 1.0), ("b", 2.0), ("c", 3.0)))
    notes = [(), (short,), (longest,), (longer, longest)]
    for changes in rounds:
        before = dict(plain)
        for network, note in changes:
            change(networks, plain, network, notes[note])
            compare(networks, before, version, numbers[:1])
        networks.settle(lambda: None)
        edges = [
            edge
            for start, shift in plain
            for edge in (start - 1, start, start + (1 << shift) - 1, start + (1 << shift))
        ]
        compare(networks, plain, version, numbers + [edge for edge in edges if 0 <= edge < 1 << KINDS[version][1]])
    networks.clear()
    change(networks, (rest := {}), (numbers[0], 0), (longer,))
    compare(networks, plain, version, numbers)
    networks.settle(lambda: None)
    compare(networks, rest, version, numbers)
    change(networks, rest, (numbers[0], 0), ())
    networks.settle(lambda: None)
    compare(networks, {}, version, numbers)
    assert all(chunk is networks._empty for chunk in networks._chunks)


@pytest.mark.parametrize("version", [4, 6])
def test_many_networks_with_as_many_notes(version, monkeypatch):
    # So few that the places of stretches are of both sizes.
    monkeypatch.setattr(module, "_MAX_SHORT", 400)
    rng = random.Random(version)
    kind, bits = KINDS[version]
    head, chunk = {4: (0xC0 << 24, 8), 6: (0x20010D << 104, 24)}[version]
    networks, plain = kind(), {}
    for round_ in range(3):
        for n in range(200):
            shift = rng.choice([0, 8, 16, 17]) + (rng.choice([0, 48, 80]) if version == 6 else 0)
            start = rng.getrandbits(bits) if n % 2 else head | rng.getrandbits(bits - chunk)
            change(networks, plain, (start >> shift << shift, shift), (Note(f"{round_} {n}", 1.0 + n % 3),))
        for network in rng.sample(sorted(plain), 60):
            change(networks, plain, network, ())
        networks.settle(lambda: None)
        numbers = [start + rng.getrandbits(128) % (1 << shift) for start, shift in plain]
        compare(networks, plain, version, numbers + [rng.getrandbits(bits) for _ in range(50)])
    assert {chunk[0].typecode for chunk in networks._chunks} == {"H", "I"}


def test_two_networks_within_one_64_keep_their_texts():
    networks, plain, note = NetworksV6(), {}, Note("a", 3.0)
    start = 0x20010DB8 << 96
    for network in ((start, 63), (start | 1 << 63, 63), (start | 5, 0)):
        change(networks, plain, network, (note,))
    networks.settle(lambda: None)
    compare(networks, plain, 6, [start, start | 5, start | 1 << 63])

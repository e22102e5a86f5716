"""Export of lists: exports can be imported again, and servers refuse the same addresses."""

from __future__ import annotations

import io
import re
from ipaddress import ip_address, ip_network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lists.exporter import TARGETS, write
from hedgerow.lists.importer import Defaults, ListImport
from hedgerow.lists.model import Listing, Lists, clean_text, network_text, parse_subject
from property_tests import examples

NOW = 1_800_000_000.0

_NETWORKS = st.one_of(
    st.tuples(st.just(4), st.integers(0, 2**32 - 1), st.integers(0, 32)),
    st.tuples(st.just(6), st.integers(0, 2**128 - 1), st.integers(0, 128)),
).map(lambda n: network_text(n[0], n[1] >> n[2] << n[2], n[2]))
_NAMES = st.text(min_size=1, max_size=20).filter(lambda s: s.isprintable() and s.strip(" *"))


def _is_subject(text: str) -> bool:
    try:
        return bool(parse_subject(text))
    except ValueError:
        return False


_SUBJECTS = (
    st.one_of(
        _NETWORKS,
        _NAMES.map(lambda name: f"account:{name}"),
        _NAMES.map(lambda name: f"agent:*{name}"),
        st.integers(1, 2**32 - 1).map(lambda n: f"AS{n}"),
    )
    .filter(_is_subject)
    .map(lambda text: parse_subject(text).text)
)
_LISTINGS = st.lists(
    st.builds(
        Listing,
        list=st.sampled_from(["white", "black"]),
        subject=_SUBJECTS,
        reason=st.text(max_size=40).map(clean_text),
        author=st.text(max_size=10).map(clean_text),
        since=st.integers(1, 10**9).map(float),
        until=st.sampled_from([0.0, NOW + 1.0, NOW + 0.5]),
    ),
    max_size=10,
    unique_by=lambda e: (e.list, e.subject),
)  # fmt: skip


def again(text: str, **options) -> list[Listing]:
    return list(ListImport(io.BufferedReader(io.BytesIO(text.encode())), "x", Defaults(NOW), **options))


@given(_LISTINGS)
@examples(200)
@pytest.mark.slow
def test_csv_and_json_exports_can_be_imported_again(listings):
    for target in ("csv", "json"):
        text = "".join(write(target, listings, at=NOW))
        assert again(text) == listings
        assert again(text, format=target) == listings


@given(_LISTINGS)
def test_plain_export_keeps_subjects_and_reasons(listings):
    text = "".join(write("plain", listings, at=NOW))
    assert [(e.subject, e.reason) for e in again(text, format="plain")] == [(e.subject, e.reason) for e in listings]


def refused_by(target: str, text: str, address: str) -> bool:
    """Return whether a program with this export would refuse *address*."""
    here = ip_address(address)
    if target in {"nginx-geo", "haproxy"}:
        found = re.findall(r"^\s*([0-9a-f:./]+) (white|black);?$", text, flags=re.MULTILINE)
        assert len({network for network, _ in found}) == len(found)
        holding = [(ip_network(network).prefixlen, name) for network, name in found if here in ip_network(network)]
        return bool(holding) and max(holding)[1] == "black"
    found = re.findall(r"(?:^deny |not ip |-new |[{,] )([0-9a-f:./]+)(?=[; ,\n])", text, flags=re.MULTILINE)
    networks = [ip_network(network) for network in found if network[0] != "/"]
    for version in (4, 6):
        same = sorted(network for network in networks if network.version == version)
        assert not any(a.overlaps(b) for a, b in pairwise(same))
    return any(here in network for network in networks)


# Few bits that differ, so that networks hold each other.
_CLOSE = st.one_of(
    st.tuples(st.just(4), st.integers(0xC0000200, 0xC000021F), st.sampled_from([0, 1, 2, 3, 4, 31, 32])),
    st.tuples(st.just(6), st.integers(0x20010DB8 << 96, (0x20010DB8 << 96) + 15), st.sampled_from([0, 1, 2, 3, 128])),
).map(lambda n: network_text(n[0], n[1] >> n[2] << n[2], n[2]))
_CLOSE_LISTINGS = st.lists(
    st.builds(Listing, list=st.sampled_from(["white", "black"]), subject=_CLOSE),
    max_size=12,
    unique_by=lambda e: (e.list, e.subject),
)


@pytest.mark.parametrize("target", ["nginx-deny", "nginx-geo", "apache", "haproxy", "nftables", "ipset"])
@given(listings=_CLOSE_LISTINGS)
@examples(40)
def test_servers_refuse_the_same_addresses_as_the_lists(target, listings):
    text = "".join(write(target, [*listings, Listing("black", "account:ann")], at=NOW))
    assert "1 entries that are no addresses are left out" in text
    lists = Lists(listings)
    addresses = [network_text(4, 0xC0000200 + n, 0) for n in range(0, 32, 3)]
    addresses += [network_text(6, (0x20010DB8 << 96) + n, 0) for n in range(0, 16, 3)] + ["10.0.0.1", "::1"]
    for address in addresses:
        found = lists.find(NOW, address)
        assert refused_by(target, text, address) is (found is not None and found[0].list == "black"), address


def test_adjacent_networks_are_joined():
    listings = [Listing("black", f"192.0.2.{n}") for n in range(256)] + [Listing("white", "192.0.2.7")]
    text = "".join(write("nginx-deny", listings, at=NOW))
    assert text.count("deny") == 8
    assert "deny 192.0.2.128/25;\n" in text
    assert "deny 192.0.2.6;\n" in text


@pytest.mark.parametrize("target", TARGETS)
def test_an_empty_list_can_be_written(target):
    text = "".join(write(target, [], at=NOW))
    assert "deny" not in text
    assert "add element" not in text


def test_ipset_export_splits_a_network_of_length_zero():
    text = "".join(write("ipset", [Listing("black", "0.0.0.0/0"), Listing("black", "::/0")], at=NOW))
    added = re.findall(r"^add \S+ (\S+)$", text, flags=re.MULTILINE)
    assert added == ["0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"]

"""Conversion of addresses: `ipaddress` is the oracle."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.ip_bytes import (
    canonical,
    format_ipv4,
    format_ipv4_network,
    format_ipv6,
    format_ipv6_prefix,
    pack_ipv4,
    pack_ipv6,
)

_V6 = st.one_of(st.integers(0, 2**128 - 1), st.integers(0, 2**50), st.integers(0, 2**64 - 1).map(lambda n: n << 64))


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_ipv4_addresses_convert_both_ways(address):
    assert pack_ipv4(str(address)) == address.packed
    assert format_ipv4(address.packed) == canonical(str(address)) == str(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(1, 32))
def test_ipv4_networks_are_formatted_like_ipaddress(address, shift):
    right = IPv4Network((address, 32 - shift), strict=False)
    assert format_ipv4_network(str(address), address.packed, shift) == str(right)


@given(_V6.map(IPv6Address))
def test_ipv6_addresses_convert_both_ways(address):
    assert pack_ipv6(str(address)) == pack_ipv6(address.exploded.upper()) == address.packed
    assert format_ipv6(address.packed) == str(address)
    assert canonical(address.exploded) == str(address.ipv4_mapped or address)


@given(st.lists(st.sampled_from([0, 0, 1, 0x10, 0xFF00]), min_size=8, max_size=8), st.integers(0, 64))
def test_ipv6_prefixes_are_formatted_like_ipaddress(groups, bits):
    address = ":".join(f"{group:x}" for group in groups)
    assert format_ipv6_prefix(pack_ipv6(address), bits) == str(IPv6Network((address, bits), strict=False))


@given(st.text("0123456789abf:.%/ ", max_size=20))
def test_canonical_accepts_the_same_texts_as_ipaddress(text):
    try:
        right = ip_address(text.partition("%")[0]) if "%" not in text else None
    except ValueError:
        right = None
    mapped = right.ipv4_mapped if isinstance(right, IPv6Address) else None
    assert canonical(text) == (None if right is None else str(mapped or right))


@pytest.mark.parametrize(
    "text", ["", "host.example", "1.2.3", "01.1.1.1", "1.2.3.4 ", "::1\0", "\ud800", "fe80::1%eth0"]
)
def test_canonical_rejects_other_text(text):
    assert canonical(text) is None

"""Addresses by the C library: what `ipaddress` says of the same text."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.ip_bytes import (
    canonical,
    packed_v4,
    packed_v6,
    written_network_v4,
    written_prefix,
    written_v4,
    written_v6,
)

_V6 = st.one_of(st.integers(0, 2**128 - 1), st.integers(0, 2**50), st.integers(0, 2**64 - 1).map(lambda n: n << 64))


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_ipv4(address):
    assert packed_v4(str(address)) == address.packed
    assert written_v4(address.packed) == canonical(str(address)) == str(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(1, 32))
def test_networks_of_ipv4(address, shift):
    right = IPv4Network((address, 32 - shift), strict=False)
    assert written_network_v4(str(address), address.packed, shift) == str(right)


@given(_V6.map(IPv6Address))
def test_ipv6(address):
    assert packed_v6(str(address)) == packed_v6(address.exploded.upper()) == address.packed
    assert written_v6(address.packed) == str(address)
    assert canonical(address.exploded) == str(address.ipv4_mapped or address)


@given(st.lists(st.sampled_from([0, 0, 1, 0x10, 0xFF00]), min_size=8, max_size=8), st.integers(0, 64))
def test_prefixes(groups, bits):
    address = ":".join(f"{group:x}" for group in groups)
    assert written_prefix(packed_v6(address), bits) == str(IPv6Network((address, bits), strict=False))


@given(st.text("0123456789abf:.%/ ", max_size=20))
def test_what_is_an_address_is_the_same(text):
    try:
        right = ip_address(text.partition("%")[0]) if "%" not in text else None
    except ValueError:
        right = None
    mapped = right.ipv4_mapped if isinstance(right, IPv6Address) else None
    assert canonical(text) == (None if right is None else str(mapped or right))


@pytest.mark.parametrize(
    "text", ["", "host.example", "1.2.3", "01.1.1.1", "1.2.3.4 ", "::1\0", "\ud800", "fe80::1%eth0"]
)
def test_what_is_none(text):
    assert canonical(text) is None

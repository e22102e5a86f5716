"""Addresses in the ledger: truncated or hashed, the same for every visit of a visitor, and never in evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.address import parse_address, prefix_of
from hedgerow.ledger.pseudonyms import address_hider, hide_in_text

ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str).map(parse_address)


def test_full_addresses_are_left_alone() -> None:
    assert address_hider("full", "") is None


@pytest.mark.parametrize("form", ["truncated", "hashed"])
@given(address=ADDRESSES)
def test_a_hidden_address_is_an_address_of_the_hidden_visitor(form, address) -> None:
    hide = address_hider(form, "a secret text of the site")
    assert parse_address(hide(address)) == hide(address)
    assert prefix_of(hide(address)) in {hide(prefix_of(address)), prefix_of(hide(prefix_of(address)))}
    assert hide(address) == hide(address)


@given(one=ADDRESSES, other=ADDRESSES)
def test_hashes_tell_visitors_apart_and_depend_on_the_key(one, other) -> None:
    hide, elsewhere = address_hider("hashed", "a secret text"), address_hider("hashed", "another secret")
    assert (prefix_of(hide(one)) == prefix_of(hide(other))) == (prefix_of(one) == prefix_of(other))
    assert hide(one) != elsewhere(one)
    assert one not in hide(one)


def test_truncation_keeps_the_network() -> None:
    hide = address_hider("truncated", "")
    assert hide("192.0.2.7") == "192.0.2.0"
    assert hide("2001:db8:1:2::3") == "2001:db8:1::"
    assert hide("2001:db8:1:2::/64") == "2001:db8:1::/64"


def test_other_keys_of_visitors_stay() -> None:
    hide = address_hider("hashed", "a secret text")
    for key in ("account:ann", "clearance:87fc", "", "host.example"):
        assert hide(key) == key


def test_addresses_in_evidence_are_hidden() -> None:
    hide = address_hider("truncated", "")
    text = '[{"text":"Used links of 192.0.2.7 and 2001:db8:1:2::3 at 10:30.","key":"192.0.2.7","v":"1.2.3"}]'
    expected = '[{"text":"Used links of 192.0.2.0 and 2001:db8:1:: at 10:30.","key":"192.0.2.0","v":"1.2.3"}]'
    assert hide_in_text(text, hide) == expected

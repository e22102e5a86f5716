"""Rules for countries and network operators: which applies, and what follows."""

from __future__ import annotations

import pytest

from hedgerow.errors import SettingsError
from hedgerow.request.network_rules import NetworkRule, NetworkRules
from hedgerow.settings import read_settings

RULES = [
    NetworkRule("allow", asn=(64500,)),
    NetworkRule("block", country=("AA",), reason="none of ours"),
    NetworkRule("challenge", country=("BB",), asn=(64501,)),
]
ASNS = {"192.0.2.1": 64500, "192.0.2.3": 64501}
COUNTRIES = {"192.0.2.1": "AA", "192.0.2.2": "AA", "192.0.2.4": "BB"}


@pytest.fixture
def rules() -> NetworkRules:
    one = NetworkRules(RULES)
    one.use(asn_of=lambda address: ASNS.get(address, 0), country_of=lambda address: COUNTRIES.get(address, ""))
    return one


def test_the_first_rule_that_names_the_operator_or_the_country_applies(rules):
    found = [rules.find(f"192.0.2.{number}") for number in (1, 2, 3, 4, 5)]
    assert [one and (one[0].action, one[1]) for one in found] == [
        ("allow", "the network operator AS64500"),
        ("block", "the country AA"),
        ("challenge", "the network operator AS64501"),
        ("challenge", "the country BB"),
        None,
    ]


def test_only_allow_and_block_decide_at_once(rules):
    decided = [rules.decide(f"192.0.2.{number}") for number in (1, 2, 3, 5)]
    assert [one and (one.action, one.code) for one in decided] == [
        ("pass", "network-allowed"),
        ("refuse", "network-blocked"),
        None,
        None,
    ]
    assert "the country AA" in decided[1].evidence[0].text


def test_other_files_replace_what_was_found(rules):
    assert rules.find("192.0.2.2") is not None
    rules.use(country_of=lambda _: "")
    assert rules.find("192.0.2.2") is None
    assert rules.find("192.0.2.1") is not None


def test_without_files_there_is_no_rule_for_anybody():
    assert NetworkRules(RULES).find("192.0.2.1") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("action = 'block'\ncountry = ['AA']\n", "lists.networks.0.country: needs country_file"),
        ("action = 'block'\nasn = [64496]\n", "lists.networks.0.asn: needs asn_file"),
        ("action = 'block'\n", "lists.networks.0.action: needs a country or an asn"),
        ("action = 'block'\ncountry = ['nl']\n", "'nl' is not a country in two capital letters"),
        ("action = 'block'\nasn = [0]\n", "0 is not an AS number"),
        ("action = 'ban'\nasn = [1]\n", "must be one of 'allow', 'block', 'challenge'"),
    ],
)
def test_wrong_rules_are_named(text, fault):
    with pytest.raises(SettingsError) as raised:
        read_settings(f"[[lists.networks]]\n{text}", environment={})
    assert any(fault in one for one in raised.value.faults)

"""Subjects of entries, and the entry that applies; the oracle is a plain scan of all entries."""

from __future__ import annotations

import random
import threading
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lists import model as module
from hedgerow.lists.model import (
    Listing,
    Lists,
    Subject,
    agent_pattern,
    clean_text,
    decide,
    entry_of,
    network_text,
    parse_subject,
)
from property_tests import examples


def found(lists: Lists, address: str = "192.0.2.1", at: float = 100.0, **fields: str) -> str:
    listing = entry(lists, at, address, **fields)
    return f"{listing.list} {listing.subject}" if listing else ""


def entry(lists: Lists, at: float, address: str, *fields: str, **more: str) -> Listing | None:
    found = lists.find(at, address, *fields, **more)
    return entry_of(found) if found else None


# ---- Subjects


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("192.0.2.1", Subject("address", "192.0.2.1", 4, 0xC0000201)),
        (" 192.0.2.1/32 ", Subject("address", "192.0.2.1", 4, 0xC0000201)),
        ("192.0.2.0/24", Subject("network", "192.0.2.0/24", 4, 0xC0000200, 8)),
        ("192.0.2.0/255.255.255.0", Subject("network", "192.0.2.0/24", 4, 0xC0000200, 8)),
        ("0.0.0.0/0", Subject("network", "0.0.0.0/0", 4, 0, 32)),
        ("192.0.2.0/024", Subject("network", "192.0.2.0/24", 4, 0xC0000200, 8)),
        ("2001:DB8:0::1/128", Subject("address", "2001:db8::1", 6, 0x20010DB8 << 96 | 1)),
        ("2001:db8::/32", Subject("network", "2001:db8::/32", 6, 0x20010DB8 << 96, 96)),
        ("::ffff:192.0.2.1", Subject("address", "192.0.2.1", 4, 0xC0000201)),
        ("::ffff:192.0.2.0/120", Subject("network", "192.0.2.0/24", 4, 0xC0000200, 8)),
        ("account: Zoë ", Subject("account", "account:Zoë", name="Zoë")),
        ("agent:*Bot/* (x)", Subject("agent", "agent:*Bot/* (x)", name="*Bot/* (x)")),
        ("as64496", Subject("asn", "AS64496", number=64496)),
        ("AS 007", Subject("asn", "AS7", number=7)),
    ],
)
def test_subjects_have_a_canonical_form(text, subject):
    assert parse_subject(text) == subject
    assert parse_subject(subject.text) == subject


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not an address"), ("example.org", "not an address"), ("192.0.2", "not an address"),
        ("192.0.2.256", "not an address"), ("192.0.2.01", "not an address"), ("192.0.2.1/33", "not an address"),
        ("192.0.2.1/24", "'192.0.2.1/24' is not a network; 192.0.2.0/24 is"), ("fe80::1%eth0", "names an interface"),
        ("account:", "names no account"), ("agent:", "would match every visitor"), ("agent:* *", "would match every"),
        ("AS0", "is not an AS number"), ("AS4294967296", "is not an AS number"), ("account:a\x00", "not printable"),
        ("account:" + "x" * 400, "too long"), ("\u0661.1.1.1", "not an address"), ("AS\u0661", "not an address"),
    ],
)  # fmt: skip
def test_an_invalid_subject_is_rejected(text, said):
    with pytest.raises(ValueError, match=r"\w") as error:
        parse_subject(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


_V4 = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 32)).map(lambda p: (4, p[0] >> p[1] << p[1], p[1]))
_V6 = st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 128)).map(lambda p: (6, p[0] >> p[1] << p[1], p[1]))


@given(st.one_of(_V4, _V6))
def test_networks_are_parsed_and_formatted_like_ipaddress(network):
    text = network_text(*network)
    right = ip_network(text)
    subject = parse_subject(text)
    if subject.version == right.version:
        assert (subject.version, subject.start, subject.shift) == network
        assert text in {str(right), str(right.network_address)}
    assert parse_subject(str(right)) == subject


@given(st.text(max_size=600))
def test_reasons_are_one_printable_line(text):
    clean = clean_text(text)
    assert clean.isprintable()
    assert len(clean) <= 500
    assert clean_text(clean) == clean


@pytest.mark.parametrize(
    ("pattern", "agent", "fits"),
    [
        ("curl", "curl", True), ("curl", "Curl", True), ("curl", "curl/8", False), ("curl*", "curl/8", True),
        ("*bot*", "GoogleBot/2", True), ("*bot", "GoogleBot/2", False), ("a*b*c", "a-b-c", True),
        ("a*b*c", "acb", False), ("a*a", "a", False), ("*a*a*", "a", False), ("ab*ba", "aba", False),
        ("*x", "", False), ("a.c", "abc", False), ("a**b", "ab", True),
    ],
)  # fmt: skip
def test_user_agent_patterns(pattern, agent, fits):
    assert bool(agent_pattern(pattern).fullmatch(agent.lower())) is fits


@given(st.text("ab*", min_size=1, max_size=8), st.text("abc", max_size=12))
def test_user_agent_patterns_agree_with_a_regular_expression(pattern, agent):
    import re

    right = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), agent)
    assert bool(agent_pattern(pattern).fullmatch(agent.lower())) is (right is not None)


# ---- Which entry counts


def test_the_most_specific_entry_applies():
    lists = Lists(
        [
            Listing("black", "0.0.0.0/0"),
            Listing("white", "192.0.0.0/12"),
            Listing("black", "192.0.2.0/24"),
            Listing("white", "192.0.2.128/25"),
            Listing("black", "192.0.2.200"),
            Listing("white", "account:ann"),
            Listing("black", "agent:*bot*"),
            Listing("white", "agent:goodbot*"),
        ]
    )
    assert found(lists, "198.51.100.1") == "black 0.0.0.0/0"
    assert found(lists, "192.1.0.1") == "white 192.0.0.0/12"
    assert found(lists, "192.0.2.1") == "black 192.0.2.0/24"
    assert found(lists, "192.0.2.199") == "white 192.0.2.128/25"
    assert found(lists, "192.0.2.200") == "black 192.0.2.200"
    assert found(lists, "192.0.2.200", account="ann") == "white account:ann"
    assert found(lists, "2001:db8::1", user_agent="EvilBot") == "black agent:*bot*"
    assert found(lists, "2001:db8::1", user_agent="GoodBot/1") == "white agent:goodbot*"
    assert found(lists, "192.0.2.1", user_agent="GoodBot/1") == "black 192.0.2.0/24"
    assert found(lists, "2001:db8::1") == ""
    assert found(lists, "", user_agent="EvilBot") == "black agent:*bot*"


def test_white_wins_a_tie_and_only_while_it_is_in_force():
    lists = Lists([Listing("black", "192.0.2.0/24"), Listing("white", "192.0.2.0/24", until=150.0)])
    assert found(lists) == "white 192.0.2.0/24"
    assert found(lists, at=149.9) == "white 192.0.2.0/24"
    assert found(lists, at=150.0) == "black 192.0.2.0/24"


@pytest.mark.parametrize("subject", ["192.0.2.1", "192.0.2.0/24", "account:ann", "AS64496", "agent:*bot*"])
@pytest.mark.parametrize("name", ["black", "white"])
def test_an_entry_with_an_end_applies_until_then_and_not_after(name, subject):
    week = 7 * 86_400.0
    lists = Lists([Listing(name, subject, since=100.0, until=100.0 + week)], asn_of=lambda _: 64496)
    visitor = {"account": "ann", "user_agent": "Somebot/1.0"}
    assert found(lists, "192.0.2.1", at=100.0, **visitor) == f"{name} {subject}"
    assert found(lists, "192.0.2.1", at=99.0 + week, **visitor) == f"{name} {subject}"
    assert found(lists, "192.0.2.1", at=100.0 + week, **visitor) == ""


def test_operators_are_listed_by_as_number():
    asn = {"192.0.2.1": 64496, "2001:db8::1": 64497}
    lists = Lists([Listing("black", "AS64496"), Listing("white", "AS64497")], asn_of=lambda a: asn.get(a, 0))
    assert found(lists, "192.0.2.1", user_agent="x") == "black AS64496"
    assert found(lists, "2001:db8::1") == "white AS64497"
    assert found(lists, "192.0.2.2") == ""
    lists.put(Listing("white", "192.0.0.0/8"))
    lists.settle()
    assert found(lists, "192.0.2.1") == "white 192.0.0.0/8"
    lists.use(lambda _: 64497)
    assert found(lists, "198.51.100.1") == "white AS64497"


def test_entries_are_replaced_and_dropped():
    lists = Lists([Listing("black", "192.0.2.1", "a"), Listing("black", "account:ann"), Listing("black", "agent:x*")])
    lists.put(Listing("black", "192.0.2.1", "b"))
    lists.put(Listing("white", "192.0.2.1", "c"))
    lists.settle()
    assert lists.sizes == {"white": 1, "black": 3}
    assert len(lists) == 4
    listing = entry(lists, 100.0, "192.0.2.1")
    assert listing is not None
    assert listing.reason == "c"
    lists.drop("white", "192.0.2.1")
    lists.drop("white", "192.0.2.1")
    lists.drop("black", "AS1")
    lists.drop("black", "account:ann")
    lists.settle()
    listing = entry(lists, 100.0, "192.0.2.1", "ann")
    assert listing is not None
    assert listing.reason == "b"
    lists.clear()
    lists.settle()
    assert lists.find(100.0, "192.0.2.1", "ann", "xyz") is None
    assert lists.sizes == {"white": 0, "black": 0}


@pytest.mark.parametrize(
    "address",
    ["", "host.example", "1.2.3", "1.2.3.4.5", "300.1.1.1", "01.1.1.1", ":", "x" * 500, "::g", "1:2", "-1.0.0.0"],
)
def test_text_that_is_no_address_matches_no_network(address):
    assert found(Lists([Listing("black", "0.0.0.0/0"), Listing("black", "::/0")]), address) == ""


def test_the_caches_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_CACHE_SIZE", 50)
    lists = Lists([Listing("black", "AS7"), Listing("black", "agent:*z*")], asn_of=lambda address: len(address) - 5)
    for n in range(500):
        assert found(lists, f"{n % 250}.10.{n // 250}.100", user_agent=f"{n}") == ("black AS7" if n % 250 > 99 else "")
    assert lists._asn_of.cache_info().currsize == 50
    assert lists._matches_of.cache_info().currsize == 50
    asked = lists._matches_of.cache_info().misses
    assert found(lists, user_agent="z" * 1000) == "black agent:*z*"
    assert lists._matches_of.cache_info().misses == asked, "a long user agent is not cached"


def scan(listings: list[Listing], asked: str, at: float) -> str:
    """The reference: a plain scan of all entries."""
    address = ip_address(asked)
    ranked = []
    for listing in listings:
        network = ip_network(listing.subject)
        if address in network and listing.in_force(at):
            ranked.append((-network.prefixlen, listing.list != "white", listing))
    return f"{ranked[0][2].list} {ranked[0][2].subject}" if (ranked := sorted(ranked, key=lambda r: r[:2])) else ""


# Few bits that differ, so that networks hold each other and addresses are in them.
_START4 = st.sampled_from([0, 0xC0000200, 0xC0008000, 0xFFFFFF00]).flatmap(
    lambda base: st.integers(0, 255).map(lambda low: base | low)
)
_NETWORK4 = st.tuples(_START4, st.sampled_from([0, 1, 2, 4, 7, 8, 15, 16, 17, 20, 24, 31, 32])).map(
    lambda p: network_text(4, p[0] >> p[1] << p[1], p[1])
)
_START6 = st.integers(0, 255).map(lambda low: 0x20010DB8 << 96 | low | (low % 3) << 64 | (low % 5) << 100)
_NETWORK6 = st.tuples(_START6, st.sampled_from([0, 1, 3, 63, 64, 65, 95, 96, 97, 110, 128])).map(
    lambda p: network_text(6, p[0] >> p[1] << p[1], p[1])
)
_ENTRY = st.builds(
    Listing,
    list=st.sampled_from(["white", "black"]),
    subject=st.one_of(_NETWORK4, _NETWORK6),
    reason=st.sampled_from(["", "a"]),
    until=st.sampled_from([0.0, 50.0, 150.0]),
)
_ADDRESS = st.one_of(_START4.map(lambda n: network_text(4, n, 0)), _START6.map(lambda n: network_text(6, n, 0)))


@given(st.lists(_ENTRY, max_size=25), st.lists(st.integers(0, 24), max_size=10), st.lists(_ADDRESS, max_size=25))
@examples(100)
def test_lookup_agrees_with_a_plain_scan(entries, dropped, addresses):
    lists = Lists(entries[::2])
    kept = {(e.list, e.subject): e for e in entries[::2]}
    for address in addresses:
        lists.find(100.0, address)
    for entry in entries[1::2]:
        lists.put(entry)
        kept[entry.list, entry.subject] = entry
    for n in dropped:
        if n < len(entries):
            lists.drop(entries[n].list, entries[n].subject)
            kept.pop((entries[n].list, entries[n].subject), None)
    lists.settle()
    assert len(lists) == len(kept)
    for address in addresses:
        for at in (40.0, 100.0, 200.0):
            assert found(lists, address, at) == scan(list(kept.values()), address, at)


def test_lookups_continue_while_entries_change():
    lists = Lists([Listing("black", "10.0.0.0/8"), Listing("black", "192.0.2.0/24")])
    wrong: list[str] = []
    done = threading.Event()

    def look() -> None:
        rng = random.Random(1)
        while not done.is_set():
            if (said := found(lists, f"192.0.2.{rng.randrange(256)}")) != "black 192.0.2.0/24":
                wrong.append(said)
            if (said := found(lists, f"10.1.2.{rng.randrange(256)}")) != "black 10.0.0.0/8":
                wrong.append(said)

    thread = threading.Thread(target=look)
    thread.start()
    for n in range(300):
        lists.put(Listing("white", f"192.0.{n % 250}.0/26" if n % 250 != 2 else "192.0.9.9"))
        lists.put(Listing("white", f"{n % 9}.0.0.0/9"))
        lists.settle()
    done.set()
    thread.join()
    assert wrong == []


def test_evidence_names_the_entry_and_its_details_the_reason():
    ann = Lists([Listing("black", "account:ann", "ticket 7", "bob", 1.0, 0.0)])
    decision = decide(ann.find(2.0, "", "ann"))
    assert (decision.action, decision.until) == ("refuse", 0.0)
    assert decision.evidence[0].text == "This account is on the black list."
    assert decision.evidence[0].details == "reason: ticket 7; by: bob"
    assert decision.evidence[0].key == "account:ann"
    operator = Lists([Listing("black", "AS1", until=9.0)], asn_of=lambda _: 1)
    assert decide(operator.find(2.0, "192.0.2.1")).evidence[0].details == ""
    assert decide(operator.find(2.0, "192.0.2.1")).until == 9.0

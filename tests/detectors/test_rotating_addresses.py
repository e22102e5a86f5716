"""Rotating addresses: what the generation of a link says, and that people who pass links on are not asked."""

from __future__ import annotations

import logging

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import KEY, START, settings
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.state import StateReply
from hedgerow.core.visit import BY_PROGRAM, Marker, Visit
from hedgerow.detectors.marker_integrity import link_use, next_generation
from hedgerow.detectors.rotating_addresses import RotatingAddressesDetector
from hedgerow.markers.encoding import MOST_HAND_OVERS
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.settings import read_settings
from hedgerow.web.gate import build_gate
from property_tests import examples

ME, OTHER = "192.0.2.1", "198.51.100.7"
NOTHING = StateReply(None, ())
VISIT = Visit(START, ME, ME, ME, "GET", "/page", origin="none", host="example.org")


def detector(**options) -> RotatingAddressesDetector:
    return RotatingAddressesDetector(lambda _: "/list", lambda _: True, **options)


def visit(address: str = ME, link: Marker | None = None, **fields) -> Visit:
    fields = {"visitor": address, "target": link.target if link is not None else "/page", **fields}
    return msgspec.structs.replace(VISIT, address=address, prefix=address, marker=link, **fields)


def issued_to(who: str, generation: int = 0, target: str = "/page") -> Marker:
    return Marker("page", visitor_digest(who), page_digest("/list"), target, generation)


def codes(detect: RotatingAddressesDetector, one: Visit) -> list[str]:
    return [found.code for found in detect(one, NOTHING)]


@pytest.mark.parametrize(
    ("who", "generation", "fields", "expected"),
    [
        (OTHER, 0, {}, []),
        (OTHER, 1, {}, ["handed-on"]),
        (OTHER, 1, {"kind": "prefetch"}, ["handed-on"]),
        (OTHER, 1, {"kind": "asset"}, []),
        (OTHER, 1, {"visitor": "clearance:ab"}, []),
        (OTHER, 1, {"visitor": "account:ann", "account": "ann"}, []),
        (OTHER, 1, {"anomalies": (BY_PROGRAM,)}, []),
        (OTHER, 1, {"linked": (visitor_digest(OTHER),)}, []),
        (ME, 3, {}, []),
    ],
)
def test_a_link_that_was_handed_on_twice_needs_a_clearance(who, generation, fields, expected):
    assert codes(detector(), visit(link=issued_to(who, generation), **fields)) == expected


def test_a_browser_that_moves_from_network_to_network_needs_a_clearance_in_the_end():
    cookie = tuple(visitor_digest(f"203.0.{n}.1") for n in range(4))
    link = issued_to("203.0.3.1", 1)
    assert codes(detector(), visit(link=link, linked=cookie)) == ["moving"]
    assert codes(detector(), visit(link=link, linked=cookie[1:])) == []
    assert codes(detector(), visit(link=issued_to("203.0.3.1"), linked=cookie)) == []
    assert codes(detector(), visit(link=link, linked=cookie, anomalies=("clearance-network",))) == []
    assert codes(detector(), visit("203.0.3.9", link, linked=cookie)) == []


def test_strangers_who_divide_the_links_of_a_page_are_told_so():
    detect = detector(links=2)
    found = [detect(visit(f"10.0.{n}.1", issued_to(OTHER, target=f"/{n}")), NOTHING) for n in range(3)]
    assert found[:2] == [(), ()]
    assert found[2][0].text == "Used one of many links of the page /list that visitors divide among themselves."


def test_a_stranger_that_obtains_a_clearance_makes_room_and_vouches_for_its_link():
    detect = detector(links=1)
    first, second = (visit(f"10.0.{n}.1", issued_to(OTHER, target=f"/{n}")) for n in range(2))
    assert codes(detect, first) == []
    assert codes(detect, second) == ["divided-links"]
    detect.on_clearance(first)
    assert codes(detect, second) == []
    late = visit("10.0.7.1", issued_to(OTHER, 1, "/late"))
    assert codes(detect, late) == ["handed-on"]
    detect(msgspec.structs.replace(late, visitor="clearance:ab"), NOTHING)
    assert codes(detect, msgspec.structs.replace(late, visitor="10.0.8.1", prefix="10.0.8.1")) == []


def test_a_surge_is_logged_once_at_its_start_and_once_at_its_end(caplog):
    detect = detector(entries=20)
    with caplog.at_level(logging.WARNING):
        for n in range(60):
            detect(visit(f"10.0.{n}.1", target=f"/{n}", at=START + n), NOTHING)
        assert codes(detect, visit("10.1.0.1", at=START + 61)) == ["plain-entries"]
        assert codes(detect, visit("10.1.0.1", visitor="clearance:ab", at=START + 61)) == []
        assert codes(detect, visit("10.2.0.1", at=START + 900)) == []
    began, ended = caplog.messages
    assert "page by page" in began
    assert "a clearance are not asked any more" in ended


def test_entries_0_means_that_the_whole_site_is_never_on_its_guard():
    detect = detector(entries=0)
    assert not any(codes(detect, visit(f"10.0.{n % 250}.{n // 250}", target=f"/{n}")) for n in range(2_000))


# ---- Generations


HOP = st.tuples(st.integers(0, 5), st.sampled_from(["visitor", "cookie", "clearance"]))


@examples(200)
@given(st.lists(HOP, max_size=30))
def test_the_generation_never_decreases_along_a_chain_without_clearance(hops):
    """Each hop is a page view by a link of the page before, by one of six visitors."""
    page, issuer = 0, "10.0.0.1"
    for who, how in hops:
        address = f"10.0.{who}.1"
        link = Marker("page", visitor_digest(issuer), page_digest("/"), "/next", page)
        linked = (visitor_digest(issuer),) if how == "cookie" else ()
        name = "clearance:aa" if how == "clearance" else address
        one = visit(address, link, visitor=name, linked=linked)
        after = next_generation(one)
        if how == "clearance":
            assert after == 0
        else:
            assert page <= after <= page + 1
            assert (after > page) == (issuer != address)
        page, issuer = after, name


@examples(100)
@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=200))
def test_a_posted_link_is_open_to_everybody(readers):
    detect = detector(links=1)
    link = issued_to(OTHER)
    for reader in readers:
        assert codes(detect, visit(f"10.{reader // 250}.{reader % 250}.1", link)) == []


def test_an_entry_and_a_link_for_anybody_start_again():
    assert next_generation(visit()) == 0
    assert next_generation(visit(link=Marker("page", bytes(6), bytes(6), "/page", 3))) == 0
    assert next_generation(visit(link=Marker("trap", visitor_digest(OTHER), bytes(6), "", 3))) == 0
    assert next_generation(visit(link=issued_to(OTHER, MOST_HAND_OVERS))) == MOST_HAND_OVERS


@pytest.mark.parametrize(
    ("who", "fields", "use"),
    [
        (ME, {}, "own"),
        (OTHER, {}, "foreign"),
        (OTHER, {"linked": (visitor_digest(OTHER),)}, "moved"),
        ("192.0.2.9", {"linked": (visitor_digest("192.0.2.9"),)}, "own"),
        ("192.0.2.9", {"origin": "same"}, "neighbour"),
        ("192.0.2.9", {}, "foreign"),
    ],
)
def test_whose_link_it_is(who, fields, use):
    assert link_use(visit(link=issued_to(who), **fields)) == use


# ---- Settings


@pytest.mark.parametrize(("text", "is_there"), [("", True), ("[rotating]\nenabled = false\n", False)])
def test_it_is_switched_on_by_default(text, is_there):
    gate = build_gate(settings(text), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger())
    decision = run_now(gate.decide(visit(link=issued_to(OTHER, 1))))
    assert (decision.action, decision.code) == (("challenge", "handed-on") if is_there else ("pass", decision.code))


@pytest.mark.parametrize(("text", "fault"), [("links = 0", "rotating.links"), ("entries = -1", "rotating.entries")])
def test_faults_of_the_settings_are_named(text, fault):
    with pytest.raises(Exception, match=fault):
        read_settings(f"[rotating]\n{text}\n", environment={})


@pytest.mark.parametrize(
    ("text", "is_on"),
    [
        ("", True),
        ("[containment]\nenabled = false\n", False),
        ("[challenge]\nsilent = false\n", False),
        ("[rotating]\nentries = 0\n", False),
    ],
)
def test_what_strangers_read_counts_where_there_is_a_budget_for_them(text, is_on):
    gate = build_gate(settings(text), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger())
    asked = set()
    for n in range(400):
        address = f"10.0.{n >> 7}.{n & 127}"
        come = visit(address, target="/", at=START + n)
        goes_on = visit(address, issued_to(address), target=f"/{n}", at=START + n)
        asked |= {run_now(gate.decide(one)).code for one in (come, goes_on)}
    assert ("plain-entries" in asked) == is_on

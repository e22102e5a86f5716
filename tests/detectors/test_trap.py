"""Traps: who falls in, and that nobody can be pushed."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.trap import TrapDetector
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.request.browser_signs import BrowserSigns, page_hash

ME, OTHER = "192.0.2.1", "198.51.100.7"
MEMORY = StateReply(None, ())


def visit(issued_to: str = ME, **fields) -> Visit:
    marker = Marker("trap", visitor_digest(issued_to), page_digest("/list"), "")
    return msgspec.structs.replace(Visit(1.0, ME, ME, ME, "GET", "/~x", marker=marker), **fields)


def evidence(found: Visit):
    return TrapDetector(lambda digest: "/list" if digest == page_digest("/list") else "")(found, MEMORY)


def test_a_visitor_that_follows_its_own_hidden_link_is_a_crawler():
    (found,) = evidence(visit())
    assert (found.detector, found.code, found.weight) == ("trap", "trap", 1.0)
    assert found.text == "Followed a link of the page /list that no person can see."


def test_an_account_falls_into_the_links_that_were_given_to_it():
    (found,) = evidence(visit("account:ann", visitor="account:ann", account="ann"))
    assert found.weight == 1.0
    (found,) = evidence(visit(ME, visitor="account:ann", account="ann"))
    assert found.weight == 0.0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"origin": "cross"}, "trap-embedded"),
        ({"origin": "cross", "kind": "asset"}, "trap-embedded"),
        ({"origin": "none"}, "trap-of-another"),
        ({"origin": "unknown"}, "trap-of-another"),
        ({"origin": "same"}, "trap-of-another"),
        ({"prefetch": True}, "trap-prefetched"),
    ],
)
def test_nobody_is_framed_by_anothers_link(fields, code):
    """Embedded as an image elsewhere, sent in a chat, posted on the site itself, fetched ahead."""
    (found,) = evidence(visit(OTHER, **fields))
    assert (found.code, found.weight) == (code, 0.0)


def test_a_prefetch_of_ones_own_link_is_no_offence():
    (found,) = evidence(visit(prefetch=True))
    assert (found.code, found.weight) == ("trap-prefetched", 0.0)


def test_a_visit_without_a_marker_is_no_evidence():
    assert evidence(visit(marker=None)) == ()


def test_a_forgotten_page_is_a_page_of_this_site():
    (found,) = TrapDetector(lambda _: "")(visit(), MEMORY)
    assert found.text == "Followed a link of a page of this site that no person can see."


# ---- Scripts


SCRIPT = {"anomalies": ("no-navigation",), "kind": "call"}


@pytest.mark.parametrize(
    ("referrer", "code", "weight"),
    [
        ("https://example.org/list", "trap-fetched", 0.005),
        ("https://example.org/", "trap-fetched-elsewhere", 0.5),
        ("", "trap-fetched-elsewhere", 0.5),
    ],
)
def test_a_script_that_fetches_a_hidden_link_blocks_nobody(referrer, code, weight):
    (found,) = evidence(visit(referrer=referrer, **SCRIPT))
    assert (found.detector, found.code, found.weight) == ("trap-fetch", code, weight)
    (found,) = evidence(visit("clearance:00", referrer=referrer, visitor="clearance:00", **SCRIPT))
    assert (found.code, found.weight) == (code, 0.0)


@pytest.mark.parametrize(
    ("referrer", "opened", "weight"),
    [
        ("https://example.org/", "/", 0.2),
        ("https://example.org/", "/list", 0.0),
        ("https://example.org/list", "/", 0.0),
        ("", "/", 0.0),
    ],
)
def test_a_script_of_the_holder_of_a_clearance_that_follows_links_from_page_to_page(referrer, opened, weight):
    signs, holder = BrowserSigns(), "clearance:00"
    signs.of(holder).open(page_hash("example.org", opened))
    detect = TrapDetector(lambda _: "/list", signs)
    fields = {"visitor": holder, "host": "example.org", "referrer": referrer}
    (found,) = detect(visit(holder, **fields, **SCRIPT), MEMORY)
    assert found.weight == weight


@pytest.mark.parametrize("origin", ["same", "unknown", "cross", "none"])
def test_nobody_is_framed_by_a_link_of_an_address_that_it_once_shared(origin):
    """Also not by a link on the site itself: anybody may post there what the address was given."""
    (found,) = evidence(visit(OTHER, linked=(visitor_digest(OTHER),), origin=origin))
    assert (found.code, found.weight) == ("trap-embedded" if origin == "cross" else "trap-of-another", 0.0)


def test_a_visitor_that_another_site_leads_to_its_own_hidden_link_is_no_crawler():
    (found,) = evidence(visit(origin="cross"))
    assert (found.code, found.weight) == ("trap-embedded", 0.0)
    (found,) = evidence(visit(origin="cross", anomalies=("browser-no-fetch",)))
    assert found.code == "trap", "a client that does not send what browsers send is not believed"

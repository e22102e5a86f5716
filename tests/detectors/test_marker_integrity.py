"""Integrity: what a marker says of who came by it, and that nobody normal is accused."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.marker_integrity import MarkerIntegrityDetector
from hedgerow.markers.token import NOBODY, page_digest, visitor_digest

ME, OTHER = "192.0.2.1", "198.51.100.7"
MEMORY = StateReply(None, ())
VISIT = Visit(1.0, ME, ME, ME, "GET", "/page", origin="same")


def detector(closed: str = "") -> MarkerIntegrityDetector:
    return MarkerIntegrityDetector(
        lambda digest: "/list" if digest == page_digest("/list") else "",
        lambda target: not target.startswith("/api/"),
        lambda target: bool(closed) and target.startswith(closed),
    )


def evidence(closed: str = "", **fields):
    return detector(closed)(msgspec.structs.replace(VISIT, **fields), MEMORY)


def issued_to(who: str, parent: str = "/list", kind: str = "page") -> Marker:
    return Marker(kind, visitor_digest(who), page_digest(parent), "/page")


@pytest.mark.parametrize("kind", ["page", "form", "frame"])
@pytest.mark.parametrize("origin", ["same", "cross", "none", "unknown"])
def test_a_link_of_ones_own_is_no_evidence(kind, origin):
    assert evidence(marker=issued_to(ME, kind=kind), origin=origin) == ()


@pytest.mark.parametrize("kind", ["page", "form", "frame"])
def test_a_link_of_another_names_whose_and_from_where(kind):
    (found,) = evidence(marker=issued_to(OTHER, kind=kind))
    assert (found.detector, found.code) == ("integrity", "minted-for-another")
    assert 0 < found.weight < 1
    assert found.details == visitor_digest(OTHER).hex()
    assert found.text == "Used a link of the page /list that another visitor was given."


def test_a_forgotten_page_is_a_page_of_this_site():
    (found,) = evidence(marker=issued_to(OTHER, "/forgotten"))
    assert found.text == "Used a link of a page of this site that another visitor was given."


def test_a_visitor_with_a_new_name_may_use_its_earlier_links():
    """Logged in or out, or at another address: the browser carries, sealed, who it was."""
    account = {"visitor": "account:ann", "account": "ann"}
    assert len(evidence(marker=issued_to(ME), **account)) == 1
    assert evidence(marker=issued_to(ME), linked=(visitor_digest("x"), visitor_digest(ME)), **account) == ()
    assert len(evidence(marker=issued_to(OTHER), linked=(visitor_digest("x"),))) == 1


def test_a_link_for_anybody_is_no_evidence():
    assert evidence(marker=Marker("page", NOBODY, page_digest("/list"), "/page")) == ()


@pytest.mark.parametrize("kind", ["trap", "maze"])
def test_a_trap_is_another_detectors_business(kind):
    assert evidence(marker=issued_to(OTHER, kind=kind)) == ()
    assert evidence(marker=issued_to(ME, kind=kind)) == ()


def test_a_changed_link_is_evidence_and_not_enough_to_block():
    (found,) = evidence(tampered=True)
    assert (found.detector, found.code) == ("integrity", "tampered")
    assert 0 < found.weight < 1
    (found,) = evidence(tampered=True, kind="asset", origin="cross")
    assert found.code == "tampered"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"origin": "none"}, None),
        ({"origin": "cross"}, None),
        ({"origin": "same"}, "unmarked"),
        ({"origin": "unknown"}, "entry"),
        ({"kind": "call"}, None),
        ({"kind": "asset"}, None),
        ({"kind": "prefetch"}, None),
        ({"target": "/api/x"}, None),
        ({"target": "/api/x", "origin": "unknown"}, None),
    ],
)
def test_an_entry_weighs_little(fields, code):
    """Typed, bookmarked, found by a search engine, linked elsewhere: normal."""
    found = evidence(**fields)
    assert [one.code for one in found] == ([code] if code else [])
    assert sum(one.weight for one in found) <= 0.01


@pytest.mark.parametrize("origin", ["same", "cross", "none", "unknown"])
def test_a_closed_page_is_refused_to_who_comes_without_a_link(origin):
    (found,) = evidence("/", origin=origin)
    assert (found.detector, found.code, found.weight) == ("entry", "closed", 1.0)
    assert evidence("/", marker=issued_to(ME), origin=origin) == ()
    assert [one.code for one in evidence("/", marker=issued_to(OTHER), origin=origin)] == ["minted-for-another"]
    assert evidence("/", target="/api/x", origin=origin) == ()
    assert evidence("/", kind="asset", origin=origin) == ()


def test_whatever_comes_together_in_one_visit_blocks_nobody():
    for fields in ({"tampered": True}, {"marker": issued_to(OTHER)}, {}):
        assert sum(found.weight for found in evidence(**fields)) < 1.0


# ---- Counting up


def after(before: str, target: str, **fields):
    found = detector()(
        msgspec.structs.replace(VISIT, target=target, **fields),
        msgspec.structs.replace(MEMORY, entries=(before,) if before else ()),
    )
    return [(one.code, one.weight) for one in found]


@pytest.mark.parametrize("origin", ["same", "cross", "none", "unknown"])
@pytest.mark.parametrize(
    ("before", "target"), [("/item?id=7", "/item?id=8"), ("/a/9/x.html", "/a/10/x.html"), ("/9", "/7")]
)
def test_one_number_after_the_other_is_no_normal_entry(before, target, origin):
    assert after(before, target, origin=origin) == [("enumerated", 0.1)]


@pytest.mark.parametrize(
    ("before", "target", "expected"),
    [
        ("", "/article/17", [("entry", 0.0)]),
        ("/article/17", "/article/17", []),
        ("/article/17", "/article/95", [("entry-like-the-last", 0.01)]),
        ("/2026/11/article-17", "/2026/12/article-18", [("entry", 0.0)]),
        ("/article/17", "/about", []),
        ("/about", "/contact", []),
        ("/" + "9" * 200, "/" + "9" * 199 + "8", [("enumerated", 0.1)]),
    ],
)
def test_other_entries_weigh_next_to_nothing(before, target, expected):
    assert after(before, target, origin="none") == expected


@pytest.mark.parametrize("origin", ["same", "unknown"])
def test_the_same_page_again_weighs_nothing(origin):
    """A monitor that asks for the start page every half a minute, a page that reloads itself."""
    assert after("/about", "/status", origin=origin)[0][1] == 0.01
    assert after("/status", "/status", origin=origin) == []


def test_a_log_of_a_site_without_markers_accuses_nobody():
    one = MarkerIntegrityDetector(lambda _: "", lambda _: True, lambda _: False, entries=False)
    for origin in ("same", "unknown"):
        assert (
            one(msgspec.structs.replace(VISIT, origin=origin), msgspec.structs.replace(MEMORY, entries=("/1",))) == ()
        )


def test_a_script_may_enumerate_pages():
    """An endless list loads its next part: the request says that a script made it, the answer is a whole page."""
    assert after("/list?page=2", "/list?page=3", origin="same", anomalies=("by-script",)) == []

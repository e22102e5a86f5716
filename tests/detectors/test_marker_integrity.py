"""Integrity: what a marker says of who came by it, and that nobody normal is accused."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.decision import VisitorScore
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


@pytest.mark.parametrize(("origin", "weight"), [("same", 0.1), ("unknown", 0.01), ("none", 0.0), ("cross", 0.0)])
def test_a_link_of_another_weighs_only_if_it_was_not_passed_on(origin, weight):
    """Typed, from another site, from a message: still evidence of whose link it is, for campaigns."""
    (found,) = evidence(marker=issued_to(OTHER), origin=origin)
    assert (found.code, found.weight, found.issued_to) == ("minted-for-another", weight, visitor_digest(OTHER))


@pytest.mark.parametrize(
    ("me", "other"),
    [("192.0.2.1", "192.0.2.255"), ("2001:db8:1:200::/64", "2001:db8:1:2ff::/64"), ("192.0.2.1", "192.0.2.0")],
)
def test_a_browser_that_moves_within_its_network_is_not_accused(me, other):
    fields = {"address": me.removesuffix("/64"), "visitor": me, "prefix": me, "marker": issued_to(other)}
    for referrer in ("", "https://example.org/list"):
        (found,) = evidence(referrer=referrer, **fields)
        assert (found.code, found.weight, found.issued_to) == ("minted-for-neighbour", 0.0, None)
    for more in (
        {"origin": "none"},
        {"referrer": "https://example.org/elsewhere"},
        {"anomalies": ("browser-no-fetch",)},
        {"anomalies": ("program",)},
        {"visitor": "account:ann"},
        {"marker": issued_to("192.0.3.1")},
        {"marker": issued_to("2001:db8:1:300::/64")},
    ):
        (found,) = evidence(**{**fields, **more})
        assert found.code == "minted-for-another"


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


@pytest.mark.parametrize("fields", [{}, {"kind": "asset", "origin": "cross"}])
def test_a_link_that_cannot_be_opened_accuses_nobody(fields):
    """After the key was lost all old links are such."""
    (found,) = evidence(tampered=True, **fields)
    assert (found.detector, found.code, found.weight) == ("integrity", "tampered", 0.0)


@pytest.mark.parametrize(("origin", "weight"), [("same", 0.01), ("unknown", 0.01), ("none", 0.0), ("cross", 0.0)])
def test_a_damaged_mark_weighs_as_much_as_none(origin, weight):
    (found,) = evidence(tampered=True, raw_target="/page?~=x", origin=origin)
    assert (found.detector, found.code, found.weight, found.details) == ("entry", "damaged", weight, "/page")


def test_a_damaged_mark_opens_nothing_and_hides_no_counting():
    (found,) = evidence("/", tampered=True, raw_target="/page?~=x")
    assert found.code == "closed"
    fields = {"tampered": True, "raw_target": "/item/8?~=x", "origin": "none"}
    assert after("/item/7", "/item/8", **fields) == [("enumerated", 0.1)]
    assert after("/item/8", "/item/8", **{**fields, "origin": "same"}) == [("damaged", 0.0)]


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
    assert evidence("/", kind="asset", origin=origin) == ()


@pytest.mark.parametrize("fields", [{"anomalies": ("by-script",)}, {"kind": "prefetch", "prefetch": True}])
def test_a_closed_page_stays_closed_whatever_it_is_said_to_be_for(fields):
    assert [one.code for one in evidence("/", **fields)] == ["closed"]


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


REFERRED = {"origin": "same", "referrer": "https://example.org/item/7"}


def test_a_browser_that_each_page_leads_to_the_next_does_not_count_up():
    assert after("/item/7", "/item/8", **REFERRED) == [("unmarked", 0.01)]
    for more in (
        {"referrer": "https://example.org/"},
        {"referrer": ""},
        {"anomalies": ("browser-no-fetch",)},
        {"anomalies": ("program",)},
        {"origin": "cross"},
    ):
        assert after("/item/7", "/item/8", **{**REFERRED, **more}) == [("enumerated", 0.1)]


SOLVED = VisitorScore(challenges=1, day=1)


@pytest.mark.parametrize(
    ("visitor", "score", "weights"),
    [
        ("clearance:00", None, (0.01, 0.02)),
        ("account:ann", SOLVED, (0.01, 0.02)),
        ("account:ann", None, (0.1, 0.1)),
        ("account:ann", msgspec.structs.replace(SOLVED, identity="suspect"), (0.1, 0.1)),
        (ME, SOLVED, (0.1, 0.1)),
    ],
)
def test_counting_up_weighs_less_for_who_solved_a_challenge(visitor, score, weights):
    found = []
    for origin in ("same", "none"):
        visit = msgspec.structs.replace(VISIT, target="/item/8", visitor=visitor, origin=origin)
        memory = msgspec.structs.replace(MEMORY, entries=("/item/7",), score=score)
        found += [(one.code, one.weight) for one in detector()(visit, memory)]
    assert found == [("enumerated", weight) for weight in weights]


def test_a_visit_while_no_links_were_marked_accuses_nobody():
    """A ledger may have a time in which the site only observed."""
    assert after("/list?page=2", "/list?page=3", origin="same", anomalies=("unmarked-site",)) == []
    assert evidence(closed="/closed", target="/closed", origin="same", anomalies=("unmarked-site",)) == ()

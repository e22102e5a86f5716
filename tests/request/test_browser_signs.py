"""The signs of visitors: bounded, and given once."""

from __future__ import annotations

import sys

import msgspec
import pytest

from driving import START
from hedgerow.core.decision import Evidence
from hedgerow.core.visit import BY_PROGRAM, BY_SCRIPT, Visit
from hedgerow.request.browser_signs import BrowserSigns, VisitorSigns, asks_for_privacy, is_one_browser, is_page_view

VISIT = Visit(START, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/")


def test_only_the_visitors_seen_last_are_known():
    signs = BrowserSigns(most=2)
    signs.of("a").set("no-input", holds=True)
    signs.of("b")
    signs.of("a")
    signs.of("c")
    assert len(signs) == 2
    assert signs.find("b") is None
    assert signs.find("a").signs == ("no-input",)


def test_a_report_that_arrives_twice_is_new_once():
    signs = BrowserSigns()
    assert [signs.is_new("a", number) for number in (1, 2, 1, 2)] == [True, True, False, False]
    assert signs.is_new("b", 1)
    for number in range(100, 120):
        signs.is_new("a", number)
    assert len(signs.of("a").reports) == 8


def test_a_page_is_new_unless_it_is_one_of_the_last():
    known = VisitorSigns()
    assert [known.open(page) for page in (1, 2, 1)] == [True, True, False]
    for page in range(100):
        known.open(page)
    assert len(known.pages) == 12


def test_evidence_of_a_sign_is_given_once_and_only_while_it_holds():
    known, evidence = VisitorSigns(), Evidence("group", "webdriver", 0.5, "Why.")
    assert known.give(evidence) == ()
    known.set("webdriver", holds=True)
    assert known.give(evidence) == (evidence,)
    assert known.give(evidence) == ()


def test_a_visitor_takes_less_than_two_kilobytes():
    known = VisitorSigns()
    for page in range(100):
        known.open(hash(("example.org", page)))
    known.signs = known.given = ("sign",) * 8
    known.pointer = tuple(range(10**9, 10**9 + 7))
    known.reports = tuple(range(10**18, 10**18 + 8))
    parts = [getattr(known, name) for name in VisitorSigns.__slots__]
    size = sys.getsizeof(known) + sum(map(sys.getsizeof, parts))
    size += sum(sys.getsizeof(one) for part in parts if isinstance(part, list | tuple) for one in part)
    # The codes are the same objects for all visitors.
    size -= 2 * 8 * sys.getsizeof("sign")
    assert size < 2_048


@pytest.mark.parametrize(("visitor", "expected"), [("192.0.2.1", False), ("clearance:ab", True), ("account:ann", True)])
def test_one_browser_has_a_clearance_or_an_account(visitor, expected):
    assert is_one_browser(msgspec.structs.replace(VISIT, visitor=visitor)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"kind": "call"}, False),
        ({"kind": "prefetch"}, False),
        ({"anomalies": (BY_SCRIPT,)}, False),
        ({"anomalies": (BY_PROGRAM,)}, False),
    ],
)
def test_page_views(fields, expected):
    assert is_page_view(msgspec.structs.replace(VISIT, **fields)) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [([], False), ([(b"dnt", b"1")], True), ([(b"DNT", b" 1 ")], True), ([(b"sec-gpc", b"1")], True),
     ([(b"sec-gpc", b"0")], False), ([(b"dnt", b"")], False)],
)  # fmt: skip
def test_browsers_that_ask_for_privacy(headers, expected):
    assert asks_for_privacy(headers) is expected

"""Links that arrive as if typed: many in a row, of this very visitor, and just given."""

from __future__ import annotations

import pytest

from hedgerow.core.visit import BY_PROGRAM, BY_SCRIPT, Marker
from hedgerow.detectors.typed_links import DETECTOR, TypedLinksDetector
from hedgerow.markers.token import page_digest, visitor_digest

from .browser_reports import Reporting


def opened(browser: Reporting, pages: int, **fields) -> list[str]:
    return [code for _ in range(pages) for code in browser.open(typed=True, **fields)]


def test_six_of_the_last_ten_pages_are_a_sign_and_it_is_given_once():
    browser = Reporting(TypedLinksDetector)
    browser.open()
    assert opened(browser, 5) == []
    assert opened(browser, 1) == ["typed-links"]
    assert opened(browser, 10) == []
    assert browser.known.signs == ("typed-links",)


def test_a_person_who_copies_a_link_now_and_then_gives_no_sign():
    browser = Reporting(TypedLinksDetector)
    for _ in range(20):
        assert browser.open(typed=True) == []
        assert browser.open() == []


def test_the_sign_ends_when_links_are_clicked_again():
    browser = Reporting(TypedLinksDetector)
    browser.open()
    opened(browser, 10)
    for _ in range(5):
        browser.open()
    assert browser.known.signs == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"after": 601.0},
        {"origin": "same"},
        {"origin": "cross"},
        {"target": "/the-same"},
        {"kind": "prefetch"},
        {"anomalies": (BY_SCRIPT,)},
        {"anomalies": (BY_PROGRAM,)},
        {"marker": None},
        {"marker": Marker("page", visitor_digest("clearance:cd"), page_digest("/list"), "/page")},
    ],
)
def test_what_is_not_counted(fields):
    """A tab restored later, a click, the same page again, what no window asked for, links of nobody and of others."""
    browser = Reporting(TypedLinksDetector)
    browser.open()
    assert opened(browser, 12, **fields) == []


def test_many_people_behind_one_address_are_not_counted_as_one():
    assert DETECTOR.only == "one-browser"

"""Pages that the script of one page fetches from a list."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker
from hedgerow.detectors.fetched_lists import FetchedListsDetector

from .browser_reports import VISIT

FETCHED = msgspec.structs.replace(
    VISIT, visitor="clearance:ab", host="example.org", referrer="http://example.org/start", anomalies=("by-script",)
)
MARK = Marker("page", b"123456", b"abcdef", "/a")


def declined(detect: FetchedListsDetector, pages: int = 500, **fields: Any) -> int:
    """How many of so many pages are declined."""
    visits = [msgspec.structs.replace(FETCHED, **{"target": f"/page/{number}", **fields}) for number in range(pages)]
    return sum(bool(detect(visit, StateReply(None, ()))) for visit in visits)


def test_a_list_of_addresses():
    assert 330 <= declined(FetchedListsDetector(lambda _: True, 150)) <= 370
    assert 180 <= declined(FetchedListsDetector(lambda _: True)) <= 220


@pytest.mark.parametrize(
    "fields",
    [
        {"anomalies": ()},
        {"marker": MARK},
        {"visitor": "192.0.2.1"},
        {"visitor": "account:ann"},
        {"target": "/found?q=hedge"},
        {"referrer": "http://example.org/"},
        {"referrer": ""},
        {"referrer": "http://example.org/worker.js"},
        {"method": "POST"},
        {"anomalies": ("by-script", "elsewhere")},
        {"anomalies": ("by-script", "unmarked-site")},
    ],
)
def test_what_is_no_list(fields):
    assert declined(FetchedListsDetector(lambda _: True, 50), **fields) == 0


def test_searches_count_once():
    detect = FetchedListsDetector(lambda _: True, 50)
    assert sum(declined(detect, 1, target=f"/found?q={number}") for number in range(500)) == 0


def test_pages_to_which_no_links_are_marked_do_not_count():
    assert declined(FetchedListsDetector(lambda _: False, 50)) == 0


def test_a_script_that_shows_pages_fetches_each_from_another():
    detect = FetchedListsDetector(lambda _: True, 50)
    for number in range(1_000):
        assert declined(detect, 5, referrer=f"http://example.org/page/{number}") == 0


def test_each_visitor_counts_for_itself():
    detect = FetchedListsDetector(lambda _: True, 150)
    assert sum(declined(detect, 100, visitor=f"clearance:{number:02x}") for number in range(20)) == 0


def test_many_visitors_take_bounded_memory():
    detect = FetchedListsDetector(lambda _: True)
    for number in range(3_000):
        declined(detect, 1, visitor=f"clearance:{number:04x}")
    assert len(detect._visitors) == 2_000

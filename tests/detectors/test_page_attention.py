"""Pages that nobody looks at: ten without input, or eight left at a glance."""

from __future__ import annotations

import msgspec
import pytest

from driving import START
from hedgerow.core.decision import VisitorScore
from hedgerow.core.state import StateReply
from hedgerow.detectors.page_attention import PageAttentionDetector
from hedgerow.detectors.typed_links import TypedLinksDetector

from .browser_reports import NOTHING, VISIT, Reporting


def browser() -> Reporting:
    return Reporting(TypedLinksDetector, PageAttentionDetector)


def test_ten_pages_without_input_are_a_sign():
    one = browser()
    assert one.read(9) == []
    one.report()
    assert one.open() == ["no-input"]


@pytest.mark.parametrize("what", ["moves", "presses", "touches", "keys", "clicks", "wheels"])
def test_one_event_of_any_device_ends_it(what):
    one = browser()
    one.read(9)
    one.report(**{what: 1})
    assert one.read(8) == []
    one = browser()
    assert "no-input" in one.read(12)
    one.report(**{what: 1})
    assert one.known.signs == ()


def test_a_page_that_loads_itself_again_all_day_is_no_sign():
    one = browser()
    for _ in range(50):
        assert one.open("/board") == []
        one.report()


def test_pages_in_background_tabs_do_not_count():
    assert browser().read(30, visible=0) == []


def test_a_page_that_is_looked_at_again_is_not_another_page():
    assert browser().read(30, report=2) == []


def test_eight_glances_in_a_row_are_a_sign():
    assert browser().read(7, visible=900) == []
    assert browser().read(8, visible=900) == ["glances"]
    one = browser()
    one.read(7, visible=900)
    one.report(visible=1000)
    assert one.read(1, visible=900) == []


SUSPECT = StateReply(None, (), score=VisitorScore("depth-first", 1.5, START))


def attended(one: Reporting, reply: StateReply = SUSPECT) -> bool:
    visit = msgspec.structs.replace(VISIT, at=one.at + 1, visitor=one.visitor, target="/next")
    return [found.code for found in one.detectors[1](visit, reply)] == ["attended"]


@pytest.mark.parametrize("numbers", [{"moves": 5}, {"touches": 2}, {"keys": 1}, {"clicks": 1}])
def test_a_suspect_who_uses_most_pages_by_hand_is_attended(numbers):
    one = browser()
    one.read(4, **numbers)
    assert not attended(one)
    one.read(1, **numbers)
    assert attended(one)
    assert not attended(one, NOTHING), "nothing is said of who is no suspect"
    one.read(4)
    assert not attended(one)


@pytest.mark.parametrize(
    "numbers", [{"moves": 2, "presses": 1, "clicks": 1}, {"wheels": 9}, {"keys": 3, "visible": 400}]
)
def test_what_a_driver_does_without_a_way_of_the_mouse_is_not_attended(numbers):
    one = browser()
    one.read(8, **numbers)
    assert not attended(one)


def test_with_any_sign_nobody_is_attended():
    one = browser()
    one.read(8, keys=2)
    assert attended(one)
    one.known.set("webdriver", holds=True)
    assert not attended(one)


def test_a_person_who_clicks_fast_gives_no_sign():
    assert browser().read(30, visible=300, presses=1, clicks=1) == []


def said(one: Reporting, reply: StateReply = SUSPECT) -> list[str]:
    visit = msgspec.structs.replace(VISIT, at=one.at + 1, visitor=one.visitor, target="/next", kind="call")
    return [found.code for found in one.detectors[1](visit, reply)]


def test_a_suspect_whose_reports_say_that_nobody_uses_its_pages_is_unattended():
    one = browser()
    one.read(4, presses=1, clicks=1)
    assert said(one) == [], "four reports are too few"
    one.read(1, presses=1, clicks=1)
    assert said(one) == ["unattended"]
    assert said(one, NOTHING) == [], "nothing is said of who is no suspect"
    one.read(5, moves=9)
    assert said(one) == ["attended"]


def test_a_suspect_whose_pages_nobody_touches_is_untouched():
    one = browser()
    one.read(12)
    assert said(one) == ["untouched"]


def test_a_visitor_with_a_score_and_no_name_yet_is_spoken_of():
    """As after `path-turning`: the policy makes a suspect of it at this visit."""
    one = browser()
    one.read(5, keys=1)
    assert said(one, StateReply(None, (), score=VisitorScore("person", 1.5, START))) == ["attended"]

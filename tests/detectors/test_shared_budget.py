"""Several clearances at one address that share the pages of a site among them."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from hedgerow.core.decision import VisitorScore
from hedgerow.core.state import StateReply
from hedgerow.detectors.shared_budget import SharedBudgetDetector
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import BrowserSigns

from .browser_reports import VISIT

DAY = 86_400.0


class Address:
    """Clearances of one address that read different pages in turn."""

    def __init__(self, k2: int = 50) -> None:
        self.signs = BrowserSigns()
        self.detect = SharedBudgetDetector(self.signs, k2)
        self._pages = itertools.count()
        self._today: dict[str, int] = {}

    def read(self, who: int, *, score: VisitorScore | None = None, today: int = 0, **fields: Any) -> list[str]:
        name = f"clearance:{who:02x}"
        self._today[name] = today or self._today.get(name, 0) + 1
        visit = msgspec.structs.replace(VISIT, visitor=name, **{"target": f"/page/{next(self._pages)}", **fields})
        return [one.code for one in self.detect(visit, StateReply(None, (), score=score, today=self._today[name]))]

    def fill(self, readers: int = 5, pages: int = 100, **fields: Any) -> list[str]:
        return [code for number in range(pages) for code in self.read(number % readers, **fields)]

    def use(self, who: int) -> None:
        report = BrowserReport(page=next(self._pages), visible=5_000, keys=3)
        self.detect.on_report(msgspec.structs.replace(VISIT, visitor=f"clearance:{who:02x}", kind="call"), report)


@pytest.mark.parametrize(("readers", "is_asked"), [(1, False), (2, False), (3, True), (10, True), (40, True)])
def test_several_clearances_that_read_more_than_one_may(readers, is_asked):
    assert ("k2-address" in Address().fill(readers, 1_000)) == is_asked


def test_the_same_pages_again_do_not_count():
    assert Address().fill(10, 2_000, target="/page") == []
    here = Address()
    assert [code for n in range(2_000) for code in here.read(n % 20, target=f"/page/{n % 45}")] == []


def test_pages_of_another_day_do_not_count():
    here = Address()
    here.fill(5, 49)
    assert here.fill(5, 49, at=VISIT.at + DAY) == []


def test_each_visitor_that_uses_pages_by_hand_allows_as_many_again():
    here = Address()
    for who in (7, 7, 8):
        here.use(who)
    assert here.fill(5, 140) == []
    assert "k2-address" in here.fill(5, 100)


def test_where_many_use_pages_by_hand_nobody_is_asked():
    here = Address()
    for who in range(16):
        here.use(50 + who)
    assert here.fill(5, 3_000) == []


def test_a_visitor_that_uses_most_of_its_pages_by_hand_is_never_asked_and_does_not_count():
    here = Address()
    for _ in range(8):
        here.signs.of("clearance:01").note_use(is_used=True)
    assert [here.read(1) for _ in range(500)] == [[]] * 500
    assert here.fill(5, 40) == []
    here.fill(5, 100)
    assert here.read(1, today=11) == []
    assert here.read(2, today=11) == ["k2-address"]


def test_who_has_paid_is_asked_less_often():
    here, paid = Address(), VisitorScore(challenges=1)
    here.fill()
    assert here.read(1, today=21) == ["k2-address"]
    assert here.read(1, today=21, score=paid) == []
    assert here.read(1, today=51, score=paid) == ["k2-address"]


@pytest.mark.parametrize(
    ("calculations", "challenges", "is_asked"), [(0, 1, False), (1, 1, True), (3, 3, True), (2, 3, False)]
)
def test_a_calculation_is_no_price(calculations, challenges, is_asked):
    """Our own: whom the watch took for a crawler, and let solve silently, had paid for fifty pages."""
    here = Address()
    here.fill()
    for _ in range(calculations):
        here.detect.on_calculation("clearance:01")
    assert here.read(1, today=21, score=VisitorScore(challenges=challenges)) == ["k2-address"] * is_asked


def test_who_has_read_an_image_has_paid_whatever_it_calculated_before_and_after():
    """The other side: somebody who reads slowly solves calculations all the time, which are not counted."""
    here, asked = Address(), VisitorScore("suspect", 1.0, challenges=1, reasons=(("k2-address", 1),))
    here.fill()
    for _ in range(5):
        here.detect.on_calculation("clearance:01")
    assert here.read(1, today=21, score=asked) == ["k2-address"]
    assert here.read(1, today=31, score=VisitorScore(challenges=1, reasons=asked.reasons)) == ["k2-address"], "faded"
    assert here.read(1, today=31, score=VisitorScore(challenges=1)) == []
    here.detect.on_calculation("clearance:01")
    assert here.read(1, today=41, score=VisitorScore(challenges=2)) == []
    assert here.read(1, today=51, score=VisitorScore(challenges=2)) == ["k2-address"]


def test_it_remembers_the_calculations_of_a_bounded_number_of_visitors():
    detect = SharedBudgetDetector(BrowserSigns(), 50)
    for number in range(12_000):
        detect.on_calculation(f"clearance:{number:x}")
    assert len(detect._solved) == 10_000


def test_who_has_not_answered_is_asked_on():
    here, asked = Address(), VisitorScore("suspect", 1.0, reasons=(("k2-address", 1),))
    here.fill()
    assert here.read(1, today=22, score=asked) == ["k2-address"]
    assert here.read(1, today=22, score=asked, kind="call") == ["k2-address"]
    assert here.read(1, today=22, score=asked, kind="asset") == []
    assert here.read(1, today=22) == []


def test_visitors_without_a_clearance_and_what_scripts_fetch_do_not_count():
    here = Address()
    assert here.fill(5, 500, anomalies=("by-script",)) == []
    assert here.fill(5, 500, anomalies=("elsewhere",)) == []
    visit = msgspec.structs.replace(VISIT, visitor=VISIT.prefix)
    assert here.detect(visit, StateReply(None, (), today=11)) == ()


def test_it_remembers_a_bounded_number_of_addresses():
    detect = SharedBudgetDetector(BrowserSigns(), 50)
    for number in range(3_000):
        prefix = f"10.0.{number >> 8}.{number & 255}"
        detect(msgspec.structs.replace(VISIT, prefix=prefix), StateReply(None, (), today=1))
    assert len(detect._addresses) == 2_000

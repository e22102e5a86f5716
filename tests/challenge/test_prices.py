"""The price of a clearance rises for who drops clearances, and not for many people behind one address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.challenge.prices import (
    MAX_HELD,
    HeldClearances,
    counted_pages,
    is_sold_out,
    pages_to_count,
    pages_within_a_day,
    price_of,
    wants_captcha,
)
from hedgerow.core.decision import ScoreUpdate, VisitorScore
from hedgerow.policy.score import updated_score

HOUR = 3600.0
DAY = 24 * HOUR


def counted_in_turn(sequence: list[str], held: HeldClearances, *, day: int = 1) -> list[str]:
    """The clearances that count as held, each as often as it is counted."""
    return [visitor for visitor in sequence if held.use("192.0.2.1", visitor, day)]


def test_one_after_the_other_is_nothing_that_is_held():
    dropped = [f"clearance:{number // 9}" for number in range(900)]
    assert counted_in_turn(dropped, HeldClearances()) == []


def test_side_by_side_is_held_and_counts_once_a_day():
    together, held = [f"clearance:{number % 30}" for number in range(90)], HeldClearances()
    assert counted_in_turn(together, held) == together[:30]
    assert counted_in_turn(together, held) == []
    assert sorted(counted_in_turn(together, held, day=2)) == sorted(together[:30])


@given(st.lists(st.integers(0, 200).map("clearance:{}".format), max_size=400))
def test_no_more_are_held_than_were_used_twice(sequence):
    counted = counted_in_turn(sequence, HeldClearances())
    assert len(counted) == len(set(counted)) <= MAX_HELD
    assert all(sequence.count(one) > 1 for one in counted)


@given(st.floats(0, 10_000), st.floats(0, 10_000), st.integers(0, 64))
def test_more_pages_never_cost_less_and_more_holders_never_more(pages, more, held):
    assert price_of(pages, held) <= price_of(pages + more, held)
    assert price_of(pages, held + 1) <= price_of(pages, held)


@pytest.mark.parametrize("each", [1, 2, 3, 4, 7, 9, 16, 19, 20, 30])
def test_who_drops_clearances_has_150_pages_a_day_and_pays_ten_times_as_much_within_100(each):
    """
    Each clearance for so many pages, of which the first brings it and counts for nothing.

    Without any clearance there are 20 pages more.
    """
    pages = counted = 0
    costs: list[int] = []
    while not is_sold_out(price := price_of(counted, 0)):
        costs += [price] * (each + 1)
        pages += each + 1
        counted += 1 + sum(pages_to_count(page, is_suspected=False) for page in range(1, each + 1))
    assert pages + 20 <= 150 + each
    assert 2 ** max(costs[:100]) >= 10
    assert wants_captcha(costs[-1])


@given(st.integers(1, 1000))
def test_no_page_of_a_suspect_is_left_out(pages):
    counted = sum(pages_to_count(page, is_suspected=True) for page in range(1, pages + 1))
    assert pages <= counted <= pages + 3


def test_a_person_who_reads_200_pages_with_one_clearance_can_calculate_the_next():
    """As on the next day, or in a private window."""
    counted = 1 + sum(pages_to_count(page, is_suspected=False) for page in range(1, 201))
    assert not wants_captcha(price_of(counted, 0))
    suspected = 1 + sum(pages_to_count(page, is_suspected=True) for page in range(1, 201))
    assert is_sold_out(price_of(suspected, 0))


def count(times: list[float]) -> VisitorScore:
    """The score of an address that had a page at each of *times*."""
    score = VisitorScore()
    for at in times:
        codes = counted_pages(1, at)
        score = updated_score(score, ScoreUpdate("clearances:192.0.2.1", at, int(at // DAY), HOUR, codes=codes))
    return score


@given(st.lists(st.floats(0, 3 * DAY), max_size=60).map(sorted), st.floats(0, DAY))
def test_a_page_counts_for_a_day_and_no_longer_than_thirty_hours(times, later):
    now = max(times, default=0.0) + later
    found = pages_within_a_day(count(times), now)
    assert sum(now - at <= DAY for at in times) <= found <= sum(now - at <= 30 * HOUR for at in times)


def test_pages_count_at_once_and_next_to_wrong_answers():
    score = updated_score(count([0.0]), ScoreUpdate("x", 1.0, 0, HOUR, codes=counted_pages(4, 1.0)))
    score = updated_score(score, ScoreUpdate("x", 1.0, 0, HOUR, codes=("challenge-wrong",), suspicious=True))
    assert pages_within_a_day(score, 2.0) == 5
    assert pages_within_a_day(None, 2.0) == 0


def test_addresses_are_bounded():
    held = HeldClearances(most=100)
    for number in range(1_000):
        held.use(f"10.0.{number // 250}.{number % 250}", "clearance:a", 1)
    assert len(held._by_prefix) == 100

"""A surge of entries without marked links: when it begins, that it ends, and what people do that is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.request.entry_surge import FLOOR, EntrySurge, PageFilter
from property_tests import examples

START = 1_800_000_000.0


def page(number: int) -> bytes:
    return number.to_bytes(6, "big")


def crawl(
    surge: EntrySurge, pages: int, *, first: int = 0, at: float = START, every: float = 1.0, each: int = 1
) -> int:
    """Come to that many pages, *each* from one address; return how many were served before the surge began."""
    for n in range(pages):
        surge.enter(f"crawler {(first + n) // each}", page(first + n), at + n * every)
        if surge.is_on:
            return n + 1
    return pages


@pytest.mark.parametrize(("each", "most"), [(1, 155), (3, 155), (4, 155), (20, 300)])
@pytest.mark.parametrize("every", [0.01, 1.0, 5.0])
def test_a_crawl_begins_a_surge_within_300_pages(every, each, most):
    surge = EntrySurge()
    assert crawl(surge, 1_000, every=every, each=each) <= most + 200 * (every > 1)
    assert surge.is_on


def test_one_address_alone_begins_none():
    surge = EntrySurge()
    assert crawl(surge, 1_000, each=1_000) == 1_000


def test_the_same_pages_again_begin_none():
    surge = EntrySurge()
    for n in range(2_000):
        surge.enter(f"reader {n}", page(n % 40), START + n)
    assert not surge.is_on


def test_visitors_that_return_begin_none():
    surge = EntrySurge()
    for n in range(2_000):
        surge.enter(f"reader {n}", page(n), START + n)
        if n % 3:
            surge.clear(f"reader {n}", START + n + 5)
        assert not surge.is_on


def test_where_browsers_obtain_no_clearance_visitors_that_go_on_begin_none():
    surge = EntrySurge(clears=False)
    for n in range(2_000):
        surge.enter(f"reader {n}", page(2 * n), START + n)
        surge.read(f"reader {n}", page(2 * n + 1), START + n + 5)
        surge.come_back(f"reader {n}", START + n + 5)
        assert not surge.is_on


@pytest.mark.parametrize("each", [2, 4])
@pytest.mark.parametrize("start", ["the home page", "a deep page"])
def test_strangers_that_follow_a_few_links_of_their_own_begin_a_surge_within_300_pages(start, each):
    surge, at, read = EntrySurge(), START, 0
    while not surge.is_on:
        visitor = f"crawler {read // each}"
        at += 1
        surge.enter(visitor, page(0 if start == "the home page" else read), at)
        read += 1
        for _ in range(each - 1):
            at += 1
            surge.come_back(visitor, at)
            surge.read(visitor, page(read), at)
            read += 1
    assert 200 < read * (1 if start == "a deep page" else (each - 1) / each) < 300


def test_readers_without_javascript_among_others_begin_none():
    """Half of all: each comes to a page of its own and reads eight more."""
    surge = EntrySurge()
    for n in range(2_000):
        at = START + 2 * n
        surge.enter(f"reader {n}", page(10 * n), at)
        surge.come_back(f"reader {n}", at)
        if n % 2:
            surge.clear(f"reader {n}", at + 1)
        for number in range(1, 9):
            surge.read(f"reader {n}", page(10 * n + number), at)
        assert not surge.is_on


def test_a_surge_that_begins_at_the_end_of_five_minutes_goes_on():
    surge = EntrySurge()
    at = crawl(surge, 200, at=START - START % 300 + 150) + START - START % 300 + 150
    assert surge.is_on
    for n in range(20):
        at += 10
        assert surge.ask(f"later {n}", at) == ""
    assert surge.is_on


def test_pages_by_which_people_came_do_not_count():
    surge = EntrySurge()
    for n in range(1_000):
        surge.meet(page(n))
    assert crawl(surge, 1_000) == 1_000


def test_pages_of_a_crawler_stay_new():
    """Otherwise the second crawl of a site would not be seen."""
    surge = EntrySurge()
    crawl(surge, 200)
    surge.ask("somebody", START + 1_000)
    assert not surge.is_on
    assert crawl(surge, 1_000, first=5_000, at=START + 7_200) < 300


def test_it_goes_on_while_the_crawl_does_and_ends_within_ten_minutes_after_it():
    surge = EntrySurge()
    crawl(surge, 200)
    at = START + 200
    for n in range(3_600):
        at += 1
        surge.enter(f"later {n}", page(10_000 + n), at)
        surge.ask(f"later {n}", at)
        assert surge.is_on
    for n in range(100):
        at += 10
        if surge.ask(f"person {n}", at) == "ended":
            break
        surge.come_back(f"person {n}", at + 5)
    assert at - START - 3_800 <= 600
    assert not surge.is_on


def test_it_ends_where_most_solve_what_they_are_asked_and_more_is_usual_then():
    surge = EntrySurge()
    limit = surge.limit
    crawl(surge, 200)
    at, changes = START + 200, set()
    for n in range(600):
        at += 1
        changes.add(surge.ask(f"person {n}", at))
        if n % 5:
            surge.come_back(f"person {n}", at)
    assert "ended" in changes
    assert surge.limit >= 1.9 * limit


def test_a_slow_crawler_does_not_become_usual():
    surge = EntrySurge()
    crawl(surge, 2_000, every=60.0)
    assert surge.usual < 10
    assert surge.limit == FLOOR


def test_what_is_usual_is_learned():
    """A busy site: two of five visitors never return, all day."""
    surge = EntrySurge()
    for n in range(20_000):
        surge.enter(f"reader {n}", page(n), START + 4 * n)
        if n % 5 > 1:
            surge.clear(f"reader {n}", START + 4 * n + 1)
        assert not surge.is_on
    assert surge.usual > 100
    assert surge.limit > 300


@examples(50)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60), st.integers(0, 300), st.floats(-50, 700)), max_size=400)
)
def test_the_count_never_falls_below_zero_and_times_may_come_in_any_order(steps):
    surge, at = EntrySurge(20), START
    for what, visitor, where, wait in steps:
        at += wait
        if what == 0:
            surge.enter(str(visitor), page(where), at)
        elif what == 1:
            surge.come_back(str(visitor), at)
        elif what == 2:
            surge.ask(str(visitor), at)
        elif what == 3:
            surge.clear(str(visitor), at)
        elif what == 4:
            surge.read(str(visitor), page(where), at)
        else:
            surge.meet(page(where))
        assert min(surge.count, surge.read_count) >= 0
        assert surge.limit >= 20


@examples(20)
@given(st.sets(st.binary(min_size=6, max_size=6), max_size=2_000))
def test_a_filter_forgets_no_page(pages):
    known = PageFilter()
    for one in pages:
        known.add(one)
    assert all(one in known for one in pages)


def test_a_filter_knows_few_pages_that_it_was_not_given():
    known = PageFilter()
    for n in range(120_000):
        known.add((n * 0x9E3779B97F4A).to_bytes(16, "big")[-6:])
    others = [(n * 0x9E3779B97F4A + 1).to_bytes(16, "big")[-6:] for n in range(10_000)]
    assert sum(one in known for one in others) < 300

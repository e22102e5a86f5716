"""Whose days count, and what follows from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.ledger.people_days import PeopleDay, VisitorPages, count_people, derived

A, B = "192.0.2.1", "192.0.2.2"


def row(visitor: str, pages: int, address: str = A, *, suspect: bool = False) -> VisitorPages:
    return VisitorPages(visitor, address, pages, suspect)


def test_holders_and_accounts_are_people_and_nobody_else():
    assert count_people(
        [row("clearance:a", 5), row("account:ann", 7, B), row("198.51.100.1", 900, "198.51.100.1")]
    ) == (PeopleDay({5: 1, 7: 1}, {}))


def test_suspects_are_no_people():
    assert count_people([row("clearance:a", 5, suspect=True), row("clearance:b", 7, B)]).holders == {7: 1}
    both = [row("clearance:a", 5), row("clearance:a", 400, B, suspect=True)]
    assert count_people(both).holders == {}, "on no address"


def test_one_address_counts_once_by_its_longest_reader():
    crawler = [row(f"clearance:{number}", 290 + number) for number in range(100)]
    assert count_people(crawler).holders == {389: 1}
    v6 = [row(f"clearance:{number}", 5, f"2001:db8::{number:x}") for number in range(100)]
    assert count_people(v6).holders == {5: 1}


def test_pages_without_a_clearance_count_where_people_are():
    assert count_people([row(A, 12), row("clearance:a", 3), row(B, 15, B)]).others == {12: 1}
    assert count_people([row(A, 12, suspect=True), row("clearance:a", 3)]).others == {}
    school = [row(A, 300), *(row(f"clearance:{number}", 3) for number in range(30))]
    assert count_people(school).others == {}


def test_a_limit_needs_a_thousand_days_and_stays_within_its_bounds():
    assert derived([{400: 999}], 300, 1000) == (300, 0)
    assert derived([{400: 500}, {400: 500}], 300, 1000) == (400, 1000)
    assert derived([{5: 5000}], 300, 1000) == (300, 5000)
    assert derived([{5000: 5000}], 300, 1000) == (1000, 5000)


@given(st.integers(1000, 20_000), st.integers(0, 100))
def test_who_has_less_than_one_in_a_thousand_days_changes_nothing(people, share):
    """A crawler with *share* percent of the days that would be needed."""
    crawlers = people * share // 100_000
    assert derived([{10: people, 5000: crawlers}], 300, 1000)[0] == 300

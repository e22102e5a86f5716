"""The sliding window counts exactly, whatever the order of visits."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.rate_limit import COUNTED_SERIES, SERIES, add_hit, count_hits, drop_hit

# Whole quarters: their differences are exact, so the reference has no rounding of its own.
TIMES = st.integers(0, 400).map(lambda n: n / 4)


def fill(times, *, max_age=10.0, max_hits=1000):
    hits = array("d")
    for at in times:
        add_hit(hits, at, max_age=max_age, max_hits=max_hits)
    return hits


@given(st.lists(TIMES, min_size=1), st.integers(1, 40).map(lambda n: n / 4))
def test_visits_in_order_are_counted_like_a_plain_list(times, seconds):
    times.sort()
    hits = array("d")
    for number, at in enumerate(times, 1):
        add_hit(hits, at, max_age=10.0, max_hits=1000)
        assert count_hits(hits, at, seconds) == sum(at - seconds < t <= at for t in times[:number])


@given(st.lists(TIMES, min_size=1), st.integers(1, 40).map(lambda n: n / 4))
def test_visits_out_of_order_are_counted_exactly_within_the_maximum_age(times, seconds):
    hits = array("d")
    for number, at in enumerate(times, 1):
        add_hit(hits, at, max_age=10.0, max_hits=1000)
        true = sum(at - seconds < t <= at for t in times[:number])
        counted = count_hits(hits, at, seconds)
        assert counted <= true
        if at - seconds >= max(times[:number]) - 10.0:
            assert counted == true
    assert list(hits) == sorted(hits)


@given(st.lists(TIMES), st.integers(1, 20))
def test_only_the_newest_hits_are_stored_up_to_the_maximum(times, max_hits):
    hits = fill(times, max_hits=max_hits)
    kept = sorted(t for t in times if t > max(times) - 10.0)
    if times == sorted(times):
        assert list(hits) == kept[-max_hits:]
    assert len(hits) <= max_hits


@given(st.lists(TIMES), TIMES)
def test_a_hit_can_be_removed(times, at):
    hits = array("d", sorted([*times, at]))
    drop_hit(hits, at)
    assert list(hits) == sorted(times)
    drop_hit(hits, -1.0)
    assert list(hits) == sorted(times)


def test_adjoining_windows_never_count_one_hit_twice():
    hits = fill([0.0, 8.0, 9.0, 10.0], max_age=20.0)
    assert count_hits(hits, 10.0, 10.0) == 3
    assert count_hits(hits, 10.0, 10.5) == 4
    assert count_hits(hits, 9.5, 1.0) == 1
    assert count_hits(array("d"), 5.0, 1.0) == 0


def test_each_selection_counts_its_kinds_of_requests():
    assert COUNTED_SERIES["pages"] == (SERIES["page"],)
    assert COUNTED_SERIES["requests"] == (SERIES["page"], SERIES["call"])
    assert COUNTED_SERIES["prefetches"] == (SERIES["prefetch"],)
    assert COUNTED_SERIES["everything"] == (SERIES["page"], SERIES["call"], SERIES["asset"])

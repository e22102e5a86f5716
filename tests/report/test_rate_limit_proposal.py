"""Limits from a log: peaks are exact, memory is bounded, and crawlers in the log do not set the limit."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.visit import Visit
from hedgerow.report.rate_limit_proposal import Peaks
from hedgerow.request.bots import declares_itself

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def visit(at: float, visitor: str = "192.0.2.1", *, kind: str = "page", user_agent: str = BROWSER) -> Visit:
    return Visit(at, visitor, visitor, visitor, "GET", "/", kind=kind, user_agent=user_agent)


def peaks_of(peaks: Peaks, visitor: str) -> list[int]:
    return list(peaks._traces[visitor].peaks)


def largest(times: list[float], span: float) -> int:
    """The largest number of *times* within any *span* seconds, by trying each as the end."""
    return max(sum(end - span < at <= end for at in times) for end in times)


@given(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=40).map(sorted))
def test_peaks_are_the_largest_counts_of_any_span(times):
    peaks = Peaks((1.0, 10.0, 60.0))
    for at in times:
        peaks.add(visit(at))
    assert peaks_of(peaks, "192.0.2.1") == [largest(times, span) for span in (1.0, 10.0, 60.0)]


@given(st.lists(st.floats(0, 30, width=32), min_size=1, max_size=30))
def test_late_comers_count_where_they_belong(times):
    """In any order, within the longest span."""
    peaks = Peaks((1.0, 10.0, 60.0))
    for at in times:
        peaks.add(visit(at))
    assert peaks_of(peaks, "192.0.2.1") == [largest(times, span) for span in (1.0, 10.0, 60.0)]


def crowd(peaks: Peaks, people: int, *, burst: int = 5, seed: int = 1) -> None:
    """People that open up to *burst* pages at once, each with its images, every few minutes."""
    chance = random.Random(seed)
    for person in range(people):
        name = f"198.51.100.{person}"
        for start in range(3):
            at = person * 7.0 + start * 300
            for n in range(chance.randint(1, burst)):
                peaks.add(visit(at + n * 0.125, name))
                peaks.add(visit(at + n * 0.125, name, kind="asset"))


def crawler(peaks: Peaks, name: str, *, user_agent: str = BROWSER, assets: bool = False, pages: int = 150) -> None:
    for n in range(pages):
        peaks.add(visit(1000 + n * 0.01, name, user_agent=user_agent))
    if assets:
        peaks.add(visit(1000, name, kind="asset"))


def limits(peaks: Peaks) -> list[int]:
    return [proposal.window.count for proposal in peaks.propose()]


def test_limits_are_above_what_ordinary_visitors_reach():
    peaks = Peaks()
    crowd(peaks, 300, burst=20)
    proposals = peaks.propose()
    assert [p.window.seconds for p in proposals] == [1.2, 3.0, 60.0, 600.0]
    assert all(p.window == RateLimit(p.window.count, p.window.seconds) for p in proposals)
    # Up to 20 pages in 2.5 seconds, 10 of them within 1.2 seconds.
    assert [p.reached for p in proposals][:3] == [10, 20, 20]
    assert [p.window.count for p in proposals][:3] == [15, 30, 30]
    assert all(p.touched == p.touched_ordinary == 0 for p in proposals)
    assert {p.ordinary for p in proposals} == {300}


def test_crawlers_of_every_sort_do_not_move_the_limits():
    alone = Peaks()
    crowd(alone, 300, burst=20)
    beset = Peaks()
    crowd(beset, 300, burst=20)
    for n in range(150):
        crawler(beset, f"203.0.113.{n}", user_agent="Examplebot/1.0")
    for n in range(100):
        crawler(beset, f"192.0.2.{n}")
    crawler(beset, "dressed-1", assets=True)
    crawler(beset, "dressed-2", assets=True)
    assert limits(beset)[:3] == limits(alone)[:3]
    for proposal in beset.propose()[:3]:
        assert proposal.touched == 252
        assert proposal.touched_ordinary == 2


def test_where_nobody_brings_assets_they_are_not_asked_for():
    peaks = Peaks()
    for person in range(100):
        for n in range(20):
            peaks.add(visit(n * 0.1, f"198.51.100.{person}"))
    assert peaks.propose()[0].ordinary == 100


def test_no_limit_is_ever_below_ten():
    peaks = Peaks()
    crowd(peaks, 100, burst=1)
    assert limits(peaks)[:2] == [10, 10]


def test_nothing_is_proposed_from_a_handful_of_visitors():
    peaks = Peaks()
    assert peaks.propose() == []
    crowd(peaks, 19)
    assert peaks.propose() == []
    crawler(peaks, "bot", user_agent="Examplebot/1.0")
    assert peaks.propose() == []


def test_only_pages_are_counted_and_verified_bots_are_left_alone():
    peaks = Peaks()
    peaks.add(visit(1, "a"))
    for kind in ("asset", "call"):
        peaks.add(visit(1, "a", kind=kind))
    peaks.add(Visit(1.0, "b", "b", "b", "GET", "/", bot="example"))
    assert peaks_of(peaks, "a") == [1, 1, 1, 1]
    assert list(peaks._traces) == ["a"]


def test_memory_is_bounded_in_every_direction():
    peaks = Peaks(most_visitors=100, most_hits=50, most_times=500)
    chance = random.Random(2)
    for n in range(20_000):
        peaks.add(visit(n * 0.01, str(chance.randrange(300))))
        assert peaks._times <= 500
    assert len(peaks._traces) == 100
    assert peaks.left_out > 0
    assert peaks._times == sum(map(len, peaks._hits.values()))
    assert max(max(peaks_of(peaks, name)) for name in peaks._traces) <= 50


def test_times_of_silent_visitors_are_dropped_and_their_peaks_stay():
    peaks = Peaks((1.0, 10.0))
    for n in range(100):
        for _ in range(3):
            peaks.add(visit(n * 20.0, str(n)))
    assert len(peaks._hits) <= 3
    assert all(peaks_of(peaks, str(n)) == [3, 3] for n in range(100))


@pytest.mark.parametrize(
    "user_agent",
    ["", "Examplebot/2.1", "curl/8.5.0", "Wget/1.21", "python-requests/2.32", "Some Spider", "Java/17.0.2",
     "Mozilla/5.0 (compatible; Thing/1.0; +https://example.org/thing)", "Go-http-client/2.0"],
)  # fmt: skip
def test_programs_that_say_so(user_agent):
    assert declares_itself(user_agent)


@pytest.mark.parametrize(
    "user_agent",
    [
        BROWSER,
        "Mozilla/5.0 (Linux; Android 13; CUBOT P80) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36",
    ],
)
def test_browsers_are_none(user_agent):
    assert not declares_itself(user_agent)

"""Density: what the counts say."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.rate_limit import RateLimitDetector

VISIT = Visit(1.0, "192.0.2.1", "account:ann", "192.0.2.1", "GET", "/", account="ann")


def evidence(windows, counts):
    return RateLimitDetector(windows)(VISIT, StateReply(None, counts))


def test_the_count_itself_is_allowed():
    window = RateLimit(count=5, seconds=3.0)
    assert evidence([window], (5,)) == ()
    (found,) = evidence([window], (6,))
    assert (found.detector, found.code, found.weight, found.key) == ("density", "density-visitor", 1.0, "")
    assert found.text == "More than 5 pages in 3 seconds."


def test_a_visit_that_was_not_counted_is_no_evidence():
    assert evidence([RateLimit(count=5, seconds=3.0)], ()) == ()
    assert evidence([], ()) == ()


@pytest.mark.parametrize(
    ("window", "code", "key", "text"),
    [
        (RateLimit(1, 0.5, "visitor", "requests"), "density-visitor", "", "More than 1 requests in 0.5 seconds."),
        (
            RateLimit(1, 600.0, "prefix", "everything"),
            "density-prefix",
            "192.0.2.1/*",
            "More than 1 requests in 600 seconds from this address.",
        ),
        (
            RateLimit(1, 2, "network"),
            "density-network",
            "192.0.2.0/24",
            "More than 1 pages in 2 seconds from this network.",
        ),
    ],
)
def test_whom_it_speaks_about(window, code, key, text):
    (found,) = evidence([window], (2,))
    assert (found.code, found.key, found.text) == (code, key, text)


def test_prefetches_are_declined_by_windows_of_their_own_and_by_no_other():
    windows = [RateLimit(count=1, seconds=1.0), RateLimit(count=1, seconds=60.0, of="prefetches")]
    prefetch = msgspec.structs.replace(VISIT, kind="prefetch")
    (found,) = RateLimitDetector(windows)(prefetch, StateReply(None, (9, 2)))
    assert (found.detector, found.code, found.weight) == ("prefetch", "prefetch", 1.0)
    assert RateLimitDetector(windows)(prefetch, StateReply(None, (9, 1))) == ()
    assert [e.code for e in evidence(windows, (2, 9))] == ["density-visitor"]
    assert evidence(windows, (1, 9)) == ()


def test_one_piece_of_evidence_for_the_first_window_that_is_over():
    windows = [
        RateLimit(count=5, seconds=3.0),
        RateLimit(count=9, seconds=60.0, by="prefix"),
        RateLimit(count=2, seconds=1.0),
    ]
    assert [e.code for e in evidence(windows, (5, 10, 3))] == ["density-prefix"]
    assert [e.code for e in evidence(windows, (6, 10, 3))] == ["density-visitor"]

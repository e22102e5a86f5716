"""Density: what the counts say."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.rate_limit import Window
from hedgerow.core.state import Memory
from hedgerow.core.visit import Visit
from hedgerow.detectors.rate_limit import DensityDetector

VISIT = Visit(1.0, "192.0.2.1", "account:ann", "192.0.2.1", "GET", "/", account="ann")


def evidence(windows, counts):
    return DensityDetector(windows)(VISIT, Memory(None, counts))


def test_the_count_itself_is_allowed():
    window = Window(count=5, seconds=3.0)
    assert evidence([window], (5,)) == ()
    (found,) = evidence([window], (6,))
    assert (found.detector, found.code, found.weight, found.key) == ("density", "density-visitor", 1.0, "")
    assert found.text == "More than 5 pages in 3 seconds."


def test_a_visit_that_was_not_counted_is_no_evidence():
    assert evidence([Window(count=5, seconds=3.0)], ()) == ()
    assert evidence([], ()) == ()


@pytest.mark.parametrize(
    ("window", "code", "key", "text"),
    [
        (Window(1, 0.5, "visitor", "requests"), "density-visitor", "", "More than 1 requests in 0.5 seconds."),
        (
            Window(1, 600.0, "prefix", "everything"),
            "density-prefix",
            "192.0.2.1/*",
            "More than 1 requests in 600 seconds from this address.",
        ),
        (
            Window(1, 2, "network"),
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
    windows = [Window(count=1, seconds=1.0), Window(count=1, seconds=60.0, of="prefetches")]
    prefetch = msgspec.structs.replace(VISIT, kind="prefetch")
    (found,) = DensityDetector(windows)(prefetch, Memory(None, (9, 2)))
    assert (found.detector, found.code, found.weight) == ("prefetch", "prefetch", 1.0)
    assert DensityDetector(windows)(prefetch, Memory(None, (9, 1))) == ()
    assert [e.code for e in evidence(windows, (2, 9))] == ["density-visitor"]
    assert evidence(windows, (1, 9)) == ()


def test_one_piece_of_evidence_for_the_first_window_that_is_over():
    windows = [Window(count=5, seconds=3.0), Window(count=9, seconds=60.0, by="prefix"), Window(count=2, seconds=1.0)]
    assert [e.code for e in evidence(windows, (5, 10, 3))] == ["density-prefix"]
    assert [e.code for e in evidence(windows, (6, 10, 3))] == ["density-visitor"]

"""Density: what the counts say."""

from __future__ import annotations

import msgspec
import pytest

from driving import settings
from hedgerow.core.decision import PolicyRule
from hedgerow.core.rate_limit import RateLimit
from hedgerow.core.state import StateReply
from hedgerow.core.visit import ANSWERED, BY_PROGRAM, BY_SCRIPT, Visit
from hedgerow.detectors.rate_limit import DETECTOR, RateLimitDetector, report_rule

VISIT = Visit(1.0, "192.0.2.1", "account:ann", "192.0.2.1", "GET", "/", account="ann")


def evidence(windows, counts):
    return RateLimitDetector(windows)(VISIT, StateReply(None, counts))


def test_exactly_the_limit_is_allowed_and_one_more_is_not():
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
def test_evidence_names_the_visitor_the_address_or_the_network(window, code, key, text):
    (found,) = evidence([window], (2,))
    assert (found.code, found.key, found.text) == (code, key, text)


@pytest.mark.parametrize(
    ("fields", "detector"),
    [
        ({}, "density"),
        ({"anomalies": (BY_PROGRAM,)}, "rate"),
        ({"anomalies": (BY_SCRIPT,)}, "rate"),
        ({"anomalies": (BY_SCRIPT,), "method": "POST"}, "density"),
        ({"kind": "call"}, "rate"),
        ({"kind": "asset"}, "rate"),
        ({"kind": "call", "anomalies": (BY_PROGRAM, ANSWERED)}, "density"),
    ],
)
def test_only_a_browser_that_loads_pages_is_challenged_or_blocked(fields, detector):
    visit = msgspec.structs.replace(VISIT, **fields)
    (found,) = RateLimitDetector([RateLimit(count=5, seconds=3.0, of="everything")])(visit, StateReply(None, (6,)))
    assert (found.detector, found.code) == (detector, f"{detector}-visitor")


def test_a_declined_program_is_told_how_long_the_longest_window_is():
    (rule,) = [group.rule_for(settings()) for group in DETECTOR.groups if group.name == "rate"]
    assert rule == PolicyRule("refuse", 0.0, retry_after=3.0)


def test_prefetches_are_declined_by_windows_of_their_own_and_by_no_other():
    windows = [RateLimit(count=1, seconds=1.0), RateLimit(count=1, seconds=60.0, of="prefetches")]
    prefetch = msgspec.structs.replace(VISIT, kind="prefetch")
    (found,) = RateLimitDetector(windows)(prefetch, StateReply(None, (9, 2)))
    assert (found.detector, found.code, found.weight) == ("prefetch", "prefetch", 1.0)
    assert RateLimitDetector(windows)(prefetch, StateReply(None, (9, 1))) == ()
    assert [e.code for e in evidence(windows, (2, 9))] == ["density-visitor"]
    assert evidence(windows, (1, 9)) == ()


@pytest.mark.parametrize(
    ("of", "kinds"), [("pages", {"page"}), ("requests", {"page", "call"}), ("everything", {"page", "call", "asset"})]
)
def test_a_window_judges_only_what_it_counts(of, kinds):
    """Who has opened too many pages may load their images, and answer a challenge."""
    detect = RateLimitDetector([RateLimit(count=1, seconds=1.0, of=of)])
    every = ("page", "call", "asset", "prefetch")
    found = {kind for kind in every if detect(msgspec.structs.replace(VISIT, kind=kind), StateReply(None, (9,)))}
    assert found == kinds


def test_one_piece_of_evidence_for_the_first_window_that_is_over():
    windows = [
        RateLimit(count=5, seconds=3.0),
        RateLimit(count=9, seconds=60.0, by="prefix"),
        RateLimit(count=2, seconds=1.0),
    ]
    assert [e.code for e in evidence(windows, (5, 10, 3))] == ["density-prefix"]
    assert [e.code for e in evidence(windows, (6, 10, 3))] == ["density-visitor"]


def test_a_source_of_a_log_is_judged_by_its_busiest_seconds():
    own = settings(
        "[[density.windows]]\ncount = 9\nseconds = 60\n[[density.windows]]\ncount = 5\nseconds = 1.2\nof = 'requests'\n"
        "[[density.windows]]\ncount = 1\nseconds = 1.2\nby = 'prefix'\n[[density.windows]]\ncount = 1\nseconds = 7\n"
        "[[density.windows]]\ncount = 1\nseconds = 60\nof = 'prefetches'\n"
    )
    rule = report_rule(own)
    assert rule.columns == ("peak_2", "peak_0")
    assert [one.text for one in rule.judge(9, 5)] == []
    assert [one.text for one in rule.judge(10, 5)] == ["More than 9 pages in 60 seconds."]
    assert [(one.code, one.text) for one in rule.judge(9, 6)] == [
        ("density-visitor", "More than 5 pages in 1.2 seconds.")
    ]

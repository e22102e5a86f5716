"""Visits by minute, as the ledger counts them while it writes."""

from __future__ import annotations

from hedgerow.ledger.minutes import MinuteCount, count_minutes

COLUMNS = ("kind", "at", "code", "action", "observed")


def test_visits_are_counted_by_minute_decision_and_code():
    rows = [
        ("page", 59.9, "", "pass", ""),
        ("image", 0.0, "noted", "pass", ""),
        ("page", 60.0, "trap", "refuse", ""),
        ("page", 61.0, "trap", "refuse", "links"),
    ]
    assert count_minutes(rows, COLUMNS) == [
        MinuteCount(0, "pass", "", "", 2, 1),
        MinuteCount(60, "refuse", "trap", "", 1, 1),
        MinuteCount(60, "refuse", "trap", "links", 1, 1),
    ]


def test_without_rows_there_is_nothing():
    assert count_minutes([], COLUMNS) == []

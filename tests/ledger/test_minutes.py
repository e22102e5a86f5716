"""Visits by minute, as the ledger counts them while it writes."""

from __future__ import annotations

from hedgerow.ledger.minutes import MinuteCount, count_minutes
from hedgerow.ledger.reader import open_ledger_reader
from hedgerow.ledger.sqlite import SqliteLedger

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


def test_the_queries_of_the_dashboard_use_indexes(tmp_path):
    """With millions of rows they would take seconds without."""
    SqliteLedger(tmp_path / "ledger.sqlite").close()
    reader = open_ledger_reader(str(tmp_path / "ledger.sqlite"))
    queries: list[str] = []
    reader._connection.set_trace_callback(queries.append)
    reader.find("1A2B-3C4D", ("at",))
    reader.last_stopped(20, ("at",))
    reader.last_visits("192.0.2.7", 300, ("at",))
    reader.count_steps(0.0, 60.0, 60)
    reader.bot_claims(0.0)
    reader._connection.set_trace_callback(None)
    plans = [str(reader._all(f"EXPLAIN QUERY PLAN {query}")) for query in queries]
    reader.close()
    assert len(plans) == 5
    for plan, index in zip(
        plans,
        ("visits_ref", "visits_stopped", "visits_visitor", "PRIMARY KEY", "COVERING INDEX visits_claims"),
        strict=True,
    ):
        assert index in plan

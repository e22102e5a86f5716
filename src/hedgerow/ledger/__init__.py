"""
Ledger: the extended access log, in SQLite or PostgreSQL: writing in batches, spooling, reading.

Never on the request path: entries are queued. Called by the gate, `logs` and `cli`.
Tests: `tests/ledger/`, `tests/real/`.
"""

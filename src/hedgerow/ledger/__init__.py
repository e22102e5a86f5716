"""
Ledger: the extended access log in SQLite or PostgreSQL.

Owns writing in batches, spooling to disk, reading, and labels of training crawls. Never blocks a request: entries are
queued. Called by the gate, `logs` and `cli`. Tests: `tests/ledger/`, `tests/real/test_postgresql.py`.
"""

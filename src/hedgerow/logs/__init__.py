"""
Logs: lines of access logs and rows of the ledger become visits.

Owns log formats (`formats`, `fields`, `patterns`), ledger rows (`ledger_rows`), detection (`dialect`) and reading in
the order of time (`reader`). Never decides. Never raises because of a line: a malformed line is counted as bad. Never
holds more than one second of a log in memory. Called by `report`, `lab` and `cli`. Tests: `tests/logs/`.
"""

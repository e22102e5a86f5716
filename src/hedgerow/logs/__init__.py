"""
Logs: lines of access logs, and rows of our own ledger, become visits.

Knows the formats (`formats`) and how files of any compression are read in the order of time (`reader`). Never
decides, never raises over a line, however odd (it is counted as bad), and never keeps more of a log than one
second of it. Called by `replay` and the command line. Tests: `tests/logs/`.
"""

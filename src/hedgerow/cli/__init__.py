"""
The command line: one file per command; `main` names them all. The work is elsewhere.

Knows how commands are typed and how results and faults are shown. Never judges or stores. Exit status: 0 well, 1
broken, 2 wrong use, 130 interrupted. Tests: `tests/cli/`.
"""

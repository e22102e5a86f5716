"""
Command line: one module per command or group of commands, and `main`, which lists them all.

Owns options, help texts, terminal output and exit statuses: 0 success, 1 failure, 2 wrong use, 130 interrupted. Never
decides or stores; other packages do the work. Called by `hedgerow` and `python -m hedgerow`. Tests: `tests/cli/`.
"""

"""State of one process, in dictionaries of a fixed total size. Tests: `tests/state/memory/`."""

"""State of one process, in dictionaries with a fixed budget. Tests: `tests/state/memory/`."""

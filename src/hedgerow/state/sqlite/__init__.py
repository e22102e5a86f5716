"""State that survives a restart, in SQLite. Tests: `tests/state/sqlite/`."""

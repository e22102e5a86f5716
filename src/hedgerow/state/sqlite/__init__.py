"""State that outlives a restart or is shared through a file, in SQLite. Tests: `tests/state/sqlite/`."""

"""State shared by the workers of one machine, in LMDB. Tests: `tests/state/lmdb/`."""

"""
Lists: the administrator's allow list (white) and block list (black).

Owns entries, fast lookup, SQL stores, import and export. Never holds blocks that detectors made: those are in `state`.
Called by the engine, `web`, `services.banlist` and `cli`. Tests: `tests/lists/`, `tests/real/test_postgresql.py`.
"""

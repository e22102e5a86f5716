"""
Lists: the operator's allow and block lists: entries, fast lookup, stores, import and export.

Never made by detectors: their blocks are in `state`. Called by the engine, `web.admin`, `services.banlist` and `cli`.
Tests: `tests/lists/`.
"""

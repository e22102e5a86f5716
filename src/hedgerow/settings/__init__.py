"""
Settings: every setting with its default and checks, and the reading of `hedgerow.toml` and the environment.

Owns `tables`, `operation_tables` and `store_tables` (every table with its checks) and `load` (all tables together, and
every fault with its line). Detectors declare their own tables. `docs/settings.md` explains every setting. Never opens a
store or a socket. Called by `cli`, `web` and `services`. Tests: `tests/settings/`, with sample files in
`good/` and `bad/` there.
"""

from hedgerow.settings.load import Settings, load_settings, read_settings

__all__ = ["Settings", "load_settings", "read_settings"]

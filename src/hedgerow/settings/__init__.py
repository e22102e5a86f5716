"""
Settings: every setting with its default and checks, and the reading of `hedgerow.toml` and the environment.

Owns one module per table, `schema` (all tables together) and `load` (all faults at once, each with its line). Detectors
declare their own tables. `docs/settings.md` explains every setting. Never opens a store or a socket. Called by `cli`,
`web` and `services`. Tests: `tests/settings/`, with sample files in `good/` and `bad/` there.
"""

from hedgerow.settings.load import load_settings, read_settings
from hedgerow.settings.schema import Settings

__all__ = ["Settings", "load_settings", "read_settings"]

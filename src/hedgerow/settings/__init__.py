"""
Settings: what can be set, and how a TOML file and the environment become checked settings.

Knows every setting with its default (`schema`) and how to read them (`read`): all faults at once, each with its line.
Never opens a store or a socket. Called by the command line and by the middleware. Tests: `tests/settings/`, with sample
files in `good/` and `bad/` there.
"""

from hedgerow.settings.load import load_settings, read_settings
from hedgerow.settings.schema import Settings

__all__ = ["Settings", "load_settings", "read_settings"]

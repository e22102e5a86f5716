"""How many examples property tests try: fewer in `make quick`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings as hypothesis_settings

QUICK_EXAMPLES = 10
"""Examples per test in `make quick`, for a test that does not ask for a number of its own."""


def examples(number: int, **options: Any) -> hypothesis_settings:
    """Return settings for *number* examples, or for a tenth of them (at least ten) in `make quick`."""
    if hypothesis_settings.default.max_examples == QUICK_EXAMPLES:
        number = min(number, max(number // 10, QUICK_EXAMPLES))
    return hypothesis_settings(max_examples=number, **options)

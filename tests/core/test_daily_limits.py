"""The shipped limits, which `docs/settings.md` names."""

from __future__ import annotations

from hedgerow.core.daily_limits import K1, K2, DailyLimits


def test_the_shipped_numbers_are_in_force_until_others_are_derived():
    limits = DailyLimits()
    assert (limits.k1, limits.k2) == (K1, K2) == (20, 300)

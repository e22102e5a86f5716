"""How many pages a day visitors may have: the shipped numbers, or what was derived from the days of people."""

from __future__ import annotations

K1, K2 = 20, 300
"""Pages per day and address without a clearance, and pages per day with one, as shipped. Derived ones are no lower."""


class DailyLimits:
    """The numbers in force where the settings say "auto". A background thread changes them."""

    __slots__ = ("k1", "k2")

    def __init__(self, k1: int = K1, k2: int = K2) -> None:
        self.k1 = k1
        self.k2 = k2

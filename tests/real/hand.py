"""A hand at the mouse of a browser."""

from __future__ import annotations

import random

from playwright.sync_api import Page


class Hand:
    """
    Moves the mouse along curves, at a speed that changes.

    The events are trusted: they come from the browser, as those of a mouse do. No live person takes part in the tests.
    """

    def __init__(self, page: Page, seed: int) -> None:
        self._page = page
        self._chance = random.Random(seed)
        self._at = (500.0, 400.0)

    def move(self, x: float, y: float) -> None:
        (x0, y0), chance = self._at, self._chance
        bend_x, bend_y = (x0 + x) / 2 + chance.gauss(0, 60), (y0 + y) / 2 + chance.gauss(0, 60)
        steps = 12 + int(((x - x0) ** 2 + (y - y0) ** 2) ** 0.5 / 25)
        for n in range(1, steps + 1):
            # Slow at both ends.
            t = (n / steps) ** 2 * (3 - 2 * n / steps)
            a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
            self._page.mouse.move(
                a * x0 + b * bend_x + c * x + chance.gauss(0, 0.8), a * y0 + b * bend_y + c * y + chance.gauss(0, 0.8)
            )
        self._at = (x, y)

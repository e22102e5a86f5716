"""How long a crawler waits before its next request."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable

_NORMAL = re.compile(r"normal\(\s*([0-9.]+)\s*,\s*([0-9.]+)\s*\)")


def parse_delay(text: str, seed: int | None = None) -> Callable[[], float]:
    """
    What gives the seconds before each request: the same each time, or drawn from a normal distribution, never below 0.

    ValueError with a sentence where *text* is neither.

    >>> parse_delay("0.5")()
    0.5
    >>> 3 < parse_delay("normal(8,1)", seed=1)() < 13
    True
    """
    chance = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
    found = _NORMAL.fullmatch(text.strip())
    try:
        if found is not None:
            mean, deviation = float(found[1]), float(found[2])
            return lambda: max(0.0, chance.gauss(mean, deviation))
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{text!r} is no delay; write seconds, such as 0.5, or normal(8,1)")
    return lambda: seconds

"""The delay of a crawler before each request."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable

_NORMAL = re.compile(r"normal\(\s*([0-9.]+)\s*,\s*([0-9.]+)\s*\)")


def parse_delay(text: str, seed: int | None = None) -> Callable[[], float]:
    """
    Return a function that gives the seconds before each request: constant, or drawn from a normal distribution.

    Raises ValueError with a sentence if *text* is neither.

    >>> parse_delay("0.5")()
    0.5
    >>> 3 < parse_delay("normal(8,1)", seed=1)() < 13
    True
    """
    rng = random.Random(seed)  # noqa: S311 - not secret
    normal = _NORMAL.fullmatch(text.strip())
    try:
        if normal is not None:
            mean, deviation = float(normal[1]), float(normal[2])
            return lambda: max(0.0, rng.gauss(mean, deviation))
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{text!r} is not a delay; write seconds, such as 0.5, or normal(8,1)")
    return lambda: seconds

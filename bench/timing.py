"""How long something takes, in CPU seconds: the median of several rounds, the rounds of all candidates in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 9


def measure(candidates: Mapping[str, Callable[[], object]], *, seconds: float = 0.05) -> dict[str, float]:
    """The median CPU seconds of one call of each candidate."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    calls = {name: _calls_in(call, seconds) for name, call in candidates.items()}
    for _ in range(ROUNDS):
        for name, call in candidates.items():
            start = time.process_time()
            for _ in range(calls[name]):
                call()
            times[name].append((time.process_time() - start) / calls[name])
    return {name: statistics.median(found) for name, found in times.items()}


def _calls_in(call: Callable[[], object], seconds: float) -> int:
    # The first call may make ready what the others find.
    call()
    start = time.process_time()
    call()
    once = max(time.process_time() - start, 1e-7)
    return max(1, int(seconds / once))

"""Bins: how each feature is spread among the people of a training, so that a drift away from it can be seen later."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from hedgerow.watch.models.bundle import Bins

_PARTS = 10
_DIGITS = 6
_ABOVE = 1.00001


def bins_of(rows: Sequence[Sequence[float]], width: int) -> tuple[Bins, ...]:
    """
    The deciles of the first *width* features of *rows*, each once, and the share of rows between them.

    >>> bins_of([(float(n),) for n in range(20)], 1)[0].edges
    (1.00001, 3.00003, 5.00005, 7.00007, 9.00009, 11.0001, 13.0001, 15.0002, 17.0002)
    >>> bins_of([(0.0,), (0.0,), (0.0,), (1.0,)], 1)
    (Bins(edges=(0.0, 1.00001), shares=(0.75, 0.25, 0.0)),)
    """
    if not rows:
        return ()
    found = []
    for feature in range(width):
        # A little above: with less digits the edge itself would be on the other side of it.
        ordered = sorted(float(f"{row[feature] * _ABOVE:.{_DIGITS}g}") for row in rows)
        edges = sorted({ordered[max(len(ordered) * part // _PARTS - 1, 0)] for part in range(1, _PARTS)})
        if edges[-1] < ordered[-1] and len(edges) < _PARTS - 1:
            # Most are the same, as they often are: what is beyond them counts, too.
            edges = sorted({*edges, ordered[-1]})
        counts = [0] * (len(edges) + 1)
        for row in rows:
            counts[bisect_left(edges, row[feature])] += 1
        found.append(Bins(tuple(edges), tuple(round(count / len(rows), 5) for count in counts)))
    return tuple(found)

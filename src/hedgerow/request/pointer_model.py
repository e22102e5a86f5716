"""
Whether the movements of a mouse look like those of a program: sums over movements, features of these, and a forest.

Programs move the pointer in equal steps along straight lines. The hands of people speed up, slow down and tremble. The
forest was trained on published recordings: docs/evaluation/pointer.md says which, how good it is, and where it fails.

The script of the page computes the same sums as `movement_sums`, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from math import atan2, hypot

import msgspec

from hedgerow.request.browser_report import BrowserReport

SUMS = ("moves", "strokes", "same", "turn", "turns", "speed", "change")
FEATURES = ("same", "turn", "change")
LEAST_MOVES = 300
"""Movements of a visitor below which nothing is said about them."""
LOOKS_DRIVEN = 0.8
"""The score from which on movements count as those of a program."""
_PAUSE = 500.0
_SHORT = 2.0


def movement_sums(moves: Iterable[tuple[float, float, float]]) -> tuple[int, ...]:
    """
    Return the sums over movements (milliseconds, x, y), in the order of `SUMS`.

    A stroke ends when the pointer rests for half a second. Of two steps in a row, *same* counts those that differ by at
    most one pixel in both directions, *turn* adds up the angles between steps of two pixels or more, in hundredths,
    *speed* the pixels per millisecond, and *change* by how much that changes, both in hundredths.
    """
    counts = dict.fromkeys(SUMS, 0.0)
    last: tuple[float, float, float] | None = None
    step: tuple[float, float, float, float] | None = None
    for at, x, y in moves:
        counts["moves"] += 1
        elapsed = max(1.0, at - last[0]) if last is not None else _PAUSE + 1
        if last is None or elapsed > _PAUSE:
            counts["strokes"] += 1
            step = None
        else:
            dx, dy = x - last[1], y - last[2]
            length = hypot(dx, dy)
            speed = length / elapsed
            counts["speed"] += speed * 100
            if step is not None:
                dx0, dy0, length0, speed0 = step
                counts["same"] += abs(dx - dx0) <= 1 and abs(dy - dy0) <= 1
                counts["change"] += abs(speed - speed0) * 100
                if length >= _SHORT and length0 >= _SHORT:
                    counts["turns"] += 1
                    counts["turn"] += abs(atan2(dx * dy0 - dy * dx0, dx * dx0 + dy * dy0)) * 100
            step = dx, dy, length, speed
        last = at, x, y
    return tuple(round(counts[name]) for name in SUMS)


def report_sums(report: BrowserReport) -> tuple[int, ...]:
    """Return the sums of a report, in the order of `SUMS`."""
    return (report.moves, report.strokes, report.same, report.turn, report.turns, report.speed, report.change)


def features(sums: Sequence[int]) -> tuple[float, ...]:
    """Return the features of movements: equal steps, the mean turn, and how much the speed changes."""
    moves, strokes, same, turn, turns, speed, change = sums
    return same / max(1, moves - 2 * strokes), turn / 100 / max(1, turns), change / max(1, speed)


class PointerModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A forest as flat arrays, with the nodes of all trees in one.

    At node n a row goes to *left*[n] if its feature *feature*[n] is at most *threshold*[n], otherwise to *right*[n]. At
    a leaf, feature -1, *value*[n] is the share of programs. The score is the mean over the trees.
    """

    features: tuple[str, ...]
    roots: tuple[int, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]

    def score(self, row: Sequence[float]) -> float:
        """Return how much a row of features looks like a program's, from 0 to 1."""
        total = 0.0
        for root in self.roots:
            node = root
            while (split := self.feature[node]) >= 0:
                node = self.left[node] if row[split] <= self.threshold[node] else self.right[node]
            total += self.value[node]
        return total / len(self.roots)

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with the arrays."""
        count = len(self.feature)
        if self.features != FEATURES or not self.roots:
            yield "the features are not those of this version"
        if not all(len(one) == count for one in (self.threshold, self.left, self.right, self.value)):
            yield "the arrays are not of one length"
            return
        inner = [node for node in range(count) if self.feature[node] >= 0]
        # A child comes after its parent, so no row can go round in circles.
        if not all(node < min(self.left[node], self.right[node]) for node in inner):
            yield "a branch leads back"
        if not all(max(self.left[node], self.right[node]) < count for node in inner) or max(self.roots) >= count:
            yield "a branch leads nowhere"
        if max(self.feature, default=-1) >= len(self.features):
            yield "a feature does not exist"


def read_model(text: bytes) -> PointerModel:
    """Return the model in *text*; raises ValueError where it makes no sense."""
    model = msgspec.json.decode(text, type=PointerModel)
    if faults := list(model.faults()):
        raise ValueError("; ".join(faults))
    return model


@lru_cache(maxsize=1)
def shipped_model() -> PointerModel:
    """Return the model that ships with the program."""
    return read_model(files("hedgerow.data.models").joinpath("pointer.json").read_bytes())

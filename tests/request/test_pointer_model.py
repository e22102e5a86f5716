"""The pointer model: its sums, and that a damaged one is refused. tests/test_evaluate.py has its figures."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.pointer_model import (
    LOOKS_DRIVEN,
    SUMS,
    features,
    movement_sums,
    read_model,
    report_sums,
    shipped_model,
)


def test_sums_of_movements():
    """Two strokes: five equal steps to the right, and after a pause a turn by a right angle."""
    line = [(n * 10.0, n * 5.0, 0.0) for n in range(6)]
    corner = [(2000.0, 0.0, 0.0), (2010.0, 10.0, 0.0), (2020.0, 10.0, 10.0)]
    named = dict(zip(SUMS, movement_sums([*line, *corner]), strict=True))
    assert named == {"moves": 9, "strokes": 2, "same": 4, "turn": 157, "turns": 5, "speed": 450, "change": 0}


def test_a_pointer_that_was_never_moved_has_features():
    assert features(movement_sums([])) == (0.0, 0.0, 0.0)
    assert report_sums(BrowserReport(moves=3, strokes=1, change=7)) == (3, 1, 0, 0, 0, 0, 7)


def test_equal_steps_look_like_a_program():
    moves = [(n * 16.0, 8.0 * n, 5.0 * n) for n in range(400)]
    assert shipped_model().score(features(movement_sums(moves))) > LOOKS_DRIVEN


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"features": ("speed",)}, "not those of this version"),
        ({"value": (0.5,)}, "not of one length"),
        ({"left": 0}, "leads back"),
        ({"right": 10**6}, "leads nowhere"),
        ({"feature": 9}, "does not exist"),
    ],
)
def test_a_damaged_model_is_refused(change, fault):
    model = msgspec.to_builtins(shipped_model())
    for name, value in change.items():
        model[name] = [value, *model[name][1:]] if isinstance(value, int) else value
    with pytest.raises(ValueError, match=fault):
        read_model(msgspec.json.encode(model))

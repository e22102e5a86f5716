"""Movements of the mouse: judged when there are enough of them, and only as a whole."""

from __future__ import annotations

import random

from hedgerow.detectors.pointer import PointerDetector
from hedgerow.request.pointer_model import SUMS, movement_sums, shipped_model

from .browser_reports import Reporting


def detector(signs):
    return PointerDetector(signs, shipped_model())


def in_equal_steps(count: int) -> dict[str, int]:
    moves = [(n * 16.0 + n // 60 * 1000, 8.0 * (n % 60), 5.0 * (n % 60)) for n in range(count)]
    return dict(zip(SUMS, movement_sums(moves), strict=True))


def by_hand(count: int) -> dict[str, int]:
    chance, x, y, moves = random.Random(2), 0.0, 0.0, []
    for n in range(count):
        pace = chance.lognormvariate(0, 1) * 4
        x, y = x + pace, y + pace * chance.gauss(0.3, 0.4)
        moves.append((n * 16.0, round(x), round(y)))
    return dict(zip(SUMS, movement_sums(moves), strict=True))


def test_equal_steps_are_a_sign_from_300_movements_on():
    assert Reporting(detector).read(2, **in_equal_steps(120)) == []
    assert Reporting(detector).read(3, **in_equal_steps(120)) == ["pointer"]


def test_a_hand_gives_no_sign():
    assert Reporting(detector).read(8, **by_hand(200)) == []


def test_a_mouse_that_jumps_from_click_to_click_is_a_sign():
    assert Reporting(detector).read(9, presses=1, moves=1, strokes=1) == []
    assert Reporting(detector).read(10, presses=1, moves=1, strokes=1) == ["pointer-jumps"]
    assert Reporting(detector).read(30, presses=1, moves=12, strokes=1, same=2, speed=900, change=400) == []


def test_touch_and_keys_say_nothing():
    assert Reporting(detector).read(30, touches=9, keys=20, clicks=3) == []

"""
Picking: what some questions want of rows (`arranging`), in one pass over them. Compiled by numba.

A row that says the same as the one before it is passed over: who asks wants to know what different things there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.tables.jit import lean
from hedgerow.report.tables.row_order import Matrix
from hedgerow.report.tables.url_features import ASSET, PAGE

_ERRORS_FROM = 400
_PAGE, _PARENT, _SHAPES, _PLACE, _SMALL = 2, 3, 5, 6, 7
"""The words of a row: its page and parent, shape and lead, place and user agent, and status, kind and flags."""

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)

Numbers = NDArray[np.uint64]


@lean
def _kind(small: Any) -> Any:
    return np.int64(small >> np.uint64(16) & np.uint64(255))


@lean
def _visited(rows: Any, pages: Any, shapes: Any) -> int:
    found = 0
    for i in range(len(rows)):
        small = rows[i, _SMALL]
        if _kind(small) != PAGE or np.int64(small & np.uint64(0xFFFF)) >= _ERRORS_FROM:
            continue
        page, shape = rows[i, _PAGE], rows[i, _SHAPES] & _LOW
        if not found or pages[found - 1] != page or shapes[found - 1] != shape:
            pages[found], shapes[found] = page, shape
            found += 1
    return found


def visited(rows: Matrix) -> tuple[Numbers, Numbers]:
    """The pages that were there, and their shapes."""
    pages, shapes = np.empty((2, len(rows)), np.uint64)
    found = _visited(rows, pages, shapes)
    return pages[:found], shapes[:found]


@lean
def _referred(rows: Any, parents: Any, places: Any, assets: Any) -> Any:
    found = brought = 0
    for i in range(len(rows)):
        parent, place = rows[i, _PARENT], rows[i, _PLACE] & _LOW
        if _kind(rows[i, _SMALL]) == ASSET:
            assets[brought] = np.int64(place)
            brought += 1
        if place > np.uint64(1) and (not found or parents[found - 1] != parent or places[found - 1] != place):
            parents[found], places[found] = parent, place
            found += 1
    return found, brought


def referred(rows: Matrix) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
    """The parents that a place is known of, and these places; and the place of each asset."""
    parents, places = np.empty((2, len(rows)), np.uint64)
    assets = np.empty(len(rows), np.int64)
    found, brought = _referred(rows, parents, places, assets)
    return parents[:found], places[:found], assets[:brought]


@lean
def _led(rows: Any, own: Any, pages: Any, parents: Any, leads: Any) -> int:
    found = 0
    for i in range(len(rows)):
        place = np.int64(rows[i, _PLACE] & _LOW)
        if _kind(rows[i, _SMALL]) != PAGE or place >= len(own) or not own[place]:
            continue
        page, parent, lead = rows[i, _PAGE], rows[i, _PARENT], rows[i, _SHAPES] >> _HIGH
        if not found or pages[found - 1] != page or parents[found - 1] != parent or leads[found - 1] != lead:
            pages[found], parents[found], leads[found] = page, parent, lead
            found += 1
    return found


def led(rows: Matrix, own: NDArray[np.bool_]) -> tuple[Numbers, Numbers, Numbers]:
    """The pages to which one at an *own* place led, that one, and its shape."""
    pages, parents, leads = np.empty((3, len(rows)), np.uint64)
    found = _led(rows, own, pages, parents, leads)
    return pages[:found], parents[:found], leads[:found]

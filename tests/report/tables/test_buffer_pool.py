"""What lies on a shelf is used again, and never while somebody has it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.logs.formats import LineParser, detect_plain_format
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.tables.buffer_pool import BufferPool
from hedgerow.report.tables.ingest import rows_of_piece
from hedgerow.report.tables.line_scanner import scan
from hedgerow.report.tables.row_builder import RowBuilder

from .test_ingest import GOOD, lines

MEGABYTE = 1 << 20


def test_what_nobody_has_is_used_again():
    shelf = BufferPool()
    first = shelf.take(5 * MEGABYTE)
    place = first.ctypes.data
    part = first[8:16].view(np.uint64)
    del first
    # A part of it is enough to keep it.
    assert shelf.take(MEGABYTE).ctypes.data != place
    del part
    again = shelf.take(4 * MEGABYTE)
    assert again.ctypes.data == place
    assert len(again) == 4 * MEGABYTE


@given(st.lists(st.tuples(st.integers(0, 3 * MEGABYTE), st.integers(0, 4)), max_size=30))
@settings(deadline=None)
def test_no_two_have_the_same(wanted):
    """Each is marked when it is taken, and still has its mark when it is given back."""
    shelf, held = BufferPool(), []
    for number, (size, place) in enumerate(wanted):
        array = shelf.take(size)
        array[:] = number
        held.append((number, array))
        if place < len(held):
            mark, given_back = held.pop(place)
            assert (given_back == mark).all()
            del given_back
    assert all((array == mark).all() for mark, array in held)


@given(st.lists(lines, max_size=8), st.lists(lines, max_size=8))
@settings(max_examples=50, deadline=None)
def test_what_was_scanned_before_leaves_no_trace(some, before):
    """Room that was used for other lines, or has anything at all in it."""
    shelf = BufferPool()
    shelf.take(3 * MEGABYTE)[:] = 255
    for first in (before, []):
        scan(np.frombuffer(b"\n".join([GOOD, *first]), np.uint8), vhost=False, shelf=shelf)
    data = np.frombuffer(b"\n".join([GOOD, *some]), np.uint8)
    found = []
    for room in (shelf, BufferPool()):
        tally = ReadCounts()
        scanned = scan(data, vhost=False, shelf=room)
        rows = rows_of_piece(data, scanned, LineParser(detect_plain_format([GOOD])), RowBuilder(), tally)
        found.append(({name: column.tolist() for name, column in rows.items()}, tally.parsed, tally.bad))
    assert found[0] == found[1]

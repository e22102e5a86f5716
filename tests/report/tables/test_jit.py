"""What is found many bytes at a time is what is found one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.report.tables.jit import behind_digits, find, find_all, find_low

texts = st.lists(st.sampled_from(b'0123456789 \n"\\/:az\xff'), min_size=1, max_size=150).map(bytes)


def first(data: bytes, start: int, end: int, wanted: bytes) -> int:
    return next((i for i in range(start, end) if data[i] in wanted), end)


@given(texts, st.integers(0, 150), st.integers(0, 150))
def test_the_first_place_is_found(text, start, end):
    start, end = sorted((min(start, len(text)), min(end, len(text))))
    data = np.frombuffer(text, np.uint8)
    assert find(data, start, end, 34, 92) == first(text, start, end, b'"\\')
    assert find_low(data, start, end) == first(text, start, end, bytes(range(33)))
    assert behind_digits(data, start, end) == first(text, start, end, bytes(set(range(256)) - set(b"0123456789")))


@given(texts, st.integers(0, 40))
def test_all_places_are_found_as_far_as_there_is_room(text, room):
    data, places = np.frombuffer(text, np.uint8), np.full(room, -1, np.int64)
    there = [i for i, byte in enumerate(text) if byte == 10]
    assert find_all(data, 10, places) == min(len(there), room)
    assert places[: len(there)].tolist() == there[:room]

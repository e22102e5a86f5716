"""Digests: of a text's bytes alone, the same in plain Python and compiled, and different with every key."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.logs.reader import MAX_LINE_BYTES
from hedgerow.report.tables.digests import DigestKey, digest

KEY = DigestKey()


def compiled(text: bytes, before: bytes = b"", behind: bytes = b"") -> int:
    data = np.frombuffer(before + text + behind + bytes(8), np.uint8)
    return int(digest.compiled(data, len(before), len(before) + len(text), KEY.numbers))


@given(st.binary(max_size=80), st.binary(max_size=20), st.binary(max_size=20))
def test_a_digest_is_of_its_bytes_alone(text, before, behind):
    assert compiled(text, before, behind) == compiled(text) == KEY.digest(text) != 0


def test_texts_that_differ_in_one_byte_or_in_length_have_different_digests():
    chance = np.random.default_rng(5)
    texts = {bytes(size) for size in range(60)}
    for size in range(1, 60):
        text = chance.integers(0, 256, size).astype(np.uint8)
        for place in range(size):
            for bit in range(8):
                other = text.copy()
                other[place] ^= 1 << bit
                texts.add(other.tobytes())
    found = {KEY.digest(text) for text in texts}
    assert len(found) == len(texts)
    # Every bit is as often set as not: places in tables are taken from them.
    bits = np.array(sorted(found), np.uint64)[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    assert np.abs(bits.mean(0) - 0.5).max() < 0.03


def test_texts_with_the_same_digest_under_one_key_differ_under_another():
    """Digests of 16 bits are easy to make equal; under another key they are not, so nobody can prepare such texts."""
    by_end: dict[int, list[bytes]] = {}
    for number in range(60_000):
        text = b"/page?%d" % number
        by_end.setdefault(KEY.digest(text) & 0xFFFF, []).append(text)
    equal = max(by_end.values(), key=len)
    assert len(equal) >= 4
    other = DigestKey()
    assert len({other.digest(text) & 0xFFFF for text in equal}) > 1


def test_a_key_can_be_sent():
    assert DigestKey(KEY.secret).digest(b"/") == KEY.digest(b"/")


def test_of_a_very_long_text_the_beginning_and_the_length_count():
    text = b"a" * MAX_LINE_BYTES
    assert compiled(text + b"b") == compiled(text + b"c") == KEY.digest(text + b"b")
    assert len({KEY.digest(text), KEY.digest(text + b"b"), KEY.digest(text + b"bb")}) == 3

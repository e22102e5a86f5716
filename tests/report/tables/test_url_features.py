"""What a target is, told from its bytes, is what the live engine says of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.request_kind import ASSETS, CALL_NAMES, CALL_SUFFIXES, kind_of
from hedgerow.report.tables.url_features import ASSET, CALL, PAGE, describe, digest

KINDS = {"page": PAGE, "call": CALL, "asset": ASSET}
names = st.sampled_from([*sorted(CALL_NAMES), "Feed", "feeds", "eed", "a", "", "."])
suffixes = st.sampled_from(["", *(f".{suffix}" for suffix in sorted(ASSETS | CALL_SUFFIXES)), ".html", ".PNG", ".fe"])
parts = st.tuples(names, suffixes).map("".join)


@given(st.lists(parts, max_size=4), st.sampled_from(["", "/", "?", "?a=feed", "?/feed/"]))
def test_the_kind_is_the_live_engine_s(path, rest):
    target = "/" + "/".join(path) + rest
    data = np.frombuffer(target.encode(), np.uint8)
    assert describe(data, 0, len(data))[3] == KINDS[kind_of("GET", target)]


@given(st.binary(max_size=80), st.binary(max_size=20), st.binary(max_size=20))
def test_a_digest_is_of_its_bytes_alone(text, before, behind):
    data = np.frombuffer(before + text + behind + b"\0", np.uint8)
    found = digest(data, len(before), len(before) + len(text))
    assert found == digest(np.frombuffer(text or b"\0", np.uint8), 0, len(text)) != 0


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
    found = {int(digest(np.frombuffer(text or b"\0", np.uint8), 0, len(text))) for text in texts}
    assert len(found) == len(texts)
    # Every bit is as often set as not: places in tables are taken from them.
    bits = np.array(sorted(found), np.uint64)[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    assert np.abs(bits.mean(0) - 0.5).max() < 0.03

"""What a target is, told from its bytes, is what the live engine says of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.analyse.describing import ASSET, CALL, PAGE, describe
from hedgerow.identity.kind import ASSETS, CALL_NAMES, CALL_SUFFIXES, kind_of

KINDS = {"page": PAGE, "call": CALL, "asset": ASSET}
names = st.sampled_from([*sorted(CALL_NAMES), "Feed", "feeds", "eed", "a", "", "."])
suffixes = st.sampled_from(["", *(f".{suffix}" for suffix in sorted(ASSETS | CALL_SUFFIXES)), ".html", ".PNG", ".fe"])
parts = st.tuples(names, suffixes).map("".join)


@given(st.lists(parts, max_size=4), st.sampled_from(["", "/", "?", "?a=feed", "?/feed/"]))
def test_the_kind_is_the_live_engine_s(path, rest):
    target = "/" + "/".join(path) + rest
    data = np.frombuffer(target.encode(), np.uint8)
    assert describe(data, 0, len(data))[3] == KINDS[kind_of("GET", target)]

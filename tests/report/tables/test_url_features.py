"""What a target is, found from its bytes, is what the live engine says of it; plain and compiled functions agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.request_kind import ASSETS, CALL_NAMES, CALL_SUFFIXES, kind_of
from hedgerow.logs.reader import MAX_LINE_BYTES
from hedgerow.report.tables.url_features import (
    ASSET,
    CALL,
    OUTLINE_SIZE,
    PAGE,
    PARAMETERS,
    ROBOTS,
    DigestKey,
    digest,
    kind_of_target,
    outline,
    split_referrer,
)  # fmt: skip

KINDS = {"page": PAGE, "call": CALL, "asset": ASSET}
names = st.sampled_from([*sorted(CALL_NAMES), "Feed", "feeds", "eed", "a", "", "."])
suffixes = st.sampled_from(["", *(f".{suffix}" for suffix in sorted(ASSETS | CALL_SUFFIXES)), ".html", ".PNG", ".fe"])
parts = st.tuples(names, suffixes).map("".join)


@given(st.lists(parts, max_size=4), st.sampled_from(["", "/", "?", "?a=feed", "?/feed/"]))
def test_the_kind_is_the_live_engine_s(path, rest):
    target = "/" + "/".join(path) + rest
    data = np.frombuffer(target.encode(), np.uint8)
    assert kind_of_target.compiled(data, 0, len(data)) == KINDS[kind_of("GET", target)]


def outlined(target: bytes) -> tuple[int, bytes, int]:
    out = bytearray(OUTLINE_SIZE)
    order, size, flags = outline(target, 0, len(target), out)
    return int(order), bytes(out[:size]), flags


@given(st.lists(st.sampled_from(list(b"/a0Z9.?&=#%\xff")), max_size=40).map(bytes))
def test_outlines_are_the_same_when_compiled(text):
    out = np.zeros(OUTLINE_SIZE, np.uint8)
    order, size, flags = outline.compiled(np.frombuffer(text + b"?", np.uint8), 0, len(text), out)
    assert (int(order), out[:size].tobytes(), flags) == outlined(text)


@given(st.lists(st.sampled_from(list(b":/a#.?")), max_size=20).map(bytes))
def test_referrers_are_the_same_when_compiled(text):
    data = np.frombuffer(text + b"?", np.uint8)
    assert split_referrer.compiled(data, 0, len(text)) == split_referrer(text, 0, len(text))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (b"/topic/1.html", b"/topic/22.html", True),
        (b"/user12/a.html", b"/user3/b.html", True),
        (b"/topic/1.html", b"/topic/1.php", False),
        (b"/topic/1", b"/topic/1/2", False),
        (b"/topic/a/", b"/topic/b/", True),
        (b"/topic/a/", b"/topic/a/b", False),
        (b"/view?id=1&page=2", b"/view?id=7&page=9", True),
        (b"/view?id=1", b"/view?id=1&page=2", False),
        (b"/one/a", b"/two/a", False),
    ],
)
def test_pages_that_are_built_alike_have_one_outline(one, other, alike):
    assert (outlined(one)[1] == outlined(other)[1]) == alike


def test_targets_sort_as_a_person_sorts():
    texts = [b"/t/2", b"/t/10", b"/t/0011", b"/t/a", b"/t/B", b"/t?x=9&q=c"]
    keys = [outlined(text)[0] for text in texts]
    assert sorted(keys) == keys


@pytest.mark.parametrize(
    ("target", "flags"), [(b"/robots.txt", ROBOTS), (b"/robots.txt?a", ROBOTS | PARAMETERS), (b"/robots,txt", 0)]
)
def test_flags(target, flags):
    assert outlined(target)[2] == flags


def test_a_referrer_has_a_host_and_a_page():
    assert split_referrer(b"http://e.org/a?b#c", 0, 18) == (7, 12, 16)
    assert split_referrer(b"http://e.org", 0, 12) == (7, 12, 12)
    assert split_referrer(b"android-app", 0, 11) == (0, 0, 0)


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

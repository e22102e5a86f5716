"""Many texts at once are sealed to the bit as one by one."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.siv_batch import Blocks, SivPlan

KEY = bytes(range(64))


def encoded(sealed):
    return urlsafe_b64encode(sealed).rstrip(b"=")


@given(
    st.lists(st.binary(max_size=70), min_size=1, max_size=20),
    st.integers(0, 16).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    st.binary(min_size=64, max_size=64),
    st.binary(max_size=4),
)
def test_a_plan_seals_as_the_library_does(texts, start, key, head):
    texts = [text or b"x" for text in texts]
    plan = SivPlan(Blocks(key), texts, range(len(texts)), len(start), head)
    one_by_one = AESSIV(key)
    for sealed, place in zip(plan.seal(start), plan.places, strict=True):
        assert sealed == encoded(head + one_by_one.encrypt(start + texts[place], None))


def test_every_length_up_to_some_blocks():
    """The last block whole, cut, and the text shorter than a block; counters that run over a byte among them."""
    texts = [bytes(range(length)) for length in range(1, 100)]
    plan = SivPlan(Blocks(KEY), texts, range(len(texts)), 0)
    one_by_one = AESSIV(KEY)
    expected = [encoded(one_by_one.encrypt(texts[place], None)) for place in plan.places]
    assert list(plan.seal(b"")) == expected


def test_a_counter_that_runs_over_a_byte():
    """Of 3,000 tags some end in 0xff: the counter behind it must carry into the byte before, not into a neighbour."""
    texts = [number.to_bytes(40, "big") for number in range(3000)]
    plan = SivPlan(Blocks(KEY), texts, range(len(texts)), 0)
    sealed = list(plan.seal(b""))
    assert any(urlsafe_b64decode(one + b"==")[15] >= 0xFE for one in sealed)
    one_by_one = AESSIV(KEY)
    assert sealed == [encoded(one_by_one.encrypt(texts[place], None)) for place in plan.places]


@given(st.binary(min_size=12, max_size=12), st.binary(min_size=12, max_size=12))
def test_a_plan_is_used_again_and_again(one, other):
    texts = [b"/a", b"/a/long/address/of/some/page.html", b"/b"]
    plan = SivPlan(Blocks(KEY), texts, [5, 6, 7], 12)
    assert plan.places == [6, 5, 7]
    before = list(plan.seal(one))
    plan.seal(other)
    assert list(plan.seal(one)) == before

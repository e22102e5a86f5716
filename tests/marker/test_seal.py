"""Tokens: sealed to the bit, equally long, telling nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.marker.seal import TOKEN_LENGTH, Seal, page_digest, visitor_digest
from hedgerow.visit import Marker

SEAL = Seal(bytes(range(64)))
KINDS = st.sampled_from(["trap", "maze"])
VISITORS = st.binary(min_size=8, max_size=8)
PAGES = st.binary(min_size=6, max_size=6)
INDICES = st.integers(0, 65535)
MARKERS = st.builds(Marker, kind=KINDS, minted_for=VISITORS, page=PAGES, index=INDICES)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def token_of(marker: Marker, seal: Seal = SEAL) -> str:
    return seal.seal(marker.kind, marker.minted_for, marker.page, marker.index).decode()


@given(MARKERS)
def test_a_marker_comes_back(marker):
    assert SEAL.unseal(token_of(marker)) == marker
    assert token_of(marker) == token_of(marker)


@given(MARKERS)
def test_all_tokens_are_equally_long_and_need_no_escape(marker):
    token = token_of(marker)
    assert len(token) == TOKEN_LENGTH == 44
    assert set(token) <= set(ALPHABET)


@given(MARKERS, MARKERS)
def test_different_markers_have_different_tokens(one, other):
    assert (token_of(one) == token_of(other)) == (one == other)


@given(MARKERS, st.integers(0, 43), st.sampled_from(ALPHABET))
def test_a_changed_character_is_refused(marker, position, character):
    token = token_of(marker)
    changed = token[:position] + character + token[position + 1 :]
    assert (SEAL.unseal(changed) is None) == (changed != token)


@given(MARKERS, st.integers(0, 63), st.integers(0, 7))
def test_a_token_of_another_key_is_refused(marker, byte, bit):
    key = bytearray(range(64))
    key[byte] ^= 1 << bit
    assert Seal(bytes(key)).unseal(token_of(marker)) is None


@given(MARKERS)
def test_there_is_one_way_to_write_a_token(marker):
    token = token_of(marker)
    for other in (token + "=", token + "A", token[:-1], " " + token, token.replace("-", "+").replace("_", "/")):
        if other != token:
            assert SEAL.unseal(other) is None


@given(st.one_of(st.text(), st.text(ALPHABET, min_size=44, max_size=44), st.text(min_size=44, max_size=44)))
def test_no_text_is_a_token(text):
    assert SEAL.unseal(text) is None


def test_one_bit_changes_the_whole_token():
    """Nobody can tell from two tokens that they stand on the same page or were given to the same visitor."""
    tokens = [token_of(Marker("trap", bytes(8), bytes(6), index)) for index in range(200)]
    for position in range(TOKEN_LENGTH):
        assert len({token[position] for token in tokens}) > 30


def test_a_sealer_gives_the_same_tokens():
    seal = SEAL.sealer("trap", bytes(8), bytes(6))
    assert [seal(n) for n in (0, 1, 65535, 65536)] == [
        SEAL.seal("trap", bytes(8), bytes(6), n) for n in (0, 1, 65535, 0)
    ]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_digests(one, other):
    assert (visitor_digest(one) == visitor_digest(other)) == (one == other)
    assert (page_digest(one) == page_digest(other)) == (one == other)
    assert (len(visitor_digest(one)), len(page_digest(one))) == (8, 6)


@pytest.mark.parametrize("length", [0, 32, 63, 65])
def test_a_key_has_64_bytes(length):
    with pytest.raises(ValueError, match="64 bytes"):
        Seal(bytes(length))

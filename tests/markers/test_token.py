"""Tokens: sealed to the bit, each for one site under one ring of keys, telling nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.core.visit import Marker
from hedgerow.markers.token import (
    SHORTEST,
    Key,
    PageDigests,
    TokenCodec,
    TokenCodecs,
    content,
    may_be_token,
    page_digest,
    visitor_digest,
)

SECRET = bytes(range(64))
SEAL = TokenCodec([Key(1, SECRET, 0.0)], "example.org")
ALL_KINDS = ["page", "form", "frame", "trap", "maze", "visitor"]
KINDS = st.sampled_from(ALL_KINDS)
DIGESTS = st.binary(min_size=6, max_size=6)
TARGETS = st.one_of(st.binary(max_size=80), st.text(max_size=40).map(lambda text: b"/" + text.encode("utf-8")))
MARKERS = st.builds(
    Marker, kind=KINDS, issued_to=DIGESTS, parent=DIGESTS, target=TARGETS.map(lambda target: target.decode("latin-1"))
)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SECRETS = st.binary(min_size=64, max_size=64)


def token_of(marker: Marker, seal: TokenCodec = SEAL) -> str:
    return seal.seal(marker.kind, marker.issued_to, marker.parent, marker.target.encode("latin-1")).decode()


def bits_of(token: str) -> list[int]:
    """The six bits of each character."""
    return [ALPHABET.index(character) >> bit & 1 for character in token for bit in range(5, -1, -1)]


def text_of(bits: list[int]) -> str:
    groups = (bits[at : at + 6] for at in range(0, len(bits), 6))
    return "".join(ALPHABET[int("".join(map(str, group)), 2)] for group in groups)


# ---- There and back


@given(MARKERS)
def test_a_marker_comes_back_and_its_token_is_the_same_each_time(marker):
    assert SEAL.unseal(token_of(marker)) == marker
    assert token_of(marker) == token_of(marker, TokenCodec([Key(1, SECRET, 0.0)], "example.org"))


@given(MARKERS)
def test_a_token_is_as_long_as_its_target_says_and_needs_no_escape(marker):
    token = token_of(marker)
    assert len(token) == -(-(30 + len(marker.target)) * 4 // 3) >= SHORTEST == 40
    assert set(token) <= set(ALPHABET)
    assert may_be_token(token)


@given(MARKERS)
def test_a_token_of_a_later_generation_is_told_from_the_first_and_opens_nowhere_else(marker):
    first, later = token_of(marker), token_of(marker, SEAL.handed_on)
    assert first != later
    assert SEAL.unseal(later) == msgspec.structs.replace(marker, generation=1)
    assert SEAL.handed_on.clean is SEAL.clean
    assert TokenCodec([Key(1, SECRET, 0.0)], "example.com").unseal(later) is None


@given(MARKERS, MARKERS)
def test_different_markers_have_different_tokens(one, other):
    assert (token_of(one) == token_of(other)) == (one == other)


@given(KINDS, DIGESTS, DIGESTS, st.lists(TARGETS, max_size=8))
def test_a_sealer_gives_the_same_tokens(kind, issued_to, parent, targets):
    tokens = SEAL.sealer(issued_to, parent)([content(kind, target) for target in targets])
    assert tokens[: len(targets)] == [SEAL.seal(kind, issued_to, parent, target) for target in targets]


# ---- Every change is refused


@given(MARKERS, st.data())
def test_any_change_of_any_bit_is_refused(marker, data):
    bits = bits_of(token_of(marker))
    for at in data.draw(st.sets(st.integers(0, len(bits) - 1), min_size=1, max_size=4)):
        bits[at] ^= 1
    assert SEAL.unseal(text_of(bits)) is None


def test_each_single_bit_of_a_token():
    """All of them, the number of the key and the spare bits at the end among them."""
    for target in (b"", b"/", b"/a", b"/ab"):
        bits = bits_of(SEAL.seal("page", b"visitr", b"parent", target).decode())
        for at in range(len(bits)):
            changed = [*bits]
            changed[at] ^= 1
            assert SEAL.unseal(text_of(changed)) is None


@given(MARKERS, st.integers(0, 200), st.sampled_from(ALPHABET))
def test_a_changed_character_is_refused(marker, position, character):
    token = token_of(marker)
    position %= len(token)
    changed = token[:position] + character + token[position + 1 :]
    assert (SEAL.unseal(changed) is None) == (changed != token)


# The last byte of this one is 0.
@example(Marker("form", b"\xcb&\x91I\\(", b"\xcd\xe3'XZ/", ""), 39)
@given(MARKERS, st.integers(0, 200))
def test_a_token_cut_short_or_grown_is_refused(marker, length):
    token = token_of(marker)
    assert SEAL.unseal(token[: length % len(token)]) is None
    assert SEAL.unseal(token + token[:length]) == (marker if not length else None)


@given(MARKERS, MARKERS)
def test_halves_of_two_tokens_make_none(one, other):
    first, second = token_of(one), token_of(other)
    for at in (2, 24, 40):
        mixed = first[:at] + second[at:]
        if mixed not in {first, second}:
            assert SEAL.unseal(mixed) is None


@given(MARKERS)
def test_there_is_one_way_to_write_a_token(marker):
    token = token_of(marker)
    ways = [token + end for end in ("=", "==", "A", "\n", " ", "\0", "é", "%3D")] + [" " + token, "=" + token]
    ways += [token.replace("-", "+").replace("_", "/"), token[:8] + "\n" + token[8:], token.swapcase()]
    for other in ways:
        if other != token:
            assert SEAL.unseal(other) is None


@given(
    st.one_of(st.text(), st.text(ALPHABET, min_size=38, max_size=100), st.binary().map(lambda b: b.decode("latin-1")))
)
def test_no_text_is_a_token(text):
    assert SEAL.unseal(text) is None


@pytest.mark.parametrize(
    "token", ["", "A", "AAAA", "\ud800", "é" * 44, "=" * 44, "AQ", "A" * 40, "_" * 41, "A" * 100_000, "\0" * 44, "AR=="]
)
def test_every_kind_of_bad_token_is_none(token):
    assert SEAL.unseal(token) is None


# ---- For one site, one kind, one key


@given(MARKERS, st.integers(0, 63), st.integers(0, 7))
def test_a_token_of_another_key_is_refused(marker, byte, bit):
    key = bytearray(SECRET)
    key[byte] ^= 1 << bit
    assert TokenCodec([Key(1, bytes(key), 0.0)], "example.org").unseal(token_of(marker)) is None


@given(MARKERS, st.integers(0, 255), st.integers(0, 255))
def test_the_number_of_the_key_belongs_to_the_token(marker, number, other):
    """The same secret under another number, even: a token says which key it wants."""
    token = token_of(marker, TokenCodec([Key(number, SECRET, 0.0)]))
    assert TokenCodec([Key(other, SECRET, 0.0)]).unseal(token) == (marker if number == other else None)


HOSTS = st.one_of(st.sampled_from(["", "a.example", "b.example", "a.example.", "xn--a"]), st.text("ab.-1", max_size=12))


@given(MARKERS, HOSTS, HOSTS)
def test_a_token_of_one_host_never_opens_at_another(marker, one, other):
    seals = TokenCodecs([Key(1, SECRET, 0.0)])
    token = token_of(marker, seals.of(one))
    assert seals.of(other).unseal(token) == (marker if one == other else None)


@given(DIGESTS, DIGESTS, TARGETS)
def test_a_token_of_one_kind_is_never_one_of_another(issued_to, parent, target):
    tokens = [SEAL.seal(kind, issued_to, parent, target).decode() for kind in ALL_KINDS]
    assert len(set(tokens)) == len(ALL_KINDS)
    assert [SEAL.unseal(token).kind for token in tokens] == ALL_KINDS


def test_the_case_and_the_port_of_a_host_do_not_matter():
    seals = TokenCodecs([Key(1, SECRET, 0.0)])
    for hosts in (["example.org", "Example.ORG", "example.org:8080"], ["[::1]", "[::1]:80"]):
        tokens = {seals.of(host).seal("page", b"visitr", b"parent", b"/") for host in hosts}
        assert len(tokens) == 1


def test_a_client_that_sends_any_name_fills_no_memory():
    seals = TokenCodecs([Key(1, SECRET, 0.0)])
    for number in range(1_000):
        host = f"{number}.example"
        token = seals.of(host).seal("page", b"visitr", b"parent", b"/").decode()
        assert seals.of(host).unseal(token) is not None
    assert len(seals._by_site) <= 64


# ---- A ring of keys


@given(st.lists(st.tuples(SECRETS, st.floats(0, 4e9)), min_size=1, max_size=5, unique_by=(lambda k: k[1])), MARKERS)
def test_the_newest_seals_and_the_old_ones_open(made, marker):
    keys = [Key(number, secret, at) for number, (secret, at) in enumerate(made)]
    ring = TokenCodec(keys, "example.org")
    newest = max(keys, key=lambda key: key.made_at)
    assert token_of(marker, ring) == token_of(marker, TokenCodec([newest], "example.org"))
    for key in keys:
        old = token_of(marker, TokenCodec([key], "example.org"))
        assert ring.unseal(old) == marker
        without = [other for other in keys if other != key]
        if without:
            assert TokenCodec(without, "example.org").unseal(old) is None


def test_a_seed_is_another_for_each_ring_and_outlives_a_new_key():
    one, two = Key(1, SECRET, 0.0), Key(2, bytes(64), 9.0)
    assert (
        TokenCodecs([one]).seed
        == TokenCodecs([one, two]).seed
        == TokenCodecs([two, one]).seed
        != TokenCodecs([two]).seed
    )
    assert SECRET not in TokenCodecs([one]).seed


def test_a_seal_needs_a_key():
    with pytest.raises(ValueError, match="needs a key"):
        TokenCodec([])


@pytest.mark.parametrize("length", [0, 32, 63, 65])
def test_a_key_has_64_bytes(length):
    with pytest.raises(ValueError, match="64 bytes"):
        TokenCodec([Key(1, bytes(length), 0.0)])


# ---- Telling nothing


def test_one_bit_changes_the_whole_token():
    """Nobody can tell from two tokens that they stand on the same page or were given to the same visitor."""
    tokens = [token_of(Marker("trap", bytes(6), bytes(6), f"/{index:04}")) for index in range(200)]
    for position in range(2, len(tokens[0]) - 1):
        assert len({token[position] for token in tokens}) > 30


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_digests(one, other):
    assert (visitor_digest(one) == visitor_digest(other)) == (one == other)
    assert (page_digest(one) == page_digest(other)) == (one == other)
    assert (len(visitor_digest(one)), len(page_digest(one))) == (6, 6)


@pytest.mark.parametrize(
    "text", ["", "ann", "ann/", "A" * 39, "A" * 60 + ".", "é" * 60, "A" * 50 + "%2D", "A" * 50 + "="]
)
def test_what_has_not_the_form_of_a_token(text):
    assert not may_be_token(text)


def test_a_token_tells_whether_its_key_is_gone():
    old, new = Key(1, bytes(range(64)), 0.0), Key(2, bytes(64), 1.0)
    token = TokenCodec([old], "a").seal("page", b"visitr", b"parent", b"/x").decode()
    assert not TokenCodec([old, new], "a").is_outdated(token)
    assert TokenCodec([new], "a").is_outdated(token)
    assert [TokenCodec([new], "a").is_outdated(text) for text in ("", "A", "A=A=", "\xe9\xe9\xe9\xe9")] == [False] * 4


def test_pages_are_remembered_by_their_digest_the_newest_of_them():
    names = PageDigests(most=3)
    digests = [names.remember(f"/{n}") for n in range(5)]
    assert [names.name(digest) for digest in digests] == ["", "", "/2", "/3", "/4"]
    assert names.name(names.remember("/" + "x" * 1000)) == "/" + "x" * 199
    assert digests[0] == page_digest("/0")

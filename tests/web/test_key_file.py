"""The keys: made once, for their owner alone, the same for all who start at once; rotated, and the old ones dropped."""

from __future__ import annotations

import contextlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import StoreError
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.web.key_file import load_keys, new_key, read_keys, rotate, write_keys

NOW = 1_800_000_000.0
DAY = 86_400.0
KEYS = st.lists(
    st.builds(Key, st.integers(0, 255), st.binary(min_size=64, max_size=64), st.integers(0, 4_000_000_000).map(float)),
    min_size=1,
    max_size=6,
    unique_by=lambda key: key.number,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "hedgerow.key"


def put(path: Path, text: str, mode: int = 0o600) -> None:
    path.touch(mode=mode)
    path.write_text(text, encoding="latin-1")
    path.chmod(mode)


# ---- The first key


def test_a_key_is_made_once_and_for_its_owner_alone(path):
    (key,) = load_keys(path, NOW)
    assert (0 <= key.number < 256, len(key.secret), key.made_at) == (True, 64, NOW)
    assert load_keys(path, NOW + 9) == [key]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert load_keys(path.with_name("other.key"), NOW) != [key]


def test_a_key_in_place_of_a_lost_one_has_another_number():
    """Links under the lost key name a key that is not there: they are not taken for changed ones."""
    assert len({new_key(NOW).number for _ in range(100)}) > 50


def test_whatever_the_umask(path):
    before = os.umask(0)
    try:
        load_keys(path, NOW)
        rotate(path, NOW, DAY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_all_who_start_at_once_get_the_same_key(path):
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda n: load_keys(path, NOW + n), range(64)))
    assert all(one == keys[0] for one in keys)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o601, 0o777])
def test_keys_that_others_may_read_are_refused(path, mode):
    load_keys(path, NOW)
    path.chmod(mode)
    with pytest.raises(StoreError, match=f"chmod 600 {path}"):
        load_keys(path, NOW)
    with pytest.raises(StoreError, match=f"chmod 600 {path}"):
        rotate(path, NOW, DAY)


def test_a_folder_that_is_none_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "hedgerow.key", tmp_path / "missing" / "hedgerow.key"):
        with pytest.raises(StoreError, match="cannot make the key file"):
            load_keys(path, NOW)
    with pytest.raises(StoreError, match="cannot read the key file"):
        load_keys(tmp_path, NOW)


# ---- What is written in it


@given(KEYS)
def test_what_is_written_is_read(keys):
    assert read_keys(write_keys(keys), "here") == keys


def test_a_bare_secret_is_key_number_one(path):
    """As the first Hedgerow wrote it, with white space around it or without."""
    for text in ("ab" * 64, "\n " + "ab" * 64 + "\r\n", "ab" * 64 + "\n"):
        put(path, text)
        assert load_keys(path, NOW) == [Key(1, b"\xab" * 64, 0.0)]
    old, new = rotate(path, NOW, DAY)
    assert (old, new.number, new.made_at) == (Key(1, b"\xab" * 64, 0.0), 2, NOW)


def test_comments_and_empty_lines_are_passed_over():
    text = "# mine\n\n7 100 " + "cd" * 64 + "\n  # 8 100 x\n"
    assert read_keys(text, "here") == [Key(7, b"\xcd" * 64, 100.0)]


GOOD = "1 100 " + "00" * 64 + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "", "\n\n", "# nothing\n", "abc", "00" * 63, "zz" * 64, "00" * 65, "\xff" * 128, "1 " + "00" * 64,
        "1 100 " + "00" * 63, "256 100 " + "00" * 64, "-1 100 " + "00" * 64, "x 100 " + "00" * 64, "1 x " + "00" * 64,
        "1 100 " + "00" * 64 + " more", GOOD + GOOD, GOOD + "2 100 abc", GOOD + "00" * 64, GOOD[:-20],
        GOOD + "2 nan " + "00" * 64, GOOD + "2 inf " + "00" * 64,
    ],
)  # fmt: skip
def test_what_holds_no_keys_is_refused_and_stays_as_it_is(path, text):
    """Half a file, too: links under the missing key would be refused as if somebody had changed them."""
    put(path, text)
    for use in (lambda: load_keys(path, NOW), lambda: rotate(path, NOW, DAY)):
        with pytest.raises(StoreError, match="does not hold keys") as error:
            use()
        assert str(path) in str(error.value)
        assert "00000" not in str(error.value)
    assert path.read_text(encoding="latin-1") == text


@given(st.text(max_size=200))
def test_any_text_gives_keys_or_an_error_of_ours(text):
    with contextlib.suppress(StoreError):
        assert read_keys(text, "here")


# ---- Rotation


def numbers(keys: list[Key], first: int) -> list[int]:
    """The numbers of keys, counted from that of the first key."""
    return [(key.number - first) % 256 + 1 for key in keys]


def test_a_new_key_seals_and_the_old_one_opens(path):
    first = load_keys(path, NOW)
    before = TokenCodecs(first).of("example.org")
    token = before.seal("page", b"visitr", b"parent", b"/").decode()
    keys = rotate(path, NOW + DAY, 400 * DAY)
    assert numbers(keys, first[0].number) == [1, 2]
    assert load_keys(path, NOW) == keys
    after = TokenCodecs(keys).of("example.org")
    assert after.unseal(token) is not None
    fresh = after.seal("page", b"visitr", b"parent", b"/").decode()
    assert fresh != token
    assert before.unseal(fresh) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_key_is_dropped_when_it_was_replaced_longer_ago_than_the_overlap(path):
    """It counts when it was replaced and not when it was made: its last links are as old as that."""
    first = load_keys(path, NOW)[0].number
    assert numbers(rotate(path, NOW + 100 * DAY, 10 * DAY), first) == [1, 2]
    assert numbers(rotate(path, NOW + 110 * DAY, 10 * DAY), first) == [1, 2, 3]
    assert numbers(rotate(path, NOW + 110.5 * DAY, 10 * DAY), first) == [2, 3, 4]
    assert numbers(rotate(path, NOW + 200 * DAY, 10 * DAY), first) == [4, 5]


def test_the_one_that_sealed_until_now_is_kept_whatever_the_overlap(path):
    first = load_keys(path, NOW)[0].number
    assert numbers(rotate(path, NOW + 1000 * DAY, 0.0), first) == [1, 2]


def test_a_clock_that_went_back_does_not_make_an_old_key_seal(path):
    first = load_keys(path, NOW)[0].number
    keys = rotate(path, NOW - 500 * DAY, DAY)
    assert max(keys, key=lambda key: key.made_at) == keys[-1]
    assert numbers(keys, first)[-1] == 2


def test_hundreds_of_rotations_keep_within_a_byte(path):
    load_keys(path, NOW)
    for number in range(300):
        keys = rotate(path, NOW + number, 400 * DAY)
        assert len({key.number for key in keys}) == len(keys) <= 251
        assert max(keys, key=lambda key: key.made_at) == keys[-1]
    assert load_keys(path, NOW) == keys


@given(KEYS)
def test_a_new_key_has_a_number_of_its_own_and_is_the_newest(keys):
    key = new_key(NOW, keys)
    assert key.number not in {other.number for other in keys}
    assert all(key.made_at > other.made_at for other in keys if other.made_at >= NOW)
    assert key.made_at >= max(other.made_at for other in keys)
    assert len(key.secret) == 64


def test_a_rotation_that_cannot_be_written_leaves_the_file(path, monkeypatch):
    keys = load_keys(path, NOW)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hedgerow.web.key_file.os.open", full)
    with pytest.raises(StoreError, match=r"cannot write the key file .*: No space left"):
        rotate(path, NOW, DAY)
    monkeypatch.undo()
    assert load_keys(path, NOW) == keys

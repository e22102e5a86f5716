"""The key: made once, for its owner alone, the same for all who start at once."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from hedgerow.errors import StoreError
from hedgerow.stores.keyfile import load_key, read_key


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "hedgerow.key"
    key = load_key(path)
    assert len(key) == 64
    assert load_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["hedgerow.key"]
    assert load_key(tmp_path / "other.key") != key


def test_all_who_start_at_once_get_the_same_key(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda _: load_key(tmp_path / "hedgerow.key"), range(64)))
    assert len(set(keys)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["hedgerow.key"]


def test_a_key_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "hedgerow.key"
    load_key(path)
    path.chmod(0o640)
    with pytest.raises(StoreError, match=f"chmod 600 {path}"):
        load_key(path)


@pytest.mark.parametrize("text", ["", "abc", "00" * 63, "zz" * 64, "00" * 65, "\xff" * 128])
def test_what_is_no_key_is_refused(tmp_path, text):
    path = tmp_path / "hedgerow.key"
    path.touch(mode=0o600)
    path.write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match="does not hold a key") as error:
        load_key(path)
    assert str(path) in str(error.value)


def test_read_key_takes_white_space_around_it():
    assert read_key("\n " + "ab" * 64 + "\r\n", "here") == b"\xab" * 64


def test_a_folder_that_is_none_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the key file"):
        load_key(tmp_path / "file" / "hedgerow.key")
    with pytest.raises(StoreError, match="cannot make the key file"):
        load_key(tmp_path / "missing" / "hedgerow.key")
    with pytest.raises(StoreError, match="cannot read the key file"):
        load_key(tmp_path)

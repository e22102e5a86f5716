"""Published ranges: the forms they come in, and the file that keeps them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import StoreError
from hedgerow.web.bots import PublishedRange, as_ranges, load_ranges, parse_ranges, save_ranges

GOOGLE = b"""{"creationTime": "2026-10-01T22:00:00.000000", "prefixes": [
  {"ipv6Prefix": "2001:4860:4801:10::/64"}, {"ipv4Prefix": "66.249.64.0/27"}, {"ipv4Prefix": "66.249.64.0/27"}]}"""


def test_the_form_of_google_bing_and_openai():
    assert parse_ranges(GOOGLE) == ("2001:4860:4801:10::/64", "66.249.64.0/27")


def test_other_json_and_plain_lists():
    assert parse_ranges(b'["192.0.2.1", {"x": ["198.51.100.0/24"], "n": 3, "s": "words"}]') == (
        "192.0.2.1/32",
        "198.51.100.0/24",
    )
    assert parse_ranges(b"\xef\xbb\xbf# a list\r\n192.0.2.1\r\n\r\n2001:db8::/48 # one\r\n") == (
        "192.0.2.1/32",
        "2001:db8::/48",
    )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "names no networks"),
        (b"{}", "names no networks"),
        (b"{", "is not JSON"),
        (b"<html><body>Not found", "is no network"),
        (b"\xff\xfe", "is not text"),
        (b"0.0.0.0/0", "too wide"),
        (b'{"prefixes": [{"ipv6Prefix": "::/0"}]}', "too wide"),
        (b"1.2.3", "is no network"),
    ],
)
def test_what_is_no_list(data, says):
    with pytest.raises(ValueError, match=says):
        parse_ranges(data)


@given(st.binary(max_size=200))
def test_anything_is_a_list_or_a_sentence(data):
    with contextlib.suppress(ValueError):
        assert parse_ranges(data)


def test_they_are_kept(tmp_path):
    path = tmp_path / "new" / "ranges.json"
    assert load_ranges(path) == {}
    lists = {"a.json": PublishedRange(("192.0.2.0/24",), "https://bot.example/a.json", 5.0)}
    save_ranges(path, lists)
    assert load_ranges(path) == lists
    assert [p.name for p in path.parent.iterdir()] == ["ranges.json"]
    assert path.stat().st_mode & 0o077 == 0
    assert "192.0.2.7" in as_ranges(lists)["a.json"].networks


def test_faults_are_one_line(tmp_path):
    path = tmp_path / "ranges.json"
    path.write_text("{")
    assert load_ranges(path) == {}
    path.touch()
    with pytest.raises(StoreError, match="cannot"):
        load_ranges(tmp_path)
    with pytest.raises(StoreError, match="cannot write"):
        save_ranges(path / "x", {})

"""Charsets: which pages can be read as bytes, and that the others come back to the byte."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.html.charset import carried_charset, from_utf8, tells_charset, to_utf8

HTML = b"text/html"


@pytest.mark.parametrize(
    ("content_type", "start", "charset"),
    [
        (b"text/html; charset=utf-8", b"<html>", None),
        (b"text/html; charset=windows-1251", b"<html>", None),
        (b"text/html; charset=shift_jis", b"<html>", None),
        (b"text/html; charset=nonsense", b"<html>", None),
        (b"text/html; charset=", b"<html>", None),
        (b"text/html; charset=zlib_codec", b"<html>", None),
        (b"text/html; charset=UTF-16", b"<\0", "utf-16-le"),
        (b'text/html; charset="utf-16be"', b"\0<", "utf-16-be"),
        (b"text/html; charset=ucs-2", b"<\0", "utf-16-le"),
        (b"text/html; charset=unicodeFFFE", b"\0<", "utf-16-be"),
        (b"text/html; charset=utf-32", b"<\0\0\0", "utf-32-le"),
        (b"text/html; charset=ISO-2022-JP", b"<html>", "iso2022_jp"),
        (HTML, codecs.BOM_UTF16_LE + b"<\0", "utf-16-le"),
        (HTML, codecs.BOM_UTF16_BE + b"\0<", "utf-16-be"),
        (HTML, codecs.BOM_UTF32_LE + b"<\0\0\0", "utf-32-le"),
        (HTML, codecs.BOM_UTF32_BE + b"\0\0\0<", "utf-32-be"),
        (b"text/html; charset=utf-8", codecs.BOM_UTF16_BE + b"\0<", "utf-16-be"),
        (b"text/html; charset=utf-16", codecs.BOM_UTF8 + b"<html>", None),
        (HTML, b"<html>", None),
        (HTML, b"<meta charset=iso-2022-jp>", "iso2022_jp"),
        (b"text/html; charset=nonsense", b"<meta charset='iso-2022-jp'>", "iso2022_jp"),
        (b"text/html; charset=utf-8", b"<meta charset=iso-2022-jp>", None),
        (HTML, b'<META http-equiv=content-type content="text/html; charset=iso-2022-kr">', "iso2022_kr"),
        # A meta that can be read is not in wide characters: browsers take it for UTF-8, and so do we.
        (HTML, b"<meta charset=utf-16>", None),
        (HTML, b"<meta charset=utf-32>", None),
        (HTML, b" " * 2000 + b"<meta charset=iso-2022-jp>", None),
    ],
)
def test_carried_charset(content_type, start, charset):
    assert carried_charset(content_type, start) == charset


@pytest.mark.parametrize(
    ("content_type", "start", "tells"),
    [
        (b"text/html; charset=utf-8", b"<ht", False),
        (b"text/html; charset=utf-8", b"<htm", True),
        (b"text/html; charset=nonsense", b"<html>", False),
        (HTML, b"<html><head><meta", False),
        (HTML, b"<html><head></HEAD>", True),
        (HTML, b"<p>" + b"x" * 1024, True),
        (HTML, codecs.BOM_UTF16_LE + b"<\0", True),
    ],
)
def test_tells_charset(content_type, start, tells):
    assert tells_charset(content_type, start) is tells


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]),
)
def test_wide_pages_come_back(text, charset):
    page = text.encode(charset)
    carried = to_utf8(page, charset)
    assert carried is not None
    assert carried.decode() == text
    assert from_utf8(carried, charset) == page


def test_a_page_that_switches_comes_back():
    page = "<p>垣根 and ASCII</p>".encode("iso2022_jp")
    assert from_utf8(to_utf8(page, "iso2022_jp"), "iso2022_jp") == page


@given(
    st.binary(max_size=60),
    st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-7", "hz", "iso2022_jp", "iso2022_jp_2", "iso2022_kr"]),
)
def test_what_would_not_come_back_to_the_byte_is_left_alone(page, charset):
    carried = to_utf8(page, charset)
    assert carried is None or from_utf8(carried, charset) == page

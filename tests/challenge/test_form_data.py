"""Form data that is carried across a challenge."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.challenge.form_data import Form, read_form

URLENCODED = "application/x-www-form-urlencoded"


def multipart(*parts: bytes, boundary: bytes = b"XyZ") -> bytes:
    return b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + boundary + b"--\r\n"


def field(name: bytes, value: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"\r\n\r\n' + value


def test_urlencoded_forms_are_parsed():
    assert read_form(URLENCODED, b"a=1&b=x+y&b=%C3%A4&empty=") == Form(
        "urlencoded", (("a", "1"), ("b", "x y"), ("b", "ä"), ("empty", ""))
    )
    assert read_form(URLENCODED + "; charset=UTF-8", b"a=1") == Form("urlencoded", (("a", "1"),))
    assert read_form(URLENCODED, b"") == read_form("", b"") == Form("urlencoded", ())


def test_multipart_forms_are_parsed():
    body = multipart(field(b"a", b"one\r\ntwo"), field(b"say %22hi%22", "ä".encode()))
    assert read_form("multipart/form-data; boundary=XyZ", body) == Form(
        "multipart", (("a", "one\r\ntwo"), ('say "hi"', "ä"))
    )


def test_an_empty_file_input_is_carried_and_a_file_is_not():
    nothing = b'Content-Disposition: form-data; name="f"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n'
    assert read_form("multipart/form-data; boundary=XyZ", multipart(nothing)) == Form("multipart", (("f", None),))
    file = b'Content-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\nhello'
    assert read_form("multipart/form-data; boundary=XyZ", multipart(field(b"a", b"1"), file)) is None


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (URLENCODED, b"a"),
        (URLENCODED, b"a=%FF"),
        (URLENCODED, b"a=%00"),
        (URLENCODED, "a=ä".encode()),
        (URLENCODED, b"&".join(b"a=1" for _ in range(1001))),
        (URLENCODED + "; charset=iso-8859-1", b"a=1"),
        ("application/json", b"{}"),
        ("text/plain", b"a=1"),
        ("", b"a=1"),
        ("multipart/form-data", multipart(field(b"a", b"1"))),
        ("multipart/form-data; boundary=other", multipart(field(b"a", b"1"))),
        ("multipart/form-data; boundary=XyZ", multipart(field(b"a", b"1"))[:-6]),
        ("multipart/form-data; boundary=XyZ", multipart(field(b"a", b"\xff"))),
        ("multipart/form-data; boundary=XyZ", multipart(b"no head")),
        ("multipart/form-data; boundary=XyZ", b"before" + multipart(field(b"a", b"1"))),
    ],
)
def test_a_form_that_a_browser_could_not_send_again_is_not_carried(media, body):
    assert read_form(media, body) is None


@given(st.lists(st.tuples(st.text(min_size=1), st.text())))
def test_urlencoded_fields_come_back(fields):
    whole = [(n, v) for n, v in fields if "\0" not in n + v and n.isprintable() and v.isprintable()]
    assert read_form(URLENCODED, urlencode(whole).encode()).fields == tuple(whole)


@given(st.sampled_from([URLENCODED, "multipart/form-data; boundary=b"]), st.binary())
def test_arbitrary_bodies_are_handled_without_an_error(media, body):
    read_form(media, body)
    read_form(media, b"--b\r\n" + body + b"\r\n--b--")

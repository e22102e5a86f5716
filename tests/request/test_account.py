"""Accounts from a cookie, a header of a trusted proxy, or a callable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.request.account import Accounts, cookie_value, visitor_of

COOKIE = [(b"cookie", b"theme=dark; sid=s3cret; x")]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"sid=1", b"1"),
        (b"a=1; sid=2", b"2"),
        (b'sid="quoted"', b"quoted"),
        (b"sid=x=y", b"x=y"),
        (b"sid=1; sid=2", b"1"),
        (b"  sid  =  1  ;", b"1"),
        (b"xsid=1; sidx=2", b""),
        (b"sid", b""),
        (b"sid=", b""),
        (b"", b""),
        (b"a=sid", b""),
        (b";;;=;sid;=sid=", b""),
    ],
)
def test_cookie_value(header, value):
    assert cookie_value(header, b"sid") == value


def test_an_account_name_does_not_reveal_the_session_cookie():
    accounts = Accounts(cookie="sid")
    name = accounts.account(COOKIE, trusted=False)
    assert name
    assert "s3cret" not in name
    assert accounts.account([(b"cookie", b"sid=s3cret")], trusted=True) == name
    assert accounts.account([(b"cookie", b"a=1"), (b"cookie", b"sid=s3cret")], trusted=True) == name
    assert accounts.account([(b"cookie", b"sid=other")], trusted=False) not in {name, ""}
    assert accounts.account([(b"cookie", b"theme=dark")], trusted=False) == ""
    assert accounts.account([], trusted=False) == ""


def test_an_account_header_counts_only_from_a_trusted_proxy():
    accounts = Accounts(header="X-User")
    assert accounts.account([(b"x-user", b" ann ")], trusted=True) == "ann"
    assert accounts.account([(b"x-user", b"ann")], trusted=False) == ""
    assert accounts.account([(b"x-user", b"  ")], trusted=True) == ""
    assert accounts.account([(b"x-user", "Zoë".encode())], trusted=True) == "Zoë"
    assert accounts.account([(b"x-user", b"\xff")], trusted=True) == "\ufffd"


def test_callable_then_header_then_cookie_names_the_account():
    accounts = Accounts(cookie="sid", header="x-user", callable_=lambda headers: headers.get("x-mine"))
    headers = [*COOKIE, (b"x-user", b"ann"), (b"X-Mine", b"bob")]
    assert accounts.account(headers, trusted=True) == "bob"
    assert accounts.account(headers[:-1], trusted=True) == "ann"
    assert accounts.account(headers[:-1], trusted=False) not in {"ann", "bob", ""}


@given(st.text(st.characters(), max_size=300))
def test_any_name_from_a_callable_can_be_stored(name):
    account = Accounts(callable_=lambda _: name).account([], trusted=False)
    assert bool(account) == bool(name)
    assert len(account.encode()) <= 100


def test_long_names_that_begin_alike_are_two_accounts():
    names = [Accounts(callable_=lambda _, n=n: "a" * 500 + n).account([], trusted=False) for n in "xy"]
    assert names[0] != names[1]


def test_a_callable_may_return_a_number():
    assert Accounts(callable_=lambda _: 42).account([], trusted=False) == "42"


def test_a_visitor_is_its_account_or_its_prefix():
    assert visitor_of("", "192.0.2.1") == "192.0.2.1"
    assert visitor_of("ann", "192.0.2.1") == "account:ann"
    assert not Accounts()
    assert Accounts(cookie="sid")


def test_a_flood_of_headers_does_not_hide_the_account():
    flood = [(b"x-%d" % n, b"y" * 100) for n in range(10_000)]
    accounts = Accounts(cookie="sid", header="x-user", callable_=lambda _: None)
    assert accounts.account([*flood, *COOKIE], trusted=True)
    assert accounts.account([(b"cookie", b"a=1;" * 20_000)], trusted=True) == ""

"""Redirect targets stay on this site."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.challenge.redirect_target import local_target

from .solver import challenges, visit

AWAY = [
    "", "host", "http://host/", "https:host", "HTTP://host", "javascript:alert(1)", "data:text/html,x", "//host",
    "//host/a", "///host", "////host", "/\\host", "\\host", "\\\\host", "/\\/host", "//\\host", "/..//host",
    "/../..//host", "/a/..//host", "/./\\host", "/.//host", "/a/../..//host", "/\thost", "/\t/host", "/\n/host",
    "/\r\n/host", "/\x00/host", "/ /host", "\t//host", " //host", "/%2F/host", "/%2f%2fhost", "/%5Chost",
    "/%5c%5chost", "/%2e%2e//host", "/%2E%2E%2F%2Fhost", "/%252Fhost/..%252F/x", "/..%2f/host", "/%09/host",
    "/%0d%0a/host", "/%0aSet-Cookie:x", "/\x7f/host", "/ä//host", "/\u2028/host", "/\uff0f/host", "?a=b", "#a",
    ".", "..", "/" + "a" * 20_000, "//.", "//..", "/..//.", "//%2e", "/a\\b",
]  # fmt: skip
HERE = [
    "/", "/a", "/a/b?c=d", "/a?next=//host", "/a?next=https://host/", "/a//b", "/a/../b", "/a%2Fb", "/~token",
    "/a?b=%0A", "/search?q=javascript:", "/@me", "/:x", "/a;b=c", "/a?", "/%E4%B8%AD",
]  # fmt: skip


@pytest.mark.parametrize("target", AWAY)
def test_a_target_that_leads_to_another_site_is_rejected(target):
    assert local_target(target) is None


@pytest.mark.parametrize("target", HERE)
def test_a_target_of_this_site_is_accepted(target):
    assert local_target(target) == target


def test_a_fragment_is_dropped_and_a_backslash_in_the_query_escaped():
    assert local_target("/a?b#//host") == "/a?b"
    assert local_target("/a?path=c:\\d") == "/a?path=c:%5Cd"


@given(st.text(alphabet="/\\.%25cfhost:?#@\t\n 0ad", max_size=20))
def test_an_accepted_target_stays_on_this_site(text):
    allowed = local_target("/" + text)
    if allowed is None:
        return
    # As browsers do it: back-slashes are slashes, tabs and line breaks are nothing.
    read = allowed.partition("?")[0].replace("\\", "/")
    assert urlsplit(urljoin("http://example.org/x/y", read)).netloc == "example.org"
    assert not read.startswith("//")
    assert not urlsplit(urljoin("http://example.org/x/y", read)).path.startswith("//")


@pytest.mark.parametrize("target", [*AWAY[1:], "//elsewhere.example/login"])
def test_a_ticket_never_names_another_site(target):
    asker = challenges()
    assert asker.ticket(visit(target), 0.0).target == "/"
    assert asker.ticket(visit("/good", raw_target=target), 0.0).target == "/"


def test_a_sealed_ticket_that_names_another_site_is_refused():
    """Were one ever made: it is looked at again when it comes back."""
    asker = challenges()
    ticket = msgspec.structs.replace(asker.ticket(visit(), 0.0), target="//host/")
    issued = asker.issue(visit(), ticket, "image")
    assert asker.read_ticket(issued.ticket, visit()) is None

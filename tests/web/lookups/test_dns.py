"""Forward-confirmed reverse DNS, against a name server on loopback."""

from __future__ import annotations

import asyncio

import pytest

from fakedns import FakeDns
from hedgerow.request.bots import in_domain
from hedgerow.web.lookups.dns import DnsResolver, DnsTimeoutError, is_in

DOMAINS = ("googlebot.com", "google.com")


def ask(server: FakeDns, address: str, *, seconds: float = 5.0) -> bool:
    return asyncio.run(is_in(address, DOMAINS, DnsResolver(("127.0.0.1", server.port), seconds=seconds)))


@pytest.fixture
def server():
    with FakeDns() as one:
        yield one


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_a_name_that_leads_back_is_true(server, address):
    server.is_true(address, "crawl-1.googlebot.com")
    assert ask(server, address)


@pytest.mark.parametrize(
    "name",
    [
        "googlebot.com.evil.example",
        "evilgooglebot.com",
        "crawl.googlebot.com.evil.example",
        "google-com.example",
        "googlebot.comx",
        "com",
    ],
)
def test_a_name_that_only_looks_alike_is_false(server, name):
    server.is_true("192.0.2.1", name)
    assert not ask(server, "192.0.2.1")


def test_a_name_that_does_not_lead_back_is_false(server):
    """Anybody may call his own address so."""
    server.names["192.0.2.66"] = "crawl-1.googlebot.com"
    assert not ask(server, "192.0.2.66")
    server.addresses["crawl-1.googlebot.com"] = ["192.0.2.1", "2001:db8::1"]
    assert not ask(server, "192.0.2.66")
    server.names["2001:db8::66"] = "crawl-1.googlebot.com"
    assert not ask(server, "2001:db8::66")


def test_one_good_name_of_several_is_enough(server):
    server.names["192.0.2.1"] = ["host.example", "crawl-1.googlebot.com"]
    server.addresses["crawl-1.googlebot.com"] = ["192.0.2.9", "192.0.2.1"]
    assert ask(server, "192.0.2.1")


def test_no_name_is_false(server):
    assert not ask(server, "192.0.2.1")
    assert not ask(server, "not an address")


@pytest.mark.parametrize("mood", ["failing", "silent"])
def test_an_outage_is_no_answer(server, mood):
    server.is_true("192.0.2.1", "crawl-1.googlebot.com")
    server.mood = mood
    with pytest.raises(DnsTimeoutError):
        ask(server, "192.0.2.1", seconds=0.3)


def test_an_outage_of_half_of_it_is_no_answer():
    class Half:
        async def names(self, _):
            return ["crawl-1.googlebot.com."]

        async def addresses(self, *_):
            raise DnsTimeoutError("nothing")

    with pytest.raises(DnsTimeoutError):
        asyncio.run(is_in("192.0.2.1", DOMAINS, Half()))


def test_a_name_is_in_its_domain_by_whole_labels():
    assert in_domain("GoogleBot.com.", ["googlebot.com"])
    assert not in_domain("", ["googlebot.com"])
    assert not in_domain("xgooglebot.com", ["googlebot.com"])

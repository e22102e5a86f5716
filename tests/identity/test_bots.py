"""Good bots are known by where they come from, never by what they say alone."""

from __future__ import annotations

from hedgerow.identity.bots import Bot, Bots


def test_a_bot_is_verified_by_its_network_and_its_word():
    bots = Bots([
        Bot("search", ("192.0.2.0/24", "2001:db8::/32"), user_agent="SearchBot"),
        Bot("monitor", ("198.51.100.1/32",)),
    ])  # fmt: skip
    assert bots
    assert bots.verified("192.0.2.9", "Mozilla/5.0 (compatible; searchbot/2.1)") == "search"
    assert bots.verified("2001:db8:1::1", "SearchBot") == "search"
    assert bots.verified("192.0.2.9", "Mozilla/5.0") == ""
    assert bots.verified("203.0.113.1", "SearchBot") == ""
    assert bots.verified("198.51.100.1", "") == "monitor"
    assert bots.verified("not an address", "SearchBot") == ""


def test_there_are_none_by_default():
    assert not Bots()
    assert Bots().verified("192.0.2.1", "Googlebot") == ""

"""Known bots: claims in user agents, and proofs by address range and host name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.address import Networks
from hedgerow.request.bots import (
    CATEGORIES,
    DEFAULT_POLICIES,
    Bot,
    BotProofs,
    Bots,
    KnownBot,
    NameLookup,
    Ranges,
    known_bots,
    published_ranges,
)  # fmt: skip

DAY = 86_400.0
GOOGLE = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
PEOPLE = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148 YandexSearch/24.1 [Pinterest/iOS]",
    "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/120.0.0.0 YaBrowser/24.1 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone) [FBAN/FBIOS;FBAV/450.0] LinkedInApp/9.1",
    "Lynx/2.9.0 libwww-FM/2.14", "w3m/0.5.3", "curl/8.5.0", "git/2.43.0", "NetNewsWire (RSS Reader; https://x/)", "",
]  # fmt: skip


def test_a_bot_of_the_settings_is_verified_by_network_and_user_agent():
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


def test_there_are_no_bots_by_default():
    assert not Bots()
    assert Bots().verified("192.0.2.1", "Googlebot") == ""
    assert Bots().claimed("Googlebot") is None


# ---- The table


def test_the_table_of_known_bots_is_consistent():
    bots = known_bots()
    assert len(bots) >= 60
    assert len({bot.name for bot in bots}) == len(bots)
    assert {bot.category for bot in bots} == set(CATEGORIES)
    assert {name for bot in bots for name in bot.ranges} == set(published_ranges())
    assert all(url.startswith("https://") for url in published_ranges().values())
    for bot in bots:
        assert re.compile(bot.agent).groups == 0, bot.name
        assert all(domain == domain.lower().strip(".") and "." in domain for domain in bot.domains)
        assert bot.agent or bot.robots or bot.signer, bot.name
    assert set(DEFAULT_POLICIES) == set(CATEGORIES)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (GOOGLE, "Googlebot"),
        ("AdsBot-Google (+http://www.google.com/adsbot.html)", "AdsBot-Google"),
        ("Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "bingbot"),
        ("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", "YandexBot"),
        ("Mozilla/5.0 (compatible; Yeti/1.1; +https://naver.me/spd)", "Yeti"),
        ("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://x.example)", "GPTBot"),
        ("facebookexternalhit/1.1 Facebot Twitterbot/1.0", "facebookexternalhit"),
        ("Feedbin feed-id:1 - 2 subscribers", "Feedbin"),
    ],
)  # fmt: skip
def test_a_user_agent_claims_the_expected_bot(agent, name):
    found = Bots(known=known_bots()).claimed(agent)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("agent", PEOPLE)
def test_browsers_and_programs_claim_no_bot(agent):
    assert Bots(known=known_bots()).claimed(agent) is None


@given(st.text(max_size=2000))
def test_arbitrary_user_agents_are_handled_without_an_error(agent):
    Bots(known=known_bots()).claimed(agent)


# ---- What proves a claim

DNS = KnownBot("d", "search", agent="d", domains=("d.example",))
LISTED = KnownBot("l", "search", agent="l", ranges=("l.json",))
BOTH = KnownBot("b", "search", agent="b", domains=("b.example",), ranges=("l.json",))
NOTHING = KnownBot("n", "search", agent="n")
HERE, THERE = "192.0.2.1", "198.51.100.1"


def bots(*, ranges=None, proofs=None) -> Bots:
    return Bots(known=[DNS, LISTED, BOTH, NOTHING], ranges=ranges, proofs=proofs)


def listed(read_at: float = 0.0) -> dict[str, Ranges]:
    return {"l.json": Ranges(Networks(["192.0.2.0/24"]), read_at)}


def test_a_published_range_proves_or_disproves_a_claim():
    one = bots(ranges=listed())
    assert one.prove(LISTED, HERE, 0.0) == "verified"
    assert one.prove(LISTED, THERE, 0.0) == "false"
    assert one.prove(LISTED, "no address", 0.0) == "false"


def test_an_old_range_list_does_not_disprove_a_claim():
    one = bots(ranges=listed(100 * DAY))
    assert one.prove(LISTED, THERE, 100 * DAY + 29 * DAY) == "false"
    assert one.prove(LISTED, THERE, 100 * DAY + 31 * DAY) == "unprovable"
    assert one.prove(LISTED, THERE, 50 * DAY) == "unprovable", "nor about a visit of long before, in a log"
    assert one.prove(LISTED, HERE, 500 * DAY) == "verified"


def test_a_claim_without_any_list_is_unprovable():
    assert bots().prove(LISTED, HERE, 0.0) == "unprovable"
    two = KnownBot("t", "search", agent="t", ranges=("l.json", "missing.json"))
    assert Bots(known=[two], ranges=listed()).prove(two, THERE, 0.0) == "unprovable", "half the list is missing"
    assert bots().prove(NOTHING, HERE, 0.0) == "unprovable"


def test_the_host_name_proves_or_disproves_a_claim():
    asked: list[NameLookup] = []
    proofs = BotProofs(asked.append)
    one = bots(proofs=proofs)
    assert one.prove(DNS, HERE, 0.0) == "pending"
    proofs.learn(asked[0], true=True)
    assert one.prove(DNS, HERE, 0.0) == "verified"
    assert one.prove(BOTH, HERE, 0.0) == "pending", "another bot's name proves nothing"
    assert [(name.bot.name, name.address) for name in asked] == [("d", HERE), ("b", HERE)]


def test_either_a_range_or_a_host_name_proves_a_claim():
    asked: list[NameLookup] = []
    proofs = BotProofs(asked.append)
    one = bots(ranges=listed(), proofs=proofs)
    assert one.prove(BOTH, HERE, 0.0) == "verified"
    assert not asked
    assert one.prove(BOTH, THERE, 0.0) == "pending"
    proofs.learn(asked[0], true=False)
    assert one.prove(BOTH, THERE, 0.0) == "false"


def test_a_claim_is_unprovable_without_lookups():
    assert bots().prove(DNS, HERE, 0.0) == "unprovable"


def test_a_lenient_bot_is_never_called_false():
    lenient = KnownBot("p", "preview", agent="p", domains=("p.example",), lenient=True)
    proofs = BotProofs()
    proofs.learn(NameLookup(lenient, HERE, 0.0), true=False)
    proofs.learn(NameLookup(lenient, THERE, 0.0), true=True)
    one = Bots(known=[lenient], proofs=proofs)
    assert one.prove(lenient, HERE, 0.0) == "unprovable"
    assert one.prove(lenient, THERE, 0.0) == "verified"

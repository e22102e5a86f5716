"""Robots.txt compliance: which rules count, and what a bot loses by disobeying."""

from __future__ import annotations

from hedgerow.request.bots import BotProofs, Bots, BotVerifier, KnownBot, NameLookup
from hedgerow.request.robots_compliance import RobotsCompliance

HOUR, DAY = 3600.0, 86_400.0
CLOSED = b"User-agent: *\nDisallow: /private\nUser-agent: Polite\nDisallow: /mine\n"
BOT = KnownBot("Bot", "search", agent="bot", robots="Bot", domains=("bot.example",))
FETCHER = KnownBot("Fetcher", "search", agent="fetcher", domains=("bot.example",))
SEO = KnownBot("Seo", "seo", agent="seo", robots="Seo", domains=("bot.example",))
HERE, THERE = "192.0.2.1", "198.51.100.1"


def robots_compliance(text: bytes = CLOSED, at: float = 0.0) -> RobotsCompliance:
    one = RobotsCompliance()
    assert one.due("example.org", at)
    one.learn("example.org", text, at)
    return one


def test_rules_apply_to_the_bots_they_name():
    one = robots_compliance()
    assert one.disobeys("example.org", "Bot", "/private/x?y", 1.0)
    assert not one.disobeys("example.org", "Bot", "/mine", 1.0)
    assert one.disobeys("example.org", "Polite", "/mine", 1.0)
    assert not one.disobeys("example.org", "Polite", "/private", 1.0)
    assert not one.disobeys("other.example", "Bot", "/private", 1.0)
    assert not robots_compliance(b"User-agent: *\nDisallow: /").disobeys("example.org", "Bot", "/robots.txt", 1.0)


def test_a_target_that_starts_with_two_slashes_is_a_path():
    one = robots_compliance(b"User-agent: *\nDisallow: //x\n")
    assert one.disobeys("example.org", "Bot", "//x/y", 1.0)


def test_a_new_rule_does_not_count_for_a_day():
    one = robots_compliance(b"")
    one.learn("example.org", CLOSED, HOUR)
    assert not one.disobeys("example.org", "Bot", "/private", 2 * HOUR)
    assert not one.disobeys("example.org", "Bot", "/private", DAY)
    assert one.disobeys("example.org", "Bot", "/private", DAY + 2 * HOUR)
    one.learn("example.org", b"", 2 * DAY)
    assert not one.disobeys("example.org", "Bot", "/private", 2 * DAY), "and a rule that is gone is gone at once"


def test_robots_txt_is_fetched_when_due():
    one = RobotsCompliance()
    assert one.due("a", 0.0)
    assert not one.due("a", 1.0), "asked for, and under way"
    assert one.due("a", 61.0), "nothing came of it"
    one.learn("a", b"", 61.0)
    assert not one.due("a", 61.0 + HOUR - 1)
    assert one.due("a", 61.0 + HOUR)
    for n in range(100):
        one.due(f"host-{n}", 0.0)
    assert len(one._hosts) == 16
    one.learn("a", CLOSED, 0.0)
    assert len(one._hosts) == 16


def test_the_number_of_versions_is_bounded():
    one = robots_compliance()
    for n in range(100):
        one.learn("example.org", b"# %d" % n, float(n))
    assert len(one._hosts["example.org"].versions) == 8


def bot_verifier() -> BotVerifier:
    proofs = BotProofs()
    for bot in (BOT, FETCHER, SEO):
        proofs.learn(NameLookup(bot, HERE, 0.0), true=True)
        proofs.learn(NameLookup(bot, THERE, 0.0), true=False)
    return BotVerifier(Bots(known=[BOT, FETCHER, SEO], proofs=proofs), robots_compliance=robots_compliance())


def test_a_bot_that_disobeys_does_not_pass_for_a_day():
    one = bot_verifier()
    ask = lambda at, target, address=HERE, agent="bot": one.match_address(at, address, agent, "example.org", target)  # noqa: E731
    assert ask(1.0, "/") == ("Bot", "Bot", "verified", ())
    assert ask(2.0, "/private") == ("", "Bot", "verified", ("robots",))
    assert ask(3.0, "/") == ("", "Bot", "verified", ())
    assert ask(3.0, "/", agent="fetcher").bot == "Fetcher"
    assert ask(2.0 + DAY - 1, "/").bot == ""
    assert ask(2.0 + DAY, "/").bot == "Bot"


def test_a_fetcher_on_behalf_of_people_may_ignore_robots_txt():
    assert bot_verifier().match_address(1.0, HERE, "fetcher", "example.org", "/private").bot == "Fetcher"


def test_a_false_claim_does_not_revoke_the_real_bot():
    one = bot_verifier()
    assert one.match_address(1.0, THERE, "bot", "example.org", "/private") == ("", "Bot", "false", ())
    assert one.match_address(2.0, HERE, "bot", "example.org", "/").bot == "Bot"


def test_a_verified_bot_of_a_contained_category_does_not_pass():
    assert bot_verifier().match_address(1.0, HERE, "seo", "example.org", "/") == ("", "Seo", "verified", ())

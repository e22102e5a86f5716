"""Clearances: given, checked, graded."""

from __future__ import annotations

import pytest

from driving import KEY, START
from hedgerow.challenge.clearance import Clearances, ClearanceUsage
from hedgerow.markers.token import Key, TokenCodecs

from .asking import SEALS, visit

UA = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
OTHER_UA = UA.replace("140", "141")


def who(**more):
    return visit(**{"user_agent": UA, **more})


def given(clearances, **more):
    return clearances.give(who(**more), "work", START, language="en")[0]


def codes(worth):
    return list(worth.signs)


def test_as_it_was_given():
    clearances = Clearances(SEALS)
    worth = clearances.check(given(clearances), who(), START + 100, language="en")
    assert (worth.grade, worth.signs, worth.kind, worth.at) == ("good", (), "work", START)


@pytest.mark.parametrize(
    ("change", "language", "grade", "code"),
    [
        ({"address": "192.0.2.77"}, "en", "doubtful", "clearance-address"),
        ({"user_agent": OTHER_UA}, "en", "doubtful", "clearance-user-agent"),
        ({}, "de", "doubtful", "clearance-language"),
        ({"address": "198.51.100.1"}, "en", "void", "clearance-network"),
    ],
)
def test_one_change(change, language, grade, code):
    clearances = Clearances(SEALS)
    worth = clearances.check(given(clearances), who(**change), START + 100, language=language)
    assert (worth.grade, codes(worth)) == (grade, [code])
    assert worth.counts == (grade == "doubtful")


def test_two_signals_at_once_are_another_browser():
    clearances = Clearances(SEALS)
    assert clearances.check(given(clearances), who(user_agent=OTHER_UA), START, language="de").grade == "void"


def test_within_an_ipv6_network():
    clearances = Clearances(SEALS)
    token = given(clearances, address="2001:db8:1:2::1", visitor="2001:db8:1:2::/64", prefix="2001:db8:1:2::/64")
    moved = {"address": "2001:db8:1:9::1", "visitor": "2001:db8:1:9::/64", "prefix": "2001:db8:1:9::/64"}
    assert clearances.check(token, who(**moved), START, language="en").grade == "doubtful"


def test_an_account_may_roam_but_not_another_account():
    clearances = Clearances(SEALS)
    ann = {"account": "ann", "visitor": "account:ann"}
    token = given(clearances, **ann)
    elsewhere = clearances.check(token, who(**ann, address="198.51.100.1"), START, language="en")
    assert (elsewhere.grade, codes(elsewhere)) == ("doubtful", ["clearance-network"])
    bob = who(account="bob", visitor="account:bob", address="192.0.2.9")
    assert clearances.check(token, bob, START, language="en").grade == "void"


def test_who_logs_in_keeps_it():
    clearances = Clearances(SEALS)
    token = given(clearances)
    assert clearances.check(token, who(account="ann", visitor="account:ann"), START, language="en").grade == "good"


@pytest.mark.parametrize("token", ["", "x", "AAAA", "ä", "A" * 200])
def test_what_is_not_ours(token):
    assert Clearances(SEALS).check(token, who(), START).grade == "none"


def test_over_or_of_the_future_or_of_another_site_or_key():
    clearances = Clearances(SEALS, seconds=100)
    token = given(clearances)
    assert clearances.check(token, who(), START + 99, language="en").grade == "good"
    assert clearances.check(token, who(), START + 100, language="en").grade == "none"
    assert clearances.check(token, who(), START - 100, language="en").grade == "none"
    assert clearances.check(token, who(host="other.example"), START, language="en").grade == "none"
    others = Clearances(TokenCodecs([Key(1, KEY[::-1], 0.0)]))
    assert others.check(token, who(), START, language="en").grade == "none"


def test_every_bit_counts():
    clearances = Clearances(SEALS)
    token = given(clearances)
    for position in range(len(token) - 1):
        changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
        assert clearances.check(changed, who(), START, language="en").grade == "none"


def test_handed_round():
    clearances = Clearances(SEALS)
    token = given(clearances)
    grades = [clearances.check(token, who(address=f"198.51.{n}.1"), START + n, language="en").grade for n in range(4)]
    assert grades == ["void", "void", "shared", "shared"]
    owner = clearances.check(token, who(), START + 10, language="en")
    assert (owner.grade, codes(owner)) == ("shared", ["clearance-shared"])
    assert not owner.counts
    later = clearances.check(token, who(), START + 2000, language="en")
    assert later.grade == "good", "it is about many at once"


def test_a_person_who_goes_from_home_to_work_shares_nothing():
    clearances = Clearances(SEALS)
    token = given(clearances)
    assert clearances.check(token, who(address="198.51.100.1"), START + 1, language="en").grade == "void"
    assert clearances.check(token, who(), START + 2, language="en").grade == "good"


def test_who_solves_again_stays_who_it_is():
    clearances = Clearances(SEALS)
    value, key = clearances.give(who(), "work", START, language="en")
    worth = clearances.check(value, who(), START, language="en")
    assert worth.visitor == key
    again, same = clearances.give(who(visitor=key), "image", START + 9, language="en")
    assert same == key
    assert clearances.check(again, who(), START + 9, language="en").visitor == key
    assert clearances.give(who(), "work", START)[1] != key


def test_sightings_have_a_bound():
    clearance_usage = ClearanceUsage(most=10)
    for n in range(1000):
        clearance_usage.see(n.to_bytes(2, "big"), b"net", START)
        clearance_usage.see(b"one", n.to_bytes(2, "big"), START)
    assert len(clearance_usage) <= 10
    assert all(len(seen) <= 3 for seen in clearance_usage._seen.values())


def test_the_cookie():
    clearances = Clearances(SEALS, seconds=3600)
    assert clearances.cookie("abc", secure=False) == (
        b"hedgerow-clearance=abc; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"
    )
    assert clearances.cookie("abc", secure=True).endswith(b"; SameSite=Lax; Secure")

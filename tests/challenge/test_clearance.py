"""Clearances: issued, checked, graded."""

from __future__ import annotations

import pytest

from driving import KEY, START
from hedgerow.challenge.clearance import Clearances, ClearanceUsage
from hedgerow.markers.token import Key, TokenCodecs

from .solver import SEALS, visit

UA = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
OTHER_UA = UA.replace("140", "141")


def own_visit(**more):
    return visit(**{"user_agent": UA, **more})


def given(clearances, **more):
    return clearances.issue(own_visit(**more), "work", START, language="en")[0]


def codes(check):
    return list(check.anomalies)


def test_an_unchanged_clearance_is_good():
    clearances = Clearances(SEALS)
    check = clearances.check(given(clearances), own_visit(), START + 100, language="en")
    assert (check.grade, check.anomalies, check.kind, check.at) == ("good", (), "work", START)


@pytest.mark.parametrize(
    ("change", "language", "grade", "code"),
    [
        ({"address": "192.0.2.77"}, "en", "doubtful", "clearance-address"),
        ({"user_agent": OTHER_UA}, "en", "doubtful", "clearance-user-agent"),
        ({}, "de", "doubtful", "clearance-language"),
        ({"address": "198.51.100.1"}, "en", "void", "clearance-network"),
    ],
)
def test_one_changed_signal_is_graded(change, language, grade, code):
    clearances = Clearances(SEALS)
    check = clearances.check(given(clearances), own_visit(**change), START + 100, language=language)
    assert (check.grade, codes(check)) == (grade, [code])
    assert check.counts == (grade == "doubtful")


def test_two_changed_signals_void_a_clearance():
    clearances = Clearances(SEALS)
    assert clearances.check(given(clearances), own_visit(user_agent=OTHER_UA), START, language="de").grade == "void"


def test_addresses_of_one_ipv6_network_keep_a_clearance():
    clearances = Clearances(SEALS)
    token = given(clearances, address="2001:db8:1:2::1", visitor="2001:db8:1:2::/64", prefix="2001:db8:1:2::/64")
    moved = {"address": "2001:db8:1:9::1", "visitor": "2001:db8:1:9::/64", "prefix": "2001:db8:1:9::/64"}
    assert clearances.check(token, own_visit(**moved), START, language="en").grade == "doubtful"


def test_only_the_same_account_keeps_a_clearance_in_another_network():
    clearances = Clearances(SEALS)
    ann = {"account": "ann", "visitor": "account:ann"}
    token = given(clearances, **ann)
    elsewhere = clearances.check(token, own_visit(**ann, address="198.51.100.1"), START, language="en")
    assert (elsewhere.grade, codes(elsewhere)) == ("doubtful", ["clearance-network"])
    bob = own_visit(account="bob", visitor="account:bob", address="192.0.2.9")
    assert clearances.check(token, bob, START, language="en").grade == "void"


def test_a_visitor_that_logs_in_keeps_its_clearance():
    clearances = Clearances(SEALS)
    token = given(clearances)
    assert (
        clearances.check(token, own_visit(account="ann", visitor="account:ann"), START, language="en").grade == "good"
    )


@pytest.mark.parametrize("token", ["", "x", "AAAA", "ä", "A" * 200])
def test_a_foreign_cookie_is_no_clearance(token):
    assert Clearances(SEALS).check(token, own_visit(), START).grade == "none"


def test_an_expired_future_or_foreign_clearance_does_not_count():
    clearances = Clearances(SEALS, seconds=100)
    token = given(clearances)
    assert clearances.check(token, own_visit(), START + 99, language="en").grade == "good"
    assert clearances.check(token, own_visit(), START + 100, language="en").grade == "none"
    assert clearances.check(token, own_visit(), START - 100, language="en").grade == "none"
    assert clearances.check(token, own_visit(host="other.example"), START, language="en").grade == "none"
    others = Clearances(TokenCodecs([Key(1, KEY[::-1], 0.0)]))
    assert others.check(token, own_visit(), START, language="en").grade == "none"


def test_a_clearance_with_one_changed_bit_does_not_count():
    clearances = Clearances(SEALS)
    token = given(clearances)
    for position in range(len(token) - 1):
        changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
        assert clearances.check(changed, own_visit(), START, language="en").grade == "none"


def test_a_clearance_from_many_networks_is_shared():
    clearances = Clearances(SEALS)
    token = given(clearances)
    grades = [
        clearances.check(token, own_visit(address=f"198.51.{n}.1"), START + n, language="en").grade for n in range(4)
    ]
    assert grades == ["void", "void", "shared", "shared"]
    owner = clearances.check(token, own_visit(), START + 10, language="en")
    assert (owner.grade, codes(owner)) == ("shared", ["clearance-shared"])
    assert not owner.counts
    later = clearances.check(token, own_visit(), START + 2000, language="en")
    assert later.grade == "good", "it is about many at once"


def test_a_clearance_from_two_networks_over_time_is_not_shared():
    clearances = Clearances(SEALS)
    token = given(clearances)
    assert clearances.check(token, own_visit(address="198.51.100.1"), START + 1, language="en").grade == "void"
    assert clearances.check(token, own_visit(), START + 2, language="en").grade == "good"


def test_a_visitor_who_solves_again_keeps_its_key():
    clearances = Clearances(SEALS)
    value, key = clearances.issue(own_visit(), "work", START, language="en")
    check = clearances.check(value, own_visit(), START, language="en")
    assert check.visitor == key
    again, same = clearances.issue(own_visit(visitor=key), "image", START + 9, language="en")
    assert same == key
    assert clearances.check(again, own_visit(), START + 9, language="en").visitor == key
    assert clearances.issue(own_visit(), "work", START)[1] != key


def test_the_stored_clearance_usage_is_bounded():
    clearance_usage = ClearanceUsage(max_entries=10)
    for n in range(1000):
        clearance_usage.record_use(n.to_bytes(2, "big"), b"net", START)
        clearance_usage.record_use(b"one", n.to_bytes(2, "big"), START)
    assert len(clearance_usage) <= 10
    assert all(len(seen) <= 3 for seen in clearance_usage._seen.values())


def test_the_cookie_is_http_only_and_same_site():
    clearances = Clearances(SEALS, seconds=3600)
    assert clearances.cookie("abc", secure=False) == (
        b"hedgerow-clearance=abc; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"
    )
    assert clearances.cookie("abc", secure=True).endswith(b"; SameSite=Lax; Secure")

"""Rules for parts of a site: which one applies, by any spelling of a path, and in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.rate_limit import RateLimit
from hedgerow.request.path_rules import PathRule, PathRules, rule_of


def found(rules: PathRules, target: str) -> str:
    rule = rules.find(target)
    return rule.rule.path if rule is not None else ""


def test_the_first_rule_that_matches_applies_and_no_other():
    rules = PathRules([PathRule("/a/b*"), PathRule("/a/*"), PathRule("*")])
    assert [found(rules, path) for path in ("/a/bc", "/a/c", "/x")] == ["/a/b*", "/a/*", "*"]
    swapped = PathRules([PathRule("*"), PathRule("/a/*")])
    assert found(swapped, "/a/b") == "*"


def test_a_pattern_with_a_question_mark_goes_on_into_the_query():
    rules = PathRules([PathRule("/list?*page=*"), PathRule("/list")])
    assert found(rules, "/list?x=1&page=2") == "/list?*page=*"
    assert found(rules, "/list?x=1") == found(rules, "/list") == "/list"
    assert found(rules, "/lists") == ""


@pytest.mark.parametrize(
    "target", ["/Admin/x", "//admin/x", "/%61dmin/x", "/a/../admin/x", "/admin/./x", "/admin;v=1/x"]
)
def test_a_strict_rule_holds_for_every_spelling_of_its_paths(target):
    assert found(PathRules([PathRule("/admin/*", clearance=True)]), target) == "/admin/*"


@pytest.mark.parametrize("protection", ["off", "observe"])
@pytest.mark.parametrize(
    "target", ["/api/../page", "/api/%2e%2e/page", "/api/..%2fpage", "/page.php/..;/../api/x", "/x/../api/y"]
)
def test_no_spelling_of_another_page_escapes_protection(target, protection):
    rules = PathRules([PathRule("/api/*", protection=protection)])
    assert found(rules, target) == ""
    assert found(rules, "/api/page") == found(rules, "/API/Page") == "/api/*"


@given(st.text(alphabet="/.%2ef;aA\\?", max_size=30))
def test_a_rule_that_is_off_applies_only_where_both_spellings_match(tail):
    rule = PathRules([PathRule("/open/*", protection="off")]).find("/" + tail)
    assert rule is None or tail.lower().startswith("open/")


def test_long_targets_with_many_wildcards_are_matched_in_linear_time():
    rules = PathRules([PathRule("/" + "*a" * 30)])
    began = time.perf_counter()
    assert rules.find("/" + "a" * 29 + "b" * 16_000) is None
    assert time.perf_counter() - began < 0.5


def test_marks_and_closed_are_left_open_where_the_rule_does_not_say():
    rules = PathRules([PathRule("/a", marks="opaque", closed=True), PathRule("/b"), PathRule("/c", protection="off")])
    assert [rules.mode_of(path) for path in ("/a", "/b", "/c", "/d")] == ["opaque", None, "off", None]
    assert [rules.is_closed(path) for path in ("/a", "/b", "/c", "/d")] == [True, None, False, None]


def test_limits_of_several_rules_follow_one_another():
    limit = RateLimit(5, 60.0)
    rules = PathRules([PathRule("/a", limits=(limit, limit)), PathRule("/b"), PathRule("/c", limits=(limit,))])
    assert [(rule.limits_from, rule.apart != "") for rule in rules.rules] == [(0, True), (2, False), (2, True)]


def test_the_evidence_names_the_rule():
    rule = PathRules([PathRule("/a", clearance=True, traps=False)]).find("/a")
    assert rule is not None
    assert rule.evidence.text == "The rule for the path /a applies: traps off, clearance needed."
    assert rule_of([rule.evidence]) == "/a"
    assert rule_of([]) == ""


def test_capital_letters_do_not_matter_in_a_query_either():
    rules = PathRules([PathRule("/index.php?*title=Special:Export*", clearance=True)])
    assert rules.find("/index.php?title=Special:Export&pages=A") is not None
    assert rules.find("/INDEX.PHP?TITLE=special:export") is not None
    assert rules.find("/index.php?title=Export") is None

"""Marking rules: the first pattern that fits decides, quickly, and only pages are marked."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.rules import Mode, Patterns, Rules
from property_tests import examples


def rules(mode: Mode = "opaque", *patterns: tuple[str, Mode]) -> Rules:
    return Rules(mode, patterns)


def test_a_rule_may_speak_of_the_query():
    how = rules("opaque", ("/a?x=*", "off"), ("*?*tab=*", "readable"), ("/b*", "off"))
    expected = {
        "/a": "opaque", "/a?x=1": "off", "/a?y=1": "opaque", "/c?tab=1": "readable", "/c?y=?&tab=1": "readable",
        "/tab=1": "opaque", "/b": "off", "/b/c?x=1": "off", "/c?/b": "opaque", "/c?\ntab=": "readable",
    }  # fmt: skip
    assert {target: how.mode_of(target) for target in expected} == expected


def test_a_rule_takes_no_long_time():
    how = rules("opaque", ("*?*do=media*", "readable"), ("*/api/*", "off"))
    began = time.process_time()
    for hard in ("/?" * 100_000, "/?" + "do=" * 100_000, "/ap" * 100_000):
        assert how.mode_of(hard) == "opaque"
    assert time.process_time() - began < 20


@pytest.mark.parametrize("mode", ["opaque", "readable", "off"])
def test_without_a_rule_pages_are_marked_and_nothing_else(mode):
    how = rules(mode)
    targets = ["/", "/a.html?x=1", "/logo.png", "/feed.xml", "/a/feed"]
    assert how.modes_of(targets) == [mode, mode, "off", "off", "off"]
    assert how.marks == (mode != "off")


def test_a_rule_marks_what_is_no_page_as_well():
    how = rules("off", ("/files/*", "opaque"))
    assert how.modes_of(["/files/a.zip", "/a.html"]) == ["opaque", "off"]
    assert how.marks


PATTERNS = st.lists(
    st.tuples(st.text("/ab?*=.", max_size=6), st.sampled_from(["opaque", "readable", "off"])), max_size=5
)
TARGETS = st.lists(st.text("/ab?=.x\n", max_size=8), max_size=6)


@given(PATTERNS, TARGETS)
def test_many_targets_are_judged_as_one_by_one(patterns, targets):
    how = rules("readable", *patterns)
    expected = []
    for target in targets:
        fitting = [mode for text, mode in patterns if Patterns([text]).match(target)]
        expected.append(fitting[0] if fitting else rules("readable").mode_of(target))
    assert how.modes_of(targets) == expected
    assert [how.mode_of(target) for target in targets] == expected


def _fits(pattern: str, text: str) -> bool:
    """Whether a pattern fits a text, tried in every way: slow, and plainly right."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_fits(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return text[:1] == pattern[0] and _fits(pattern[1:], text[1:])


@examples(500)
@given(pattern=st.text("ab/*?", max_size=8), target=st.text("ab/?", max_size=10))
def test_a_pattern_fits_what_it_would_fit_if_every_way_was_tried(pattern, target):
    path, question, query = pattern.partition("?")
    its_path, its_question, its_query = target.partition("?")
    fits = _fits(path, its_path) and (not question or (bool(its_question) and _fits(query, its_query)))
    assert Patterns([pattern]).match(target) == fits

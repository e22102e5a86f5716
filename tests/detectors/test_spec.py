"""Declarations: how a code becomes evidence, and a group its rule."""

from __future__ import annotations

import pytest

from driving import settings
from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.detectors.spec import EvidenceCode, EvidenceGroup
from hedgerow.detectors.trap import DETECTOR, TrapSettings

CODE = EvidenceCode("group", "code", 0.5, "More than {count} in {seconds:g} seconds.", "When.")
PLAIN = EvidenceCode("group", "plain", 0.5, "A sentence with {braces}.", "When.")


def test_a_code_becomes_evidence_with_its_sentence_filled_in():
    assert CODE.evidence(count=3, seconds=1.0) == Evidence("group", "code", 0.5, "More than 3 in 1 seconds.")
    assert CODE.evidence(weight=0.0, key="k", details="d", count=3, seconds=1.5) == Evidence(
        "group", "code", 0.0, "More than 3 in 1.5 seconds.", "k", "d"
    )
    assert PLAIN.evidence().text == PLAIN.text


def test_what_a_visitor_sends_is_never_a_template():
    code = EvidenceCode("group", "code", 0.5, "Asked for {target}.", "When.")
    assert code.evidence(target="/{0.__class__}{x}").text == "Asked for /{0.__class__}{x}."


def test_a_missing_part_of_a_sentence_is_an_error():
    with pytest.raises(KeyError):
        CODE.evidence(count=3)


def test_a_rule_is_fixed_or_read_from_the_settings():
    fixed = PolicyRule("challenge", 0.0)
    own = settings("[traps]\nblock_for = 7.0\n")
    assert EvidenceGroup("x", fixed).rule_for(own) is fixed
    read = EvidenceGroup("x", lambda tables: PolicyRule("refuse", tables.table(TrapSettings).block_for))
    assert read.rule_for(own) == PolicyRule("refuse", 7.0)


def test_the_summary_is_the_first_paragraph_on_one_line():
    assert DETECTOR.summary.startswith("The visitor requested a hidden link")
    assert "\n" not in DETECTOR.summary
    assert "framed" not in DETECTOR.summary

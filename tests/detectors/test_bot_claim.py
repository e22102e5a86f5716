"""A false claim is strong evidence; one that is being looked into is none."""

from __future__ import annotations

import pytest

from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.bot_claim import BotClaimDetector


def judged(refused=(), **fields):
    visit = Visit(0.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", **{"target": "/x", **fields})
    return [(e.code, e.weight) for e in BotClaimDetector(refused)(visit, StateReply(None, ()))]


@pytest.mark.parametrize("proof", ["pending", "unprovable", "verified"])
def test_a_claim_that_is_not_false_is_nothing(proof):
    assert judged(claim="Googlebot", proof=proof) == []


def test_a_false_claim_is_enough_to_decide():
    assert judged(claim="Googlebot", proof="false") == [("false-claim", 1.0)]
    assert judged() == []


@pytest.mark.parametrize("proof", ["pending", "unprovable", "verified"])
def test_an_unwanted_bot_is_refused_whether_its_claim_is_proven_or_not(proof):
    assert judged(["GPTBot"], claim="GPTBot", proof=proof) == [("unwanted-bot", 1.0)]
    assert judged(["GPTBot"], claim="GPTBot", proof=proof, target="/robots.txt") == [], "it must be able to read that"
    assert judged(["GPTBot"], claim="Googlebot", proof=proof) == []


def test_disobeying_robots_txt_counts_against_a_bot_that_is_not_being_checked():
    for proof, found in (("verified", [("robots", 0.3)]), ("unprovable", [("robots", 0.3)]), ("pending", [])):
        assert judged(claim="Bot", proof=proof, anomalies=("robots",)) == found


def test_bad_signatures_weigh_by_how_bad_they_are():
    for sign, weight in (("signature-forged", 0.5), ("signature-replayed", 0.3), ("signature-expired", 0.1)):
        assert judged(claim="Agent", proof="unprovable", anomalies=(sign,)) == [(sign, weight)]

"""Scores: weights add up and fade, counts belong to a day, and reasons are bounded."""

from __future__ import annotations

import pytest

from hedgerow.core.decision import ScoreUpdate, VisitorScore
from hedgerow.policy.score import (
    challenges_on,
    counted_day,
    explained,
    score_at,
    suspicious_visits_on,
    updated_score,
)

HOUR = 3600.0


def update(at: float, day: int = 1, **fields) -> ScoreUpdate:
    return ScoreUpdate("192.0.2.1", at, day, HOUR, **fields)


def test_a_score_halves_in_each_half_life_and_reaches_zero():
    score = VisitorScore(total=0.8, at=100.0)
    assert score_at(score, 100.0, HOUR) == 0.8
    assert score_at(score, 100.0 + 2 * HOUR, HOUR) == pytest.approx(0.2)
    assert score_at(score, 0.0, HOUR) == 0.8, "a late visit does not make it grow"
    assert score_at(score, 100.0 + 30 * HOUR, HOUR) == 0.0
    assert score_at(None, 0.0, HOUR) == 0.0


def test_weights_are_added_to_what_is_left():
    score = updated_score(None, update(0.0, weight=0.4, codes=("a",)))
    score = updated_score(score, update(HOUR, weight=0.4, codes=("b",)))
    assert score.total == pytest.approx(0.6)
    assert score.at == HOUR
    late = updated_score(score, update(0.0, weight=0.4, codes=("a",)))
    assert (late.total, late.at) == (pytest.approx(1.0), HOUR)


def test_counts_are_those_of_one_day():
    score = updated_score(None, update(0.0, suspicious=True, weight=0.1))
    score = updated_score(score, update(1.0, suspicious=True, weight=0.1))
    assert (suspicious_visits_on(score, 1), suspicious_visits_on(score, 2)) == (2, 0)
    score = updated_score(score, update(2.0, day=2, suspicious=True, challenged=True, weight=0.1))
    assert (suspicious_visits_on(score, 2), challenges_on(score, 2), challenges_on(score, 1)) == (1, 1, 0)
    assert suspicious_visits_on(None, 1) == challenges_on(None, 1) == 0


@pytest.mark.parametrize(
    ("key", "challenged", "pause", "challenges"),
    [
        ("clearance:1", True, 0.1, 2),
        ("account:ann", True, 5.9, 2),
        ("clearance:1", True, 6.1, 1),
        ("clearance:1", False, 0.1, 1),
        ("192.0.2.1", True, 0.1, 1),
    ],
)
def test_midnight_is_no_new_day_for_a_browser_that_was_challenged_just_before(key, challenged, pause, challenges):
    """Our own: a crawler that was stopped five minutes before midnight began anew five minutes later."""
    evening = ScoreUpdate(key, 23 * HOUR, 0, HOUR, weight=0.1, challenged=challenged)
    later = ScoreUpdate(key, (23 + pause) * HOUR, 1, HOUR, weight=0.1, challenged=True)
    before = updated_score(None, evening)
    score = updated_score(before, later)
    assert challenges_on(score, counted_day(before, key, later.at, 1)) == challenges


@pytest.mark.parametrize(
    ("identity", "reasons", "challenges"),
    [("person", (), 1), ("person", (("path-random-like", 1),), 6), ("suspect", (("path-random-like", 1),), 5)],
    ids=["answered", "faded", "not answered"],
)
def test_whoever_has_answered_an_image_begins_anew_at_midnight(identity, reasons, challenges):
    """The other side: people can read images, and are not asked sooner than on any other day."""
    score = VisitorScore(identity, 0.0, 23 * HOUR, 0, challenges=5, reasons=reasons)
    later = ScoreUpdate("clearance:1", 25 * HOUR, 1, HOUR, weight=0.1, challenged=True)
    assert updated_score(score, later).challenges == challenges


def test_the_challenges_of_several_evenings_do_not_add_up():
    """Somebody reads from ten to one each night, and solves one challenge before midnight and one after it."""
    score = None
    for evening in range(6):
        for hour in (22, 25):
            at = (24 * evening + hour) * HOUR
            score = updated_score(score, ScoreUpdate("clearance:1", at, int(at // (24 * HOUR)), HOUR, challenged=True))
        assert score.challenges == 2


def test_a_visitor_that_never_rests_begins_anew_at_the_second_midnight():
    score = None
    for hour in range(24, 24 * 4):
        score = updated_score(score, ScoreUpdate("account:all", hour * HOUR, hour // 24, HOUR, challenged=True))
    assert score.challenges <= 24


def test_clearing_starts_again_but_for_the_challenges_of_the_day():
    score = VisitorScore("suspect", 1.5, 10.0, 1, 7, 1, (("a", 3),))
    assert updated_score(score, update(20.0, cleared=True)) == VisitorScore("person", 0.0, 20.0, 1, 0, 1, ())


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("person", "suspect", "suspect"),
        ("person", "width-first", "width-first"),
        ("suspect", "depth-first", "depth-first"),
        ("depth-first", "suspect", "depth-first"),
        ("depth-first", "width-first", "width-first"),
        ("depth-first", "", "depth-first"),
        ("suspect", "person", "person"),
    ],
)
def test_a_known_crawler_does_not_become_a_mere_suspect(before, change, after):
    score = VisitorScore(before, 1.0, 10.0, 1)
    assert updated_score(score, update(11.0, identity=change)).identity == after


def test_a_suspect_has_its_challenge_counted_once():
    score = updated_score(None, update(0.0, identity="suspect", challenged=True, weight=1.0))
    assert updated_score(score, update(1.0, identity="suspect", challenged=True)).challenges == 1


def test_eight_reasons_are_kept_those_seen_last():
    score = None
    for n in range(12):
        score = updated_score(score, update(float(n), weight=0.1, codes=(f"code-{n}",)))
    score = updated_score(score, update(12.0, weight=0.1, codes=("code-4", "code-11", "code-11")))
    assert [code for code, _ in score.reasons] == [f"code-{n}" for n in (5, 6, 7, 8, 9, 10, 4, 11)]
    assert dict(score.reasons)["code-11"] == 3


def test_reasons_are_explained_the_most_frequent_first():
    assert explained(VisitorScore(reasons=(("unmarked", 1), ("tampered", 7)))) == (
        "Suspected for tampered (7 times), unmarked."
    )
    assert explained(VisitorScore()) == "Suspected."


def test_a_pace_that_nobody_keeps_is_not_taken_for_tabs_that_were_open_when_a_challenge_was_solved():
    cleared = updated_score(VisitorScore("suspect", 1.5, 0.0, 0, 0, 1), ScoreUpdate("k", 10.0, 0, 3600.0, cleared=True))
    for code, identity in (("path-breadth-first", "person"), ("path-hurried", "suspect")):
        flagged = ScoreUpdate("k", 11.0, 0, 3600.0, 1.5, (code,), identity="suspect", challenged=True)
        assert updated_score(cleared, flagged).identity == identity

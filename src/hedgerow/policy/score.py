"""How a visitor's score changes: weights add up and fade, counts start again each day."""

from __future__ import annotations

from hedgerow.core.decision import HURRIED, JUDGED_PERSON, Identity, ScoreUpdate, VisitorScore
from hedgerow.core.state import ACCOUNT, CLEARANCE

_UNKNOWN = VisitorScore()
_MOST_REASONS = 8
_LEAST = 1e-6
_FRESH = 2.0
"""Seconds after a solved challenge in which no new one begins."""
_FRESH_CHALLENGES = 2
"""How many challenges of a day this holds for: nobody opens that many tabs again and again."""
_CLOCK_AHEAD = 86_400.0
"""A score from so many seconds after the visit was written by a clock that was ahead. Visits are never so late."""
_NIGHT = 21_600.0
"""Seconds without any change of its score after which the challenges of yesterday no longer count for a visitor."""
_CAPTCHA_PRICE = 5
"""The challenge of a day from which on none is a calculation."""
_ONE_BROWSER = (CLEARANCE, ACCOUNT)


def score_at(score: VisitorScore | None, at: float, half_life: float) -> float:
    """
    Return what is left of a score at *at*.

    >>> score_at(VisitorScore(total=0.8, at=0.0), 7200.0, 3600.0)
    0.2
    """
    if score is None or not score.total or score.at - at > _CLOCK_AHEAD:
        return 0.0
    left = score.total * 0.5 ** (max(0.0, at - score.at) / half_life)
    return left if left > _LEAST else 0.0


def counted_day(score: VisitorScore | None, key: str, at: float, day: int) -> int:
    """
    Return the day for which the visitor *key* is counted at *at*, which is on *day*.

    Midnight is no reason to begin anew for a visitor that was challenged a moment ago: its day ends when its score has
    not changed for six hours, and at the next midnight at the latest. It begins anew if it has answered an image or a
    recording, which most programs cannot. An address may be that of many people, of whom somebody is always awake, so
    its day ends at midnight.

    >>> score = VisitorScore(at=86_000.0, day=0, challenges=2)
    >>> [counted_day(score, "clearance:1", at, 1) for at in (86_500.0, 107_000.0, 108_000.0)]
    [0, 0, 1]
    >>> counted_day(score, "192.0.2.1", 86_500.0, 1), counted_day(score, "clearance:1", 86_500.0, 2)
    (1, 2)
    """
    if score is None or not score.challenges or score.day != day - 1 or not key.startswith(_ONE_BROWSER):
        return day
    # Reasons are forgotten with an answer. Those of a suspicion that has faded are not.
    has_answered = score.challenges >= _CAPTCHA_PRICE and score.identity == "person" and not score.reasons
    return day if has_answered or at - score.at >= _NIGHT else score.day


def suspicious_visits_on(score: VisitorScore | None, day: int) -> int:
    return score.suspicious_visits if score is not None and score.day == day else 0


def challenges_on(score: VisitorScore | None, day: int) -> int:
    return score.challenges if score is not None and score.day == day else 0


def updated_score(score: VisitorScore | None, change: ScoreUpdate) -> VisitorScore:
    """Return the score after *change*. A late change, of a visit before the last one, counts as if it were the last."""
    # A score from a clock that was ahead would not fade until the clock gets there.
    before = score if score is not None and score.at - change.at <= _CLOCK_AHEAD else _UNKNOWN
    if _is_cleared_just_now(before, change):
        return before
    at = max(before.at, change.at)
    day = max(before.day, counted_day(before, change.key, change.at, change.day))
    # A suspect already has its challenge counted.
    challenges = challenges_on(before, day) + (change.challenged and before.identity == "person")
    if change.cleared:
        return VisitorScore("person", 0.0, at, day, 0, challenges, ())
    left = score_at(before, at, change.half_life)
    # What makes a suspect of a visitor makes no more of one: it may be about to solve its challenge.
    is_suspect_again = change.identity not in {"", "person"} and before.identity != "person"
    return VisitorScore(
        _named(before.identity, change.identity) if change.identity else before.identity,
        max(left, change.weight) if is_suspect_again else left + change.weight,
        at,
        day,
        suspicious_visits_on(before, day) + change.suspicious,
        challenges,
        _with_codes(before.reasons, change.codes) if change.codes else before.reasons,
    )


def _is_cleared_just_now(before: VisitorScore, change: ScoreUpdate) -> bool:
    """Tell whether the visitor was judged for what it did before it solved a challenge: many tabs open at once."""
    if HURRIED in change.codes:
        # More than are opened at once.
        return False
    is_early = 0 < before.challenges <= _FRESH_CHALLENGES
    is_fresh = is_early and not before.total and not before.reasons and before.identity == "person"
    return is_fresh and change.challenged and change.identity != "" and change.at - before.at < _FRESH


def _named(before: Identity, after: Identity) -> Identity:
    """Return the new identity: a crawler whose order is known does not become a mere suspect again."""
    return before if after == "suspect" and before != "person" else after


def _with_codes(reasons: tuple[tuple[str, int], ...], codes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Add *codes* to the reasons; of too many, the one not seen for the longest time is dropped."""
    if len(codes) == 1 and reasons and reasons[-1][0] == codes[0]:
        return (*reasons[:-1], (codes[0], reasons[-1][1] + 1))
    counted = dict(reasons)
    for code in codes:
        counted[code] = counted.pop(code, 0) + 1
    return tuple(counted.items())[-_MOST_REASONS:]


def explained(score: VisitorScore) -> str:
    """
    Return the reasons of a score in a sentence.

    >>> explained(VisitorScore(reasons=(("unmarked", 1), ("tampered", 7))))
    'Suspected for tampered (7 times), unmarked.'
    """
    against = [reason for reason in score.reasons if reason[0] != JUDGED_PERSON]
    if not against:
        return "Judged a person by its path." if score.reasons and score.identity == "person" else "Suspected."
    ranked = sorted(against, key=lambda reason: -reason[1])
    return "Suspected for " + ", ".join(f"{code} ({n} times)" if n > 1 else code for code, n in ranked) + "."

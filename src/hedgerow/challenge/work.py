"""
Proof of work, with `altcha`: the browser looks for the number behind a derived key, by trying.

The number lies between 0 and the difficulty, so the work has an end that everybody can reach in time; drawing until a
prefix happens to fit would take some people five times as long as others. The server makes one derivation to ask, and
none to check: it has signed the key that is to be found.
"""

from __future__ import annotations

import math
import secrets

import altcha
import msgspec

ALGORITHM = "PBKDF2/SHA-256"
_COST = 100
"""Rounds of one derivation: so many that a browser spends most of its time in them, so few that asking is cheap."""
_GROWTH = 4.0
_STEEPEST = 20.0
_LONGEST = 4_096


def difficulty_of(suspicion: float, easiest: int, hardest: int) -> int:
    """
    How many numbers there are to try: four times as many for each full weight of evidence.

    >>> difficulty_of(0.0, 5_000, 200_000), difficulty_of(1.0, 5_000, 200_000), difficulty_of(9.0, 5_000, 200_000)
    (5000, 20000, 200000)
    """
    if math.isnan(suspicion):
        return hardest
    steps = min(max(suspicion, 0.0), _STEEPEST)
    tries: float = easiest * _GROWTH**steps
    return max(1, min(hardest, round(tries)))


def ask(difficulty: int, secret: bytes) -> str:
    """The question as the widget takes it, JSON, signed under *secret*."""
    question = altcha.create_challenge(
        ALGORITHM,
        _COST,
        counter=secrets.randbelow(difficulty + 1),
        hmac_secret=secret,
        hmac_key_secret=_key_secret(secret),
    )
    return msgspec.json.encode(question.to_dict()).decode()


def is_solved(payload: str, secret: bytes) -> bool:
    """Whether *payload*, as the widget sends it, solves the question signed under *secret*."""
    if len(payload) > _LONGEST:
        return False
    return altcha.verify_solution(payload, secret, hmac_key_secret=_key_secret(secret)).verified


def _key_secret(secret: bytes) -> bytes:
    return b"key" + secret

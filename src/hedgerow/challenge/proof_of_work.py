"""
Proof of work: the browser searches the number from which a digest was made.

The number lies between 0 and the difficulty, so the work is bounded. Searching for a matching hash prefix instead would
take some people five times as long as others. The server makes one digest to issue a question. It checks the answer
like that of a CAPTCHA.

A calculation proves nothing: a program does it too, and faster. It is a price.
"""

from __future__ import annotations

import math
import secrets
from hashlib import sha256
from typing import NamedTuple

import msgspec

_SALT_BYTES = 16
_GROWTH = 4.0
_MAX_STEPS = 20.0


class Question(NamedTuple):
    """A question as JSON for the browser, and its answer."""

    text: str
    answer: str


def difficulty_of(suspicion: float, easiest: int, hardest: int) -> int:
    """
    Return how many numbers to try: four times as many for each 1.0 of evidence.

    >>> difficulty_of(0.0, 5_000, 200_000), difficulty_of(1.0, 5_000, 200_000), difficulty_of(9.0, 5_000, 200_000)
    (5000, 20000, 200000)
    """
    if math.isnan(suspicion):
        return hardest
    steps = min(max(suspicion, 0.0), _MAX_STEPS)
    tries: float = easiest * _GROWTH**steps
    return max(1, min(hardest, round(tries)))


def make_question(difficulty: int) -> Question:
    """
    Ask for a number up to *difficulty*: the one that SHA-256 turns into *digest*, written after *salt*.

    The salt is long and used once, so nobody can prepare digests.
    """
    salt, number = secrets.token_hex(_SALT_BYTES), secrets.randbelow(difficulty + 1)
    digest = sha256(f"{salt}{number}".encode()).hexdigest()
    text = msgspec.json.encode({"salt": salt, "digest": digest, "most": difficulty}).decode()
    return Question(text, str(number))

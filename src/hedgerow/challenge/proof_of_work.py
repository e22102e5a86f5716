"""
Proof of work in the format of `altcha`: the browser searches the number from which a key was derived.

The number lies between 0 and the difficulty, so the work is bounded. Searching for a matching hash prefix instead would
take some people five times as long as others. The server derives one key to issue a question and none to check it,
because it signs the key.

The questions are written here, because serialising JSON in `altcha` takes as long as the derivation. `altcha` checks
the answers, and with them the questions.
"""

from __future__ import annotations

import hmac
import math
import secrets
from hashlib import pbkdf2_hmac
from os import urandom

import altcha

ALGORITHM = "PBKDF2/SHA-256"
_DERIVATION_ROUNDS = 100
"""Enough that a browser spends most of its time deriving keys, few enough that issuing a question is cheap."""
_KEY_BYTES = 32
_REVEALED_BYTES = 16
"""The part of the key that the question contains: long enough that only one number leads to it."""
_RANDOM_BYTES = 16
# Sorted by name and without spaces, as they are signed.
_PARAMETERS = (
    f'{{"algorithm":"{ALGORITHM}","cost":{_DERIVATION_ROUNDS},"keyLength":{_KEY_BYTES},"keyPrefix":"%s","keySignature":"%s",'
    '"nonce":"%s","salt":"%s"}'
)
_GROWTH = 4.0
_MAX_STEPS = 20.0
_MAX_PAYLOAD_LENGTH = 4_096


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


def make_question(difficulty: int, secret: bytes) -> str:
    """Return the question as JSON for the widget, signed with *secret*."""
    nonce, salt = urandom(_RANDOM_BYTES), urandom(_RANDOM_BYTES)
    number = secrets.randbelow(difficulty + 1)
    key = pbkdf2_hmac("sha256", nonce + number.to_bytes(4), salt, _DERIVATION_ROUNDS, _KEY_BYTES)
    key_signature = hmac.digest(_key_secret(secret), key, "sha256")
    parameters = _PARAMETERS % (key[:_REVEALED_BYTES].hex(), key_signature.hex(), nonce.hex(), salt.hex())
    signature = hmac.digest(secret, parameters.encode(), "sha256")
    return f'{{"parameters":{parameters},"signature":"{signature.hex()}"}}'


def is_solved(payload: str, secret: bytes) -> bool:
    """Return whether *payload*, as sent by the widget, solves the question signed with *secret*."""
    if len(payload) > _MAX_PAYLOAD_LENGTH:
        return False
    return altcha.verify_solution(payload, secret, hmac_key_secret=_key_secret(secret)).verified


def _key_secret(secret: bytes) -> bytes:
    return b"key" + secret

"""
Proof of work, with `altcha`: the browser looks for the number behind a derived key, by trying.

The number lies between 0 and the difficulty, so the work has an end that everybody can reach in time; drawing until a
prefix happens to fit would take some people five times as long as others. The server makes one derivation to ask, and
none to check: it has signed the key that is to be found.

Its questions are written here and not by `altcha`, whose way of writing JSON as JavaScript would takes as long as the
derivation; `altcha` checks the answers, and with them what was written.
"""

from __future__ import annotations

import hmac
import math
import secrets
from hashlib import pbkdf2_hmac
from os import urandom

import altcha

ALGORITHM = "PBKDF2/SHA-256"
_COST = 100
"""Rounds of one derivation: so many that a browser spends most of its time in them, so few that asking is cheap."""
_KEY_BYTES = 32
_KNOWN_BYTES = 16
"""So much of the key is told: who finds a number behind it has found the number."""
_RANDOM_BYTES = 16
# In the order of their names and without spaces: so they are signed.
_PARAMETERS = (
    f'{{"algorithm":"{ALGORITHM}","cost":{_COST},"keyLength":{_KEY_BYTES},"keyPrefix":"%s","keySignature":"%s",'
    '"nonce":"%s","salt":"%s"}'
)
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
    nonce, salt = urandom(_RANDOM_BYTES), urandom(_RANDOM_BYTES)
    number = secrets.randbelow(difficulty + 1)
    key = pbkdf2_hmac("sha256", nonce + number.to_bytes(4), salt, _COST, _KEY_BYTES)
    key_signature = hmac.digest(_key_secret(secret), key, "sha256")
    parameters = _PARAMETERS % (key[:_KNOWN_BYTES].hex(), key_signature.hex(), nonce.hex(), salt.hex())
    signature = hmac.digest(secret, parameters.encode(), "sha256")
    return f'{{"parameters":{parameters},"signature":"{signature.hex()}"}}'


def is_solved(payload: str, secret: bytes) -> bool:
    """Whether *payload*, as the widget sends it, solves the question signed under *secret*."""
    if len(payload) > _LONGEST:
        return False
    return altcha.verify_solution(payload, secret, hmac_key_secret=_key_secret(secret)).verified


def _key_secret(secret: bytes) -> bytes:
    return b"key" + secret

"""Challenges without HTTP: visits, CAPTCHAs with known answers, and a solver."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from html import unescape
from typing import Any

from driving import KEY, START
from hedgerow.challenge.captcha import Captcha
from hedgerow.challenge.protocol import Challenges, Issued
from hedgerow.core.visit import Visit
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.state.used_challenges import MemoryUsedChallenges

ANSWER = "KARL79"
SEALS = TokenCodecs([Key(1, KEY, 0.0)])


def visit(target: str = "/docs/?page=2", *, at: float = START, address: str = "192.0.2.1", **more: Any) -> Visit:
    more = {"method": "GET", "host": "example.org", "visitor": address, "prefix": address, **more}
    return Visit(at=at, address=address, target=target, **more)


def challenges(used: Any = None, *, tokens: TokenCodecs = SEALS, **more: Any) -> Challenges:
    def puzzles(kind: str) -> Captcha:
        return Captcha(ANSWER, "image/png" if kind == "image" else "audio/wav", b"content")

    more = {"easiest": 50, "hardest": 100, **more}
    return Challenges(
        tokens,
        MemoryUsedChallenges() if used is None else used,
        seconds=lambda kind: 60.0 if kind == "audio" else 30.0,
        puzzles=puzzles,
        **more,
    )


def solution(issued: Issued) -> str:
    """The answer that the script or a person would send."""
    if issued.kind != "work":
        return ANSWER
    return solve(issued.question)


def solve(question: str) -> str:
    """The number that a question, or a task with one, asks for."""
    asked = json.loads(question)
    asked = asked.get("question", asked)
    for number in range(asked["most"] + 1):
        if sha256(f"{asked['salt']}{number}".encode()).hexdigest() == asked["digest"]:
            return str(number)
    raise AssertionError("no number fits")


def hidden(body: bytes) -> dict[str, str]:
    """The hidden fields of a challenge's page."""
    found = re.findall(rb'<input type="hidden" name="(\w+)" value="([^"]*)">', body)
    return {name.decode(): unescape(value.decode()) for name, value in found}


def answers_of(body: bytes) -> dict[str, str]:
    """The fields that the script of a challenge page sends after the calculation."""
    question = re.search(rb'data-question="([^"]*)"', body)
    assert question, "the page has no calculation"
    return {**hidden(body), "answer": solve(unescape(question[1].decode()))}

"""What challenges cost: to issue one, with its page; to check an answer; to make a puzzle in the background."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench.timing import measure
from challenge.solver import solve
from hedgerow.challenge.captcha import Captcha, make_audio, make_image
from hedgerow.challenge.clearance import Clearances
from hedgerow.challenge.protocol import Challenges, Issued, Solved
from hedgerow.core.visit import Visit
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.state.used_challenges import MemoryUsedChallenges, SqliteUsedChallenges
from hedgerow.web.challenge.pages import ClientPreferences
from hedgerow.web.challenge.question_page import QuestionOptions, question

ISSUE, CHECK, PUZZLE = 0.2e-3, 0.5e-3, 20e-3
SEALS = TokenCodecs([Key(1, bytes(range(64)), 0.0)])
ANSWERS = {"work": 4_000, "image": 20_000}


def main() -> None:
    visit = Visit(1.8e9, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/docs/page.html?x=1", host="example.org")
    ready = make_image(), make_audio()

    def puzzles(kind: str) -> Captcha:
        return ready[kind == "audio"]

    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, MemoryUsedChallenges | SqliteUsedChallenges] = {
            "memory": MemoryUsedChallenges(),
            "SQLite": SqliteUsedChallenges(Path(folder) / "spent.sqlite"),
        }
        askers = {
            name: Challenges(SEALS, spent, seconds=lambda _: 30.0, puzzles=puzzles, easiest=20)
            for name, spent in stores.items()
        }
        asker = askers["memory"]
        ticket = asker.ticket(visit, 0.5)
        preferences = ClientPreferences("de", "/.hedgerow/", "example.org", "", "AB12-CD34", "suspect")
        options = QuestionOptions(("work", "image", "audio"))

        def page(kind: str) -> None:
            issued = asker.issue(visit, asker.ticket(visit, 0.5), kind)
            question(issued, issued.ticket, preferences, options)

        issue = measure(
            {
                "issue a calculation": lambda: asker.issue(visit, ticket, "work"),
                "issue an image from the pool": lambda: asker.issue(visit, ticket, "image"),
                "issue a calculation, with its page": lambda: page("work"),
                "issue an image, with its page": lambda: page("image"),
            }
        )
        check = {}
        for name, one in askers.items():
            check |= measure_checks(one, visit, ticket, "work", f"check a calculation, spent in {name}")
            check |= measure_checks(one, visit, ticket, "image", f"check an image, spent in {name}")
        clearances = Clearances(SEALS)
        cookie = clearances.issue(visit, "work", visit.at)[0]
        rest = measure({"check a clearance": lambda: clearances.check(cookie, visit, visit.at)})
        made = measure({"make an image": make_image, "make a recording": make_audio}, seconds=0.1)
        for spent in stores.values():
            spent.close()
    for found, goal in ((issue, ISSUE), (check, CHECK), (rest, CHECK), (made, PUZZLE)):
        for name, seconds in found.items():
            verdict = "" if seconds <= goal else "MISSED"
            print(f"{name:48} {seconds * 1e6:10.1f} µs   goal: at most {goal * 1e6:.0f} {verdict}")
    sizes = {}
    for kind in ("work", "image", "audio"):
        issued = asker.issue(visit, ticket, kind)
        sizes[kind] = len(question(issued, issued.ticket, preferences, QuestionOptions(())).body)
    print("bytes of a page: " + ", ".join(f"{kind} {size:,}" for kind, size in sizes.items()))


def measure_checks(asker: Challenges, visit: Visit, ticket, kind: str, name: str) -> dict[str, float]:
    """Each answer counts once, so there must be as many as there will be calls."""
    waiting = iter([(issued, solution(issued)) for issued in issued_many(asker, visit, ticket, kind)])

    def check() -> None:
        issued, answer = next(waiting)
        assert isinstance(asker.check(issued.ticket, issued.challenge, answer, visit), Solved)

    return measure({name: check}, seconds=0.01)


def issued_many(asker: Challenges, visit: Visit, ticket, kind: str) -> list[Issued]:
    return [asker.issue(visit, ticket, kind) for _ in range(ANSWERS[kind])]


def solution(issued: Issued) -> str:
    if issued.puzzle is not None:
        return issued.puzzle.answer
    return solve(issued.question)

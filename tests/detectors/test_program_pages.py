"""The first page of a program, and what follows if it goes on from page to page."""

from __future__ import annotations

import msgspec

from hedgerow.core.decision import VisitorScore
from hedgerow.core.state import StateReply
from hedgerow.core.visit import BY_PROGRAM, Marker, Visit
from hedgerow.detectors.program_pages import DETECTOR, detect_program_pages
from hedgerow.request.program_history import first_entry, folder_entry, followed_entry, page_entry

VISIT = Visit(
    1000.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/", host="a.example", anomalies=("program", BY_PROGRAM)
)
FIRST = first_entry(VISIT, [b"/a", b"/b", b"/c"])


AGAIN = ("program-again", 0.0, "")


def found(*entries: str, score: VisitorScore | None = None, **fields) -> list[tuple[str, float, str]]:
    visit = msgspec.structs.replace(VISIT, **{"at": 1001.0, **fields})
    evidence = detect_program_pages(visit, StateReply(None, (), score=score, entries=entries))
    return [(one.code, one.weight, one.details) for one in evidence]


def test_browsers_and_files_of_programs_are_not_looked_at():
    assert DETECTOR.only == "program"
    assert found(FIRST, target="/x", kind="asset") == found(FIRST, target="/x", kind="call") == []
    assert found(first_entry(VISIT, [b"/a.png"]), target="/a.png") == []


def test_the_first_page_and_the_same_page_again():
    assert found(target="/") == [("program-page", 0.0, "")]
    assert found(FIRST, target="/") == found(FIRST, "/x 1000", target="/") == [AGAIN]


def test_another_page_is_one_too_many_but_weighs_nothing():
    assert found(FIRST, target="/x") == [("program-pages", 0.0, "/x 1001")]
    assert found(FIRST, "/x 1001", target="/x") == [("program-pages", 0.0, ""), AGAIN]
    assert found("/robots.txt 999", target="/x") == [("program-pages", 0.0, "/x 1001")]


def test_a_link_of_the_first_page_weighs_little_and_more_with_a_referrer():
    assert found(FIRST, target="/a") == [("program-follows", 0.1, "/a 1001 .")]
    assert found(FIRST, target="/a", referrer="http://a.example/", origin="same") == [
        ("program-follows", 0.5, "/a 1001 .")
    ]
    # A marked link says by itself where it comes from.
    marker = Marker("page", bytes(6), bytes(6), "/a")
    assert found(FIRST, target="/a", marker=marker) == [("program-pages", 0.0, "/a 1001")]


def test_a_link_is_followed_whatever_the_request_claims_to_be():
    assert found(FIRST, target="/a", kind="asset") == [("program-follows", 0.1, "/a 1001 .")]
    assert found(FIRST, target="/a", method="POST", kind="call") == [("program-follows", 0.1, "/a 1001 .")]
    assert found(FIRST, target="/x", method="POST", kind="call") == []


def test_haste_is_declined_and_then_blocked():
    followed = followed_entry(msgspec.structs.replace(VISIT, target="/a"))
    assert found(FIRST, followed, target="/b") == [("program-hasty", 1.0, "")]
    fading = VisitorScore(total=0.9, at=1000.0)
    assert found(FIRST, followed, target="/b", score=fading) == [("program-hasty", 1.0, "")]
    insists = VisitorScore(total=1.0, at=1000.0)
    assert found(FIRST, followed, target="/b", score=insists) == [("program-crawls", 1.0, "")]
    assert found(FIRST, followed, target="/b", at=1010.0) == [("program-follows", 0.1, "/b 1010 .")]


def test_a_monitor_that_comes_back_to_its_pages_follows_nothing():
    earlier = page_entry(msgspec.structs.replace(VISIT, at=-9000.0, target="/b"))
    followed = followed_entry(msgspec.structs.replace(VISIT, target="/a"))
    assert found(earlier, FIRST, followed, target="/b") == [("program-pages", 0.0, "/b 1001"), AGAIN]


def test_robots_txt():
    assert found(target="/robots.txt", kind="call") == [("program-robots", 0.0, "/robots.txt 1001")]
    assert found("/robots.txt 1000", target="/robots.txt", kind="call") == [("program-robots", 0.0, "")]
    assert found(FIRST, target="/robots.txt", kind="call") == [("program-robots-late", 0.0, "/robots.txt 1001")]
    assert found(FIRST, target="/robots.txt", kind="call", at=1010.0)[0][0] == "program-robots"


def test_files_of_a_list_are_files():
    folder = folder_entry(msgspec.structs.replace(VISIT, target="/files/"))
    assert found(FIRST, folder, target="/files/a.html") == [("program-file", 0.0, "")]
    assert found(folder, target="/a") == [("program-page", 0.0, "")]

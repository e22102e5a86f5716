"""What a program was given before, from the entries of its visitor."""

from __future__ import annotations

import msgspec
import pytest

from hedgerow.core.visit import Visit
from hedgerow.request.program_history import (
    MOST_LINKS,
    ProgramHistory,
    entry_target,
    first_entry,
    folder_entry,
    followed_entry,
    page_entry,
)

FIRST = Visit(1000.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/index.html", host="a.example")
LINKS = [f"/{number}.html".encode() for number in range(300)]


def at(target: str, seconds: float = 1001.0, **more) -> Visit:
    return msgspec.structs.replace(FIRST, at=seconds, target=target, **more)


def test_the_first_page_is_known_for_an_hour():
    entries = [first_entry(FIRST, LINKS)]
    assert entry_target(entries[0]) == "/index.html"
    assert ProgramHistory(entries, at("/index.html")).had_this
    assert not ProgramHistory(entries, at("/index.html")).had_others
    assert ProgramHistory(entries, at("/b.html", 4599.0)).had_others
    assert not ProgramHistory(entries, at("/b.html", 4600.0)).had_others
    # What a browser at the same address was given does not count.
    assert not ProgramHistory(["/c.html"], at("/b.html")).had_others


def test_all_links_are_known_and_few_others():
    entries = [first_entry(FIRST, LINKS)]
    assert all(ProgramHistory(entries, at(link.decode())).links_here == "/index.html" for link in LINKS)
    others = [ProgramHistory(entries, at(f"/other/{number}")).links_here for number in range(1000)]
    assert sum(map(bool, others)) < 60


def test_a_page_of_many_links_takes_little_room():
    many = [f"/{number}".encode() for number in range(100_000)]
    assert len(first_entry(FIRST, many)) < 2 * MOST_LINKS
    assert ProgramHistory([first_entry(FIRST, many)], at("/0")).links_here


def test_the_referrer_tells_as_well_where_the_program_comes_from():
    entries = [first_entry(FIRST, LINKS)]
    named = {"referrer": "http://a.example/index.html", "origin": "same"}
    assert ProgramHistory(entries, at("/unknown", **named)).links_here == "/index.html"
    assert not ProgramHistory(entries, at("/unknown", **{**named, "origin": "cross"})).links_here
    assert not ProgramHistory(entries, at("/unknown", referrer="http://a.example/b", origin="same")).links_here


def test_haste_is_the_second_link_within_ten_seconds():
    first = first_entry(FIRST, LINKS)
    assert not ProgramHistory([first], at("/1.html")).is_hasty
    entries = [first, followed_entry(at("/1.html", 1002.0))]
    assert ProgramHistory(entries, at("/2.html", 1011.0)).is_hasty
    assert not ProgramHistory(entries, at("/2.html", 1012.0)).is_hasty
    assert not ProgramHistory(entries, at("/1.html", 1003.0)).is_hasty
    # A page that no link led to is none.
    assert not ProgramHistory([first, page_entry(at("/x"))], at("/2.html")).is_hasty


def test_an_unchanged_page_is_remembered_anew_before_later_entries_push_it_out():
    first = first_entry(FIRST, LINKS)
    later = [page_entry(at(f"/{number}")) for number in range(6)]
    assert ProgramHistory([first, *later[:4]], at("/x")).fading_entry == ""
    assert ProgramHistory([first, *later[:5]], at("/x")).fading_entry == first
    assert ProgramHistory([first, *later, first], at("/x")).fading_entry == ""
    assert ProgramHistory([first, *later], at("/x", 4600.0)).fading_entry == ""


def test_it_began_just_now():
    assert ProgramHistory([first_entry(FIRST, LINKS)], at("/robots.txt", 1009.0)).began_just_now
    assert not ProgramHistory([first_entry(FIRST, LINKS)], at("/robots.txt", 1010.0)).began_just_now
    assert not ProgramHistory([page_entry(FIRST)], at("/robots.txt")).began_just_now


@pytest.mark.parametrize(
    ("target", "seconds", "expected"),
    [
        ("/files/a.html", 1001.0, True),
        ("/files/sub/b.html?x=/", 1001.0, True),
        ("/files/", 1001.0, True),
        ("/files", 1001.0, False),
        ("/other/?/files/", 1001.0, False),
        ("/files/a.html", 87_400.0, False),
    ],
)
def test_files_below_a_folder_that_was_listed(target, seconds, expected):
    entries = [folder_entry(at("/files/?C=N", 1000.0))]
    history = ProgramHistory(entries, at(target, seconds))
    assert history.is_listed_file is expected
    assert (history.had_this, history.had_others, history.links_here) == (False, False, "")

"""PathMarker's sessions and features, by hand."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import page_digest
from hedgerow.watch.sessions.path import (
    ALL_FEATURES,
    LONG,
    PATHMARKER_FEATURES,
    PathLengths,
    PathSession,
    path_sessions,
    step_of,
)


def test_features_of_sixty_four_visits_equal_those_computed_by_hand():
    """
    Like the paper's figure 3: the 64 visits #0 to #63 are one long session, #0 to #59, and four visits of the next.

    Short session A, #0 to #29: a chain, each page led to by the one before; gaps of 1 s and 3 s in turn (15 and 14).
    30 s of silence. B, #30 to #57: #30 is led to by #0, and leads to #31 to #57; gaps of 3 s (27).
    20 s of silence. C, #58 to #63, 1 s apart, led to by nothing: the long session's end cuts it after #59.
    """
    gaps = [1.0, 3.0] * 14 + [1.0] + [30.0] + [3.0] * 27 + [20.0] + [1.0] * 5
    parents = [None, *(f"/{n}" for n in range(29)), "/0", *["/30"] * 27, *[None] * 6]
    at = 1000.0
    session = PathSession()
    for number, (gap, parent) in enumerate(zip([0.0, *gaps], parents, strict=True)):
        at += gap
        session.add(at, f"/{number}", parent)
        if number == 59:
            assert session.full
            # Depth: #29 is 29 deep. Width: #30 leads to 27. Of A alone: depth 29, width 1, 30 visits.
            # Intervals of all: 59, their sum 15 + 42 + 30 + 81 + 20 + 1 = 189, of their squares
            # 15 + 126 + 900 + 243 + 400 + 1 = 1685. Of A: 29, 57 and 141.
            # Var / mean^2 = (squares / n) / (sum / n)^2 - 1 = squares * n / sum^2 - 1.
            assert session.features() == pytest.approx(
                (
                    29 / 60,
                    27 / 60,
                    1685 * 59 / 189**2 - 1,
                    29 / 30 - 29 / 60,
                    27 / 60 - 1 / 30,
                    141 * 29 / 57**2 - 1,
                )
            )
    assert session.size == 4
    assert session.features() == (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_gap_of_ten_seconds_begins_a_short_session():
    session = PathSession()
    for at in (0.0, 9.5, 19.5, 25.0, 30.0):
        session.add(at, "/", None)
    assert session.all_features()[ALL_FEATURES.index("longest")] == 3 / 5
    assert session.all_features()[ALL_FEATURES.index("pauses")] == 1 / 5


def test_depth_and_width_are_counted_afresh_in_the_short_session():
    """The parent was seen in the long session and not in the short one: in there, the page is an entry."""
    session = PathSession()
    session.add(0.0, "/", None)
    session.add(60.0, "/a", "/")
    session.add(61.0, "/a/1", "/a")
    session.add(62.0, "/a/2", "/a")
    depth, width, _, depth_difference, width_difference, _ = session.features()
    assert (depth, width) == (2 / 4, 2 / 4)
    assert depth_difference == pytest.approx(abs(2 / 4 - 1 / 3))
    assert width_difference == pytest.approx(abs(2 / 4 - 2 / 3))


def test_a_parent_that_is_visited_later_does_not_count():
    session = PathSession()
    session.add(0.0, "/a", "/")
    session.add(1.0, "/", None)
    assert session.features()[:2] == (0.0, 0.0)


def test_targets_and_digests_are_the_same_pages():
    first, second = PathSession(), PathSession()
    first.add(0.0, "/", None)
    first.add(1.0, "/a", "/")
    second.add(0.0, page_digest("/"), None)
    second.add(1.0, page_digest("/a"), page_digest("/"))
    assert first.to_bytes() == second.to_bytes()


steps = st.lists(
    st.tuples(st.floats(0, 50), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 25))), min_size=1, max_size=130
)


@given(steps, st.integers(0, 70_000))
def test_a_session_survives_serialisation(drawn, beside):
    """Saved and restored at any moment, a session goes on as if nothing had been."""
    plain, kept = PathSession(), PathSession()
    at = 1.7e9
    for gap, page, parent in drawn:
        at += gap
        restored = PathSession.from_bytes(kept.to_bytes())
        assert restored is not None
        kept = restored
        for session in (plain, kept):
            session.add(at, f"/{page}", None if parent is None else f"/{parent}")
            session.add_side_request()
    plain.side_requests = kept.side_requests = min(beside, 65_535)
    restored = PathSession.from_bytes(kept.to_bytes())
    assert restored is not None
    assert restored.all_features() == plain.all_features()
    assert len(kept.to_bytes()) <= 1024
    assert len(plain.all_features()) == len(ALL_FEATURES)
    assert plain.features() == plain.all_features()[: len(PATHMARKER_FEATURES)]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_crash_the_session_decoder(kept):
    restored = PathSession.from_bytes(kept)
    if restored is not None:
        restored.all_features()


def test_a_full_path_session_takes_less_than_a_kilobyte():
    session = PathSession()
    for number in range(LONG):
        session.add(number * 7.0, f"/{number}", f"/{number // 2}")
    parts = (session._digests, session._steps, session.latest)
    assert sys.getsizeof(session) + sum(sys.getsizeof(part) for part in parts) <= 1024


def visit(**more):
    return Visit(5.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/a?x=1", **more)


@pytest.mark.parametrize(
    ("more", "host", "parent"),
    [
        ({}, "", None),
        ({"marker": Marker("page", b"v", b"parent", "t")}, "", b"parent"),
        ({"referrer": "https://example.org/b?y=2#z", "host": "example.org"}, "", page_digest("/b?y=2")),
        ({"referrer": "https://Example.org", "host": "example.org"}, "", page_digest("/")),
        ({"referrer": "https://example.org/b"}, "example.org", page_digest("/b")),
        ({"referrer": "https://search.example/b", "host": "example.org"}, "", None),
        ({"referrer": "https://example.org/b"}, "", None),
        ({"referrer": "rubbish", "host": "example.org"}, "", None),
    ],
)
def test_the_parent_of_a_step_is_that_of_the_marker_or_the_referrer(more, host, parent):
    assert step_of(visit(**more), host) == (5.0, page_digest("/a?x=1"), parent, False)


def test_the_mark_says_that_a_step_goes_to_the_next_page():
    step = step_of(visit(marker=Marker("sequence", b"v", b"parent", "t")))
    assert step == (5.0, page_digest("/a?x=1"), b"parent", True)


def steps(size: int, gap: float, *, in_sequence: int) -> PathSession:
    session = PathSession()
    for number in range(size):
        session.add(number * gap, f"/{number}", f"/{number - 1}", 0 < number <= in_sequence)
    return session


@pytest.mark.parametrize(
    ("gap", "in_sequence", "reader"),
    [
        (1.0, 19, "turning"), (0.4, 16, "turning"), (0.3, 19, "hurried"), (1.0, 14, "brisk"), (3.9, 0, "brisk"),
        (4.0, 0, "unhurried"),
        (9.0, 19, "turning"),
    ],
)  # fmt: skip
def test_people_turn_pages_or_take_their_time(gap, in_sequence, reader):
    session = steps(20, gap, in_sequence=in_sequence)
    assert session.reader == reader
    restored = PathSession.from_bytes(session.to_bytes())
    assert restored is not None
    assert (restored.reader, restored.in_sequence) == (reader, in_sequence)


@pytest.mark.parametrize(("unmarked", "mostly"), [(20, True), (16, True), (15, False), (0, False)])
def test_new_pages_without_a_mark_are_counted(unmarked, mostly):
    session = PathSession()
    for number in range(20):
        session.add(number, f"/{number}", None, unmarked=number < unmarked)
    restored = PathSession.from_bytes(session.to_bytes())
    assert restored is not None
    assert (restored.unmarked, restored.is_mostly_unmarked) == (unmarked, mostly)
    restored.clear()
    assert (restored.unmarked, restored.is_mostly_unmarked) == (0, False)


def test_pages_that_are_loaded_again_without_their_mark_do_not_count():
    """The script takes marks out of the address bar, so a page that is reloaded, or gone back to, has none."""
    session = PathSession()
    for number in range(5):
        session.add(number, f"/{number}", None)
        for again in range(9):
            session.add(number + again / 10, f"/{number}", None, unmarked=True)
    assert session.unmarked == 0


def test_a_new_session_begins_without_the_steps_of_the_last():
    session = steps(60, 1.0, in_sequence=59)
    session.add(100.0, "/other", None)
    assert (session.in_sequence, session.reader) == (0, "")


@pytest.mark.parametrize("kind", ["asset", "call", "prefetch"])
def test_only_pages_are_steps(kind):
    assert step_of(visit(kind=kind)) is None


@pytest.mark.parametrize("kind", ["trap", "maze"])
def test_a_hidden_link_is_no_step(kind):
    """No model was trained on them: where only hidden links are observed, they would change every path."""
    assert step_of(visit(marker=Marker(kind, b"v", b"parent", ""))) is None


def test_sessions_of_other_lengths_have_other_ends_and_gaps():
    sessions = path_sessions(PathLengths(long=5, short_gap=2.0, judge_at=(5,)))
    assert sessions is path_sessions(PathLengths(long=5, short_gap=2.0, judge_at=(5,)))
    assert path_sessions(PathLengths()) is PathSession
    session, usual = sessions(), PathSession()
    for number in range(5):
        session.add(3.0 * number, f"/{number}", None)
        usual.add(3.0 * number, f"/{number}", None)
    pauses = ALL_FEATURES.index("pauses")
    assert (session.full, usual.full) == (True, False)
    assert (session.all_features()[pauses], usual.all_features()[pauses]) == (0.8, 0.0)
    session.add(20.0, "/6", None)
    assert session.size == 1
    assert sessions.from_bytes(usual.to_bytes()).full
    usual.add(20.0, "/6", None)
    assert sessions.from_bytes(usual.to_bytes()) is None, "longer than a session may be"


def test_pages_with_the_same_unvisited_parent_count_as_sideward():
    """In the middle of a breadth-first crawl the parents are out of sight, but each leads to several pages in a row."""
    all_features, random = PathSession(), PathSession()
    for number in range(12):
        all_features.add(float(number), f"/{number}", f"/old/{number // 4}")
        random.add(float(number), f"/{number}", f"/old/{number % 4}")
    place = ALL_FEATURES.index("sideward")
    assert all_features.all_features()[place] == 9 / 12
    assert random.all_features()[place] == 0.0
    assert (
        all_features.all_features()[ALL_FEATURES.index("strays")]
        == random.all_features()[ALL_FEATURES.index("strays")]
        == 1.0
    )


def test_an_unvisited_parent_survives_serialisation():
    session = PathSession()
    session.add(0.0, "/1", "/old")
    restored = PathSession.from_bytes(session.to_bytes())
    for each in (session, restored):
        each.add(1.0, "/2", "/old")
    assert session.all_features() == restored.all_features()
    assert session.all_features()[ALL_FEATURES.index("sideward")] == 0.5


def opened(*bursts: int, gap: float = 0.1, parent: str | None = "/", pause: float = 3.0, known: bool = False):
    """A list, and bursts of pages that it links to. With *known*, all bursts open the same pages."""
    session, at, number = PathSession(), 0.0, 0
    session.add(at, "/", None)
    for burst in bursts:
        at += pause
        for n in range(burst):
            session.add(at, f"/{n if known else number}", parent)
            at, number = at + gap, number + 1
    return session


@pytest.mark.parametrize(
    ("session", "reader"),
    [
        (opened(19), "hurried"),
        (opened(18), ""),
        (opened(59, gap=0.39), "hurried"),
        (opened(59, gap=0.5), "brisk"),
        (opened(15, 15, 15), ""),
        (opened(15, 15, pause=1.0), "hurried"),
        (opened(15, 30), "hurried"),
        (opened(59, parent=None), ""),
        (opened(15, 40, known=True, pause=1.0), "hurried"),
        (opened(15, 15, 15, known=True, pause=1.0), ""),
    ],
    ids=["19", "18", "0.39 s", "0.5 s", "tabs", "no pause", "many", "bookmarks", "half known", "known"],
)  # fmt: skip
def test_nobody_opens_twenty_pages_after_each_other_without_a_look(session, reader):
    assert session.reader == reader

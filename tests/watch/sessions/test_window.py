"""The window of 27 to 40 visits."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.visit import Marker, Visit
from hedgerow.watch.sessions.path import step_of
from hedgerow.watch.sessions.window import (
    MAX_WINDOW,
    MIN_WINDOW,
    WINDOW_FEATURES,
    Access,
    SessionWindow,
    WindowLengths,
    access_of,
    changes_trees,
    session_windows,
)

PAGE = Access(0.0, "192.0.2.1", b"s", b"/", None, "absent", b"", "absent", "browser")


def filled(*, gap: float = 10.0) -> SessionWindow:
    """27 visits to one page, *gap* seconds apart, the last one at 26 gaps."""
    window = SessionWindow()
    for number in range(MIN_WINDOW):
        window.add(PAGE._replace(at=number * gap))
    return window


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({"at": 265.0}, 28),  # all three
        ({"at": 275.0}, 28),  # same session, same trees; later than the mean
        ({"at": 265.0, "session": b"t"}, 28),  # soon, same trees
        ({"at": 265.0, "page": b"/new"}, 28),  # same session, soon; a tree more
        ({"at": 265.0, "page": b"/new", "referrer": b"/", "session": b"t"}, 28),  # soon; joins its tree
        ({"at": 275.0, "session": b"t"}, 27),  # same trees only
        ({"at": 270.0, "page": b"/new"}, 27),  # same session only: as late as the mean is not sooner
        ({"at": 265.0, "page": b"/new", "session": b"t"}, 27),  # soon only
        ({"at": 260.0 + 1800.0}, 27),  # the same name after half an hour is another session
    ],
)
def test_a_visit_extends_the_window_if_two_of_three_conditions_hold(changes, size):
    window = filled()
    window.add(PAGE._replace(**changes))
    assert window.size == size


def test_the_window_never_exceeds_forty_visits():
    window = filled()
    for number in range(100):
        window.add(PAGE._replace(at=260.0 + number * 0.001))
    assert window.size == MAX_WINDOW
    assert window.features()[WINDOW_FEATURES.index("gap_most")] == pytest.approx(0.001)


def test_a_slide_keeps_the_length_of_the_window():
    window = filled()
    for number in range(3):
        window.add(PAGE._replace(at=261.0 + number))
    for number in range(5):
        window.add(PAGE._replace(at=5000.0 * (number + 1), session=b"other", page=bytes([number])))
    assert window.size == 30


def test_window_features_equal_those_computed_by_hand():
    window = SessionWindow()
    window.add(PAGE)
    window.add(PAGE._replace(at=1.0, cookie=b"c", cookie_state="good", session=b"c", referred="own", agent="absent"))
    window.add(
        PAGE._replace(at=4.0, cookie=b"d", cookie_state="wrong", session=b"c", referred="foreign", agent="false")
    )
    window.add(
        PAGE._replace(
            at=10.0, address="192.0.2.2", cookie=b"c", cookie_state="good", session=b"c", referred="own", agent="true"
        )
    )
    # Gaps 1, 3, 6: mean 10/3, variance (1 + 9 + 36)/3 - 100/9 = 38/9.
    assert window.features() == pytest.approx(
        (4, 1 / 4, 1 / 4, 2 / 4, 2, 2, 1, 3, 6, 3, 38 / 9, 1 / 4, 1 / 4, 2 / 4, 1 / 4, 0, 1 / 4, 1 / 4)
    )


def trees(edges) -> int:
    """Counted the plain way: merge what is linked until nothing changes."""
    groups: list[set[bytes]] = []
    for edge in edges:
        here = {one for one in edge if one is not None}
        here.update(*(group for group in groups if group & here))
        groups = [group for group in groups if not group & here] + [here]
    return len(groups)


EDGES = st.tuples(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.sampled_from([None, b"a", b"b", b"c", b"f"]))


@given(st.lists(EDGES, max_size=8), EDGES)
def test_changes_trees_equals_a_count_of_connected_components(edges, edge):
    assert changes_trees(edges, *edge) == (trees([*edges, edge]) != trees(edges))


def visit(**more):
    return Visit(5.0, "192.0.2.1", more.pop("visitor", "192.0.2.1"), "192.0.2.1", "GET", "/a", **more)


def told(**more):
    asked = visit(**more)
    return access_of(asked, step_of(asked))


def test_session_cookie_and_referrer_of_a_visit():
    bare = told()
    assert (bare.cookie_state, bare.referred, bare.referrer, bare.agent) == ("absent", "absent", None, "absent")
    own = told(referrer="http://example.org/b", host="example.org", user_agent="Mozilla/5.0")
    assert (own.referred, own.agent) == ("own", "browser")
    assert own.referrer is not None
    assert told(referrer="http://example.net/", host="example.org").referred == "foreign"
    account = told(visitor="account:ann", account="ann")
    assert (account.cookie_state, account.cookie) == ("good", account.session)
    assert told(linked=(b"before",)).cookie_state == "good"
    assert told(anomalies=("wrong-cookie",)).cookie_state == "wrong"
    assert told(anomalies=("clearance-shared",)).cookie_state == "wrong"
    assert told(marker=Marker("page", b"v", b"parent", "")).referrer == b"parent"


def test_windows_of_other_lengths_are_due_at_other_visits():
    windows = session_windows(WindowLengths(5, 6))
    assert session_windows(WindowLengths()) is SessionWindow
    window = windows()
    for number in range(5):
        assert not window.is_due
        window.add(PAGE._replace(at=number * 10.0))
    assert window.is_due
    for number in range(5, 9):
        window.add(PAGE._replace(at=number * 10.0 - 1))
    assert window.size == 6
    assert windows.from_bytes(window.to_bytes()).size == 6
    assert windows.from_bytes(filled().to_bytes()) is None


@pytest.mark.parametrize(
    ("more", "agent"),
    [
        ({"proof": "verified"}, "true"),
        ({"bot": "x"}, "true"),
        ({"claim": "x", "proof": "false", "user_agent": "x"}, "false"),
        ({"claim": "x", "user_agent": "x"}, "unknown"),
        ({"anomalies": ("program",), "user_agent": "curl/8"}, "unknown"),
    ],
)
def test_the_declaration_of_a_user_agent(more, agent):
    assert told(**more).agent == agent


@given(st.lists(st.tuples(st.floats(0, 4000), st.integers(0, 5), st.integers(-1, 5)), max_size=120))
def test_the_window_has_the_length_that_the_rules_give(drawn):
    window, at = SessionWindow(), 0.0
    for number, (gap, page, parent) in enumerate(drawn, 1):
        at += gap
        window.add(PAGE._replace(at=at, page=bytes([page]), referrer=bytes([parent]) if parent >= 0 else None))
        assert min(number, MIN_WINDOW) <= window.size <= min(number, MAX_WINDOW)
        assert len(window.features()) == len(WINDOW_FEATURES)


ACCESSES = st.lists(
    st.builds(
        Access,
        st.floats(0, 4000),
        st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1"]),
        st.binary(min_size=1, max_size=6),
        st.sampled_from([b"/", b"/a", b"/b", b"/c/long/name"]),
        st.sampled_from([None, b"/", b"/a", b""]),
        st.sampled_from(["absent", "foreign", "own"]),
        st.sampled_from([b"", b"c", b"d"]),
        st.sampled_from(["absent", "wrong", "good"]),
        st.sampled_from(["absent", "unknown", "browser", "false", "true"]),
    ),
    max_size=120,
)


@given(ACCESSES)
def test_a_window_survives_serialisation(drawn):
    """Saved and restored at any moment, a window continues unchanged; clients in it stay."""
    plain, kept, at = SessionWindow(), SessionWindow(), 1.7e9
    for access in drawn:
        at += access.at
        restored = SessionWindow.from_bytes(kept.to_bytes())
        assert restored is not None
        kept = restored
        for window in (plain, kept):
            window.add(access._replace(at=at))
        assert kept.features() == plain.features()
        assert (kept.is_due, kept.latest) == (plain.is_due, plain.latest)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_crash_the_window_decoder(kept):
    restored = SessionWindow.from_bytes(kept)
    if restored is not None:
        restored.features()


def test_at_most_sixteen_clients_of_a_visitor_are_distinguished():
    window = SessionWindow()
    for number in range(60):
        window.add(PAGE._replace(at=number * 1.0, session=b"%d" % number))
    assert window.features()[WINDOW_FEATURES.index("sessions")] == 16


def test_a_classification_is_due_at_27_visits_and_after_27_others():
    window, due = SessionWindow(), []
    for number in range(100):
        window.add(PAGE._replace(at=number * 1.0))
        if window.is_due:
            due.append(number + 1)
            window.fresh = 0
    assert due == [27, 54, 81]


@pytest.mark.parametrize("clients", [1, 40])
def test_a_full_window_takes_at_most_700_bytes(clients):
    window = SessionWindow()
    for number in range(100):
        window.add(PAGE._replace(at=number * 7.0, page=b"%d" % number, session=b"%d" % (number % clients)))
    parts = (window._visits, window._clients, window.latest)
    assert sys.getsizeof(window) + sum(map(sys.getsizeof, parts)) <= (750 if clients == 1 else 900)

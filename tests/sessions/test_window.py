"""The window of 27 to 40 visits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.sessions.window import LEAST, MOST, NAMES, Access, Window, access_of, trees
from hedgerow.visit import Marker, Visit

PAGE = Access(0.0, "192.0.2.1", b"s", b"/", None, "absent", b"", "absent", "browser")


def filled(*, gap: float = 10.0) -> Window:
    """27 visits to one page, *gap* seconds apart, the last one at 26 gaps."""
    window = Window()
    for number in range(LEAST):
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
def test_two_of_three_make_it_longer(changes, size):
    window = filled()
    window.add(PAGE._replace(**changes))
    assert window.size == size


def test_never_longer_than_forty():
    window = filled()
    for number in range(100):
        window.add(PAGE._replace(at=260.0 + number * 0.001))
    assert window.size == MOST
    assert window.features()[NAMES.index("gap_most")] == pytest.approx(0.001)


def test_a_slide_keeps_the_length():
    window = filled()
    for number in range(3):
        window.add(PAGE._replace(at=261.0 + number))
    for number in range(5):
        window.add(PAGE._replace(at=5000.0 * (number + 1), session=b"other", page=bytes([number])))
    assert window.size == 30


def test_features_by_hand():
    window = Window()
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


def test_trees_may_merge():
    window = [PAGE._replace(page=b"a"), PAGE._replace(page=b"b")]
    assert trees(window) == 2
    assert trees([*window, PAGE._replace(page=b"b", referrer=b"a")]) == 1


def visit(**more):
    return Visit(5.0, "192.0.2.1", more.pop("visitor", "192.0.2.1"), "192.0.2.1", "GET", "/a", **more)


def test_what_a_visit_tells():
    bare = access_of(visit())
    assert (bare.cookie_state, bare.referred, bare.referrer, bare.agent) == ("absent", "absent", None, "absent")
    own = access_of(visit(referrer="http://example.org/b", host="example.org", user_agent="Mozilla/5.0"))
    assert (own.referred, own.agent) == ("own", "browser")
    assert own.referrer is not None
    assert access_of(visit(referrer="http://example.net/", host="example.org")).referred == "foreign"
    account = access_of(visit(visitor="account:ann", account="ann"))
    assert (account.cookie_state, account.cookie) == ("good", account.session)
    assert access_of(visit(linked=(b"before",))).cookie_state == "good"
    assert access_of(visit(marker=Marker("page", b"v", b"parent", ""))).referrer == b"parent"


@pytest.mark.parametrize(
    ("more", "agent"),
    [
        ({"proof": "verified"}, "true"),
        ({"bot": "x"}, "true"),
        ({"claim": "x", "proof": "false", "user_agent": "x"}, "false"),
        ({"claim": "x", "user_agent": "x"}, "unknown"),
        ({"signs": ("program",), "user_agent": "curl/8"}, "unknown"),
    ],
)
def test_what_an_agent_declares(more, agent):
    assert access_of(visit(**more)).agent == agent


@given(st.lists(st.tuples(st.floats(0, 4000), st.integers(0, 5), st.integers(-1, 5)), max_size=120))
def test_the_window_is_as_long_as_it_may_be(drawn):
    window, at = Window(), 0.0
    for number, (gap, page, parent) in enumerate(drawn, 1):
        at += gap
        window.add(PAGE._replace(at=at, page=bytes([page]), referrer=bytes([parent]) if parent >= 0 else None))
        assert min(number, LEAST) <= window.size <= min(number, MOST)
        assert len(window.features()) == len(NAMES)

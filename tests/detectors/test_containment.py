"""Containment: k1, k2, accounts, and only while the site is busy."""

from __future__ import annotations

import msgspec
import pytest

from driving import Application, Client
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.containment import ContainmentDetector, Rate
from hedgerow.lists.model import Listing, Lists

ME = "192.0.2.1"
VISIT = Visit(1_800_000_000.0, ME, ME, ME, "GET", "/")
CLEARED = msgspec.structs.replace(VISIT, visitor="clearance:abc")
ANN = msgspec.structs.replace(VISIT, visitor="account:ann", account="ann")


@pytest.mark.parametrize(
    ("visit", "today", "code"),
    [
        (VISIT, 20, None), (VISIT, 21, "k1"), (CLEARED, 21, None), (CLEARED, 1000, None), (CLEARED, 1001, "k2"),
        (ANN, 10_000, None), (msgspec.structs.replace(VISIT, kind="asset"), 21, None),
        (msgspec.structs.replace(VISIT, kind="call"), 21, "k1"),
    ],
)  # fmt: skip
def test_k1_and_k2(visit, today, code):
    found = ContainmentDetector(20, 1000)(visit, StateReply(None, (), today=today))
    assert [one.code for one in found] == ([code] if code else [])


@pytest.mark.parametrize("rate", [0.5, 5.0, 200.0])
def test_the_rate_is_that_of_steady_visits(rate):
    measured = Rate()
    seen = [measured.add(1e9 + n / rate) for n in range(int(200 * rate) + 50)]
    assert seen[-1] == pytest.approx(rate, rel=0.15, abs=0.05)
    assert measured.add(1e9 + 10_000) < 0.1


def test_only_while_the_site_is_busy():
    detector = ContainmentDetector(20, 1000, above_rate=50.0)
    memory = StateReply(None, (), today=21)
    assert detector(VISIT, memory) == ()
    for n in range(1000):
        found = detector(msgspec.structs.replace(VISIT, at=VISIT.at + n / 100), memory)
    assert [one.code for one in found] == ["k1"]
    assert detector(msgspec.structs.replace(VISIT, at=VISIT.at + 60), memory) == ()


def test_behind_k1_comes_a_challenge_and_nobody_is_blocked():
    client = Client(Application(), "[containment]\nenabled = true\nk1 = 3\n")
    for expected in ("pass", "pass", "pass", "challenge", "challenge"):
        client.clock.now += 100
        client.get("/")
        assert client.entries[-1].decision.action == expected
    client.clock.now += 86_400
    assert client.get("/").status == 200
    assert client.site.gate.blocked == 0


def test_a_white_source_that_passes_its_volume_is_unknown_again():
    lists = Lists([Listing("white", ME, reason="a friend")])
    client = Client(Application(), "[containment]\nenabled = true\nk1 = 3\nwhite_volume = 6\n", lists=lists)
    actions = []
    for _ in range(8):
        client.clock.now += 100
        client.get("/")
        actions.append(client.entries[-1].decision.action)
    assert actions == ["pass"] * 6 + ["challenge"] * 2

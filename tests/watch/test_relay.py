"""Visits on their way to a watch: none is lost while there is room, and whose were left out is told."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from hedgerow.core.decision import PASS, Decision, Evidence, ScoreUpdate
from hedgerow.core.visit import Marker, Visit
from hedgerow.watch.relay import Intake, Relay, decode, encode, pair, send_to


def visit(n: int, visitor: str = "192.0.2.1", **fields) -> Visit:
    return Visit(1_800_000_000.0 + n, visitor, visitor, visitor, "GET", f"/{n}", **fields)


def wait_until(met) -> None:
    end = time.monotonic() + 30
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_batch_is_the_same_on_the_other_side_but_for_what_is_done_already():
    marked = visit(1, marker=Marker("page", b"123456", b"abcdef", "/x"), linked=(b"123456",), anomalies=("a",))
    evidence = Evidence("integrity", "minted-for-another", 0.2, "A link of another.", details="00ff")
    change = ScoreUpdate("192.0.2.1", 1.0, 1, 60.0, weight=0.2)
    batch = decode(encode([(marked, Decision("pass", (evidence,), change=change))], ["somebody"]))
    assert batch.seen == ((marked, Decision("pass", (evidence,))),)
    assert batch.missed == ("somebody",)


def test_from_a_relay_to_the_intake_in_the_order_of_their_times():
    sending, listening = pair()
    seen: list[Visit] = []
    missed: list[str] = []
    with sending, listening:
        intake = Intake(listening, lambda one, _: seen.append(one), missed.append)
        with closing(intake):
            relays = [Relay(send_to(sending)) for _ in range(2)]
            for n in range(500):
                relays[n % 2].add(visit(n), PASS)
            for relay in relays:
                relay.close()
            wait_until(lambda: len(seen) == 500)
    assert sorted(one.at for one in seen) == [visit(n).at for n in range(500)]
    assert missed == []


def test_a_visit_too_large_for_the_way_is_left_out_and_told():
    sending, listening = pair()
    with sending, listening:
        deliver = send_to(sending)
        assert deliver([(visit(1), PASS), (visit(2, "large", user_agent="x" * 100_000), PASS), (visit(3), PASS)], ["a"])
        batches = [decode(listening.recv(1_000_000)) for _ in range(3)]
    assert [one.target for batch in batches for one, _ in batch.seen] == ["/1", "/3"]
    assert {name for batch in batches for name in batch.missed} == {"a", "large"}


def test_what_does_not_fit_is_counted_and_whose_it_was_is_told_later():
    there, told = threading.Event(), []

    def deliver(seen, missed) -> bool:
        if there.is_set():
            told.append((len(seen), set(missed)))
        return there.is_set()

    relay = Relay(deliver, queue=10)
    for n in range(30):
        relay.add(visit(n, f"192.0.2.{n}"), PASS)
    assert relay.left_out >= 20
    there.set()
    wait_until(lambda: sum(count for count, _ in told) + relay.left_out >= 30 and not relay.waiting)
    relay.close()
    assert len(set().union(*(missed for _, missed in told))) == relay.left_out

"""Containment: k1, k2, accounts, and only while the site is busy."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from driving import KEY, START, Application, Client, settings
from hedgerow.core.decision import Decision, VisitorScore
from hedgerow.core.gate import Gate, run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.containment import ContainmentDetector
from hedgerow.lists.model import Listing, Lists
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.state.lmdb.state import LmdbState
from hedgerow.state.memory.state import MemoryState
from hedgerow.watch.models.bundle import Judgement
from hedgerow.watch.models.panel import PanelRecord
from hedgerow.watch.watch import Watch
from hedgerow.web.gate import build_gate

ME = "192.0.2.1"
VISIT = Visit(1_800_000_000.0, ME, ME, ME, "GET", "/")
CLEARED = msgspec.structs.replace(VISIT, visitor="clearance:abc")
ANN = msgspec.structs.replace(VISIT, visitor="account:ann", account="ann")


@pytest.mark.parametrize(
    ("visit", "today", "code"),
    [
        (VISIT, 20, None), (VISIT, 21, "k1"), (VISIT, 500, "k1"), (CLEARED, 21, None), (CLEARED, 1000, None),
        (CLEARED, 1001, "k2"), (CLEARED, 1002, ""), (CLEARED, 2000, ""), (CLEARED, 2001, "k2"), (ANN, 10_000, None),
        (msgspec.structs.replace(VISIT, kind="asset"), 21, None),
        (msgspec.structs.replace(VISIT, kind="call"), 19, None),
        (msgspec.structs.replace(VISIT, kind="call"), 20, "k1"),
        (msgspec.structs.replace(CLEARED, kind="call"), 1001, None),
        (msgspec.structs.replace(VISIT, anomalies=("by-program",)), 21, None),
        (msgspec.structs.replace(VISIT, claim="Googlebot", proof="pending"), 21, None),
    ],
)  # fmt: skip
def test_k1_and_k2(visit, today, code):
    found = ContainmentDetector(20, 1000)(visit, StateReply(None, (), today=today))
    beyond = [] if visit.visitor != CLEARED.visitor or today <= 1000 or visit.kind == "call" else ["beyond-k2"]
    assert [one.code for one in found] == ([code] if code else []) + beyond


@pytest.mark.parametrize(
    ("visit", "today", "total", "codes"),
    [
        (CLEARED, 1000, 1.5, []), (CLEARED, 1002, 1.5, ["beyond-k2"]), (CLEARED, 1002, 0.0, ["beyond-k2"]),
        (msgspec.structs.replace(CLEARED, kind="call"), 1002, 1.5, ["beyond-k2"]), (VISIT, 15, 1.5, []),
        (msgspec.structs.replace(CLEARED, kind="call"), 1002, 0.0, []),
    ],
)  # fmt: skip
def test_pages_above_k2_are_named(visit, today, total, codes):
    score = VisitorScore(total=total)
    found = ContainmentDetector(20, 1000)(visit, StateReply(None, (), today=today, score=score))
    assert [(one.code, one.weight) for one in found] == [(code, 0.0) for code in codes]


LINK = Marker("page", b"123456", b"abcdef", "/")
FETCHED = msgspec.structs.replace(CLEARED, anomalies=("by-script",))


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"marker": LINK}, 300),
        ({"kind": "prefetch", "anomalies": ()}, 300),
        ({}, 1500),
        ({"marker": msgspec.structs.replace(LINK, kind="sequence")}, 1500),
        ({"marker": msgspec.structs.replace(LINK, kind="form"), "method": "POST"}, 1500),
        ({"marker": LINK, "method": "POST"}, 1500),
        ({"marker": LINK, "anomalies": ("elsewhere",)}, 1500),
        ({"kind": "prefetch", "anomalies": ("elsewhere",)}, 1500),
    ],
)
def test_what_is_loaded_in_advance_has_the_limit_of_a_reader(fields, limit):
    """What a script shows after a click, further parts of a list, forms, and what other sites load have not."""
    visit = msgspec.structs.replace(FETCHED, **fields)
    detector = ContainmentDetector(20, 300, hides_marks=True)
    assert detector(visit, StateReply(None, (), today=limit)) == ()
    assert [one.code for one in detector(visit, StateReply(None, (), today=limit + 1))] == ["k2-scripts"]


@pytest.mark.parametrize(("rate", "codes"), [(0.0, []), (49.9, []), (50.0, ["k1"]), (90.0, ["k1"])])
def test_only_while_the_site_is_busy(rate, codes):
    detector = ContainmentDetector(20, 1000, above_rate=50.0)
    found = detector(VISIT, StateReply(None, (), today=21, site_rate=rate))
    assert [one.code for one in found] == codes


BUSY = "[density]\nenabled = false\n[containment]\nenabled = true\nk1 = 3\nabove_rate = 30.0\n"


def gate_on(state, text: str = BUSY):
    return build_gate(settings(text), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger(), state=state)


def visit_at(n: int, rate: float) -> Visit:
    """The n-th visit of a site with ten visitors and *rate* visits a second."""
    address = f"192.0.2.{n % 10}"
    return Visit(1_800_000_000.0 + n / rate, address, address, address, "GET", "/", origin="none")


def decide_in_a_worker(path: Path, connection: Connection) -> None:
    """Decide on the visits that are sent, as one of several workers of a site does."""
    state = LmdbState(path, ())
    gate = gate_on(state)
    while (visit := connection.recv()) is not None:
        connection.send(run_now(gate.decide(visit)).action)
    state.close()


@pytest.mark.parametrize(("rate", "challenged"), [(50.0, 340), (20.0, 0)])
@pytest.mark.slow
def test_two_workers_count_the_rate_of_the_whole_site(tmp_path, rate, challenged):
    """Each of them has half of the visits, 25 or 10 a second: less than above_rate."""
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(2)]
    workers = [
        spawn.Process(target=decide_in_a_worker, args=(tmp_path / "state.lmdb", child), daemon=True)
        for _, child in pipes
    ]
    for worker in workers:
        worker.start()
    actions = []
    for n in range(1000):
        parent, _ = pipes[n % 2]
        parent.send(visit_at(n, rate))
        actions.append(parent.recv())
    for parent, _ in pipes:
        parent.send(None)
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert actions == ["pass"] * (1000 - challenged) + ["challenge"] * challenged


def test_the_rate_of_the_site_outlives_a_reload():
    state = MemoryState(())
    gate = gate_on(state)
    actions = [run_now(gate.decide(visit_at(n, 50.0))).action for n in range(1000)]
    assert actions[-1] == "challenge"
    again = gate_on(state)
    assert run_now(again.decide(visit_at(1000, 50.0))).action == "challenge"


def test_a_corrected_visit_counts_once_towards_the_rate():
    """A script asks for pages as if they were assets; each is decided on twice, at 20 visits a second."""
    gate = gate_on(MemoryState(()))
    for n in range(1000):
        visit = msgspec.structs.replace(visit_at(n, 20.0), kind="asset")
        run_now(gate.decide(visit))
        _, decision = run_now(gate.reclassify(visit, "page"))
        assert decision.action == "pass"


def test_behind_k1_comes_a_challenge_and_nobody_is_blocked():
    client = Client(Application(), "[containment]\nenabled = true\nk1 = 3\n")
    for expected in ("pass", "pass", "pass", "challenge", "challenge"):
        client.clock.now += 100
        client.get("/")
        assert client.entries[-1].decision.action == expected
    client.clock.now += 86_400
    assert client.get("/").status == 200
    assert client.site.app.gate.blocked == 0


def test_a_white_source_that_passes_its_volume_is_unknown_again():
    lists = Lists([Listing("white", ME, reason="a friend")])
    client = Client(Application(), "[containment]\nenabled = true\nk1 = 3\nwhite_volume = 6\n", lists=lists)
    actions = []
    for _ in range(8):
        client.clock.now += 100
        client.get("/")
        actions.append(client.entries[-1].decision.action)
    assert actions == ["pass"] * 6 + ["challenge"] * 2


@pytest.mark.parametrize(
    ("identity", "reasons", "code"),
    [
        ("person", (("judged-person", 5),), "k2-person"),
        ("person", (("unmarked", 1), ("judged-person", 1)), "k2-person"),
        ("person", (("judged-person", 4), ("path-random-like", 1)), "k2"),
        ("random-like", (("judged-person", 4),), "k2"),
        ("person", (), "k2"),
    ],
)
def test_above_k2_the_models_decide(identity, reasons, code):
    score = VisitorScore(identity, reasons=reasons)
    found, beyond = ContainmentDetector(20, 300)(CLEARED, StateReply(None, (), today=301, score=score))
    assert (found.code, beyond.code) == (code, "beyond-k2")


BUDGET_ALONE = "".join(f"[{table}]\nenabled = false\n" for table in ("density", "traps", "headers"))
BUDGET_ALONE += '[marker]\nmode = "off"\nrules = []\n[containment]\nenabled = true\nk2 = 100\n'


def gate_with_watch() -> tuple[Gate, list[str]]:
    """A gate with a watch whose models say what the list says."""
    says = ["person"]
    gate = gate_on(MemoryState(()), BUDGET_ALONE)

    class Judges:
        record = PanelRecord("paths", "none")

        def judge(self, *_):
            return Judgement(says[0], 0.0, "none-60")

    watch = Watch(gate.engine.policy, gate.state.update_score, paths=Judges())
    gate.on_decision = watch.see
    return gate, says


def read_pages(gate: Gate, pages: range) -> list[Decision]:
    found = []
    for n in pages:
        visit = msgspec.structs.replace(
            CLEARED, at=START + 10 * n, target=f"/{n}", origin="same", referrer=f"http://e.org/{n - 1}", host="e.org"
        )
        found.append(run_now(gate.decide(visit)))
        gate.record(visit, found[-1], 200)
    return found


def test_a_person_reads_a_thousand_pages_and_never_has_to_solve_anything():
    gate, _ = gate_with_watch()
    decisions = read_pages(gate, range(1000))
    assert {decision.action for decision in decisions} == {"pass"}
    assert not any(decision.owes for decision in decisions)
    assert [decision.code for decision in decisions].count("k2-person") == 9


def test_who_is_judged_a_crawler_pays_above_k2_too():
    gate, says = gate_with_watch()
    read_pages(gate, range(150))
    says[0] = "random-like"
    actions = [decision.action for decision in read_pages(gate, range(150, 260))]
    assert actions[:10] == ["pass"] * 10
    assert actions[40] == "challenge"
    assert actions[-1] == "refuse", "it goes on asking, and answers nothing"


def test_where_no_model_has_judged_it_is_earned_again():
    gate = gate_on(MemoryState(()), BUDGET_ALONE)
    decisions = read_pages(gate, range(102))
    assert [decision.owes for decision in decisions] == [False] * 100 + [True] * 2

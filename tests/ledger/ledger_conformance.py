"""
Conformance tests for ledgers, written and read. A ledger's test file subclasses them and opens the ledger:

    class TestSqliteLedger(LedgerConformance):
        def open(self, where, **options): ...
        def name(self, where): ...
        def shared(self, where): ...

*options* are `keep_days`, `queue` and `hide`.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from hedgerow.core.address import prefix_of
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import UNMARKED_SITE, Marker, Visit
from hedgerow.ledger.erasure import delete_visits
from hedgerow.ledger.pseudonyms import address_hider
from hedgerow.ledger.reader import open_ledger_reader
from hedgerow.logs.ledger_rows import LedgerFollower
from hedgerow.logs.reader import LogReader
from hedgerow.request.account import visitor_of
from property_tests import examples

from .visits import EACH, append

START = 1_800_000_000.0
PROCESSES = 8
# A live request is read as Latin-1: any byte, and nothing else.
_BYTES = st.text(st.characters(max_codepoint=255), max_size=40)
_MARKERS = st.builds(
    Marker,
    kind=st.sampled_from(["page", "form", "frame", "trap", "maze"]),
    issued_to=st.binary(min_size=6, max_size=6),
    parent=st.binary(min_size=6, max_size=6),
    target=_BYTES,
    generation=st.integers(0, 255),
)


@st.composite
def any_visit(draw: Any) -> Visit:
    address = draw(st.ip_addresses().map(str))
    account = draw(st.one_of(st.just(""), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)))
    return Visit(
        at=draw(st.floats(0, 4e9)),
        address=address,
        visitor=visitor_of(account, prefix_of(address)),
        prefix=prefix_of(address),
        method=draw(st.sampled_from(["GET", "POST", "X-ODD"])),
        target=draw(_BYTES),
        kind=draw(st.sampled_from(["page", "call", "asset", "prefetch"])),
        account=account,
        host=draw(_BYTES),
        user_agent=draw(_BYTES),
        referrer=draw(_BYTES),
        origin=draw(st.sampled_from(["same", "cross", "none", "unknown"])),
        prefetch=draw(st.booleans()),
        bot=draw(st.sampled_from(["", "search"])),
        marker=draw(st.one_of(st.none(), _MARKERS)),
        raw_target=draw(_BYTES),
        tampered=draw(st.booleans()),
        linked=tuple(draw(st.lists(st.binary(min_size=6, max_size=6), max_size=4))),
        claim=draw(st.sampled_from(["", "Googlebot", "ChatGPT agent"])),
        proof=draw(st.sampled_from(["", "pending", "unprovable", "false", "verified"])),
        anomalies=tuple(draw(st.lists(st.sampled_from(["no-agent", "browser-order", "robots"]), max_size=3))),
        fingerprint=draw(_BYTES),
    )


def visit(n: int = 0, **fields: Any) -> Visit:
    return msgspec.structs.replace(Visit(START + n, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", f"/{n}"), **fields)


class LedgerMachine(RuleBasedStateMachine):
    """A ledger that is written, closed, opened and read in any order, next to a plain list."""

    def __init__(self, suite: LedgerConformance, where: Any) -> None:
        super().__init__()
        self.suite, self.where = suite, where
        self.entries: list[Entry] = []
        self.ledger = suite.open(where, keep_days=1e6)

    @rule(
        minutes=st.integers(-3_000, 3_000), who=st.sampled_from(["192.0.2.1", "2001:db8::/64", "account:ann"]),
        kind=st.sampled_from(["page", "call", "asset"]), refused=st.booleans(),
    )  # fmt: skip
    def write(self, minutes: int, who: str, kind: Any, refused: bool) -> None:
        # No two at one time: nobody says in which order those are read.
        number = len(self.entries)
        seen = visit(number, at=START + 60 * minutes + number / 1_000, visitor=who, kind=kind)
        reference = f"{number:04X}-ABCD" if refused else ""
        self.entries.append(Entry(seen, Decision("refuse") if refused else PASS, 403 if refused else 200, reference))
        self.ledger.append(self.entries[-1])

    @rule()
    def read(self) -> None:
        self.ledger.close()
        assert self.ledger.lost == 0
        plain = [msgspec.structs.replace(entry.visit, status=entry.status) for entry in self.entries]
        assert self.suite.visits(self.where) == sorted(plain, key=lambda one: one.at)
        with closing(open_ledger_reader(self.suite.name(self.where))) as reading:
            for who in ("192.0.2.1", "2001:db8::/64", "account:ann"):
                pages = [one for one in plain if (one.visitor, one.kind, one.status) == (who, "page", 200)]
                assert reading.count_pages(who) == len(pages)
            for entry in self.entries:
                if entry.reference:
                    assert list(reading.find(entry.reference, ["target"])) == [entry.visit.target]
            if plain:
                assert reading.oldest() == min(one.at for one in plain)
        self.ledger = self.suite.open(self.where, keep_days=1e6)

    def teardown(self) -> None:
        self.ledger.close()


class LedgerConformance:
    def open(self, where: Any, **options: Any) -> Any:
        raise NotImplementedError

    def name(self, where: Any) -> str:
        raise NotImplementedError

    def visits(self, where: Any) -> list[Visit]:
        return list(LogReader([self.name(where)]))

    def shared(self, where: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How another process opens the same ledger: a function that can be pickled, and its arguments."""
        raise NotImplementedError

    @given(st.lists(any_visit(), max_size=8))
    @examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors])
    def test_visits_are_read_as_they_were_written(self, tmp_path_factory, written):
        where = tmp_path_factory.mktemp("ledger")
        ledger = self.open(where, keep_days=1e6)
        for one in written:
            ledger.append(Entry(one, PASS, 200))
        ledger.close()
        # In the order of their times: a ledger is written in the order of answers.
        ordered = sorted(written, key=lambda visit: visit.at)
        assert self.visits(where) == [msgspec.structs.replace(one, status=200) for one in ordered]
        assert ledger.lost == 0

    def test_a_ledger_agrees_with_a_plain_list(self, tmp_path_factory):
        run_state_machine_as_test(
            lambda: LedgerMachine(self, tmp_path_factory.mktemp("ledger")),
            settings=examples(5, stateful_step_count=12, deadline=None),
        )

    def test_a_ledger_can_be_followed_and_searched(self, tmp_path):
        ledger = self.open(tmp_path)
        for n in range(2_500):
            ledger.append(Entry(visit(n, kind="page"), PASS, 200, "ABCD-1234" if n == 1_700 else ""))
        ledger.append(Entry(visit(2_500, target="/a\0b", kind="asset"), PASS, 200))
        ledger.close()
        with closing(open_ledger_reader(self.name(tmp_path))) as reading:
            assert reading.find("ABCD-1234", ["target", "at"]) is not None
            assert list(reading.find("ABCD-1234", ["target", "at"])) == ["/1700", START + 1_700]
            assert reading.find("ABCD-9999", ["target"]) is None
            assert reading.count_pages("192.0.2.1") == 2_500
            assert reading.count_pages("192.0.2.2") == 0
            assert reading.oldest() == START
            along = LedgerFollower(reading, 0)
            found = [seen.target for _ in range(4) for seen, _ in along.read()]
            assert found == [*(f"/{n}" for n in range(2_500)), "/a\0b"]
            assert (along.behind, LedgerFollower(reading, None).read(), LedgerFollower(reading, 1_000_000).after) == (
                0,
                [],
                0,
            )

    def test_addresses_are_stored_as_the_operator_wants(self, tmp_path):
        hide = address_hider("hashed", "a secret text")
        one = Visit(START, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/a")
        refused = Decision("refuse", (Evidence("trap", "trap", 1.0, "Link of 192.0.2.1.", key="192.0.2.1"),))
        with closing(self.open(tmp_path, hide=hide)) as ledger:
            ledger.append(Entry(one, refused, 403, "AAAA-BBBB"))
        with closing(open_ledger_reader(self.name(tmp_path))) as reader:
            row = reader.find("AAAA-BBBB", ("visitor", "address", "evidence"))
            assert row[:2] == (hide("192.0.2.1"),) * 2 or list(row[:2]) == [hide("192.0.2.1")] * 2
            assert "192.0.2.1" not in row[2]
            assert len(reader.visits_of([hide("192.0.2.1")], ("at",))) == 1

    def test_the_visits_of_one_visitor_are_deleted(self, tmp_path):
        visitors = ["192.0.2.1", "192.0.2.2", "account:ann"]
        with closing(self.open(tmp_path)) as ledger:
            for number in range(9):
                who = visitors[number % 3]
                # The account is used at the address of the first visitor.
                address = "192.0.2.1" if who.startswith("account") else who
                ledger.append(Entry(Visit(START + number, who, address, address, "GET", "/a"), PASS, 200))
        assert delete_visits(self.name(tmp_path), ["192.0.2.2"]) == 3
        assert delete_visits(self.name(tmp_path), ["192.0.2.1"]) == 6
        assert delete_visits(self.name(tmp_path), ["192.0.2.1", "192.0.2.2"]) == 0
        # The gate goes on writing.
        with closing(self.open(tmp_path)) as ledger:
            ledger.append(Entry(Visit(START + 9, "192.0.2.2", "192.0.2.2", "192.0.2.2", "GET", "/a"), PASS, 200))
        with closing(open_ledger_reader(self.name(tmp_path))) as reader:
            assert [tuple(row) for row in reader.visits_of(visitors, ("visitor",))] == [("192.0.2.2",)]

    def test_what_was_only_observed_is_known_as_such(self, tmp_path):
        ledger = self.open(tmp_path)
        refused = Decision("refuse", (Evidence("trap", "trap", 1.0, "Why."),))
        modes = ("", "links", "neutral")
        for n, mode in enumerate(modes):
            ledger.append(Entry(visit(2 * n), msgspec.structs.replace(PASS, observed=mode), 200))
            ledger.append(Entry(visit(2 * n + 1), msgspec.structs.replace(refused, observed=mode), 200))
        ledger.close()
        with closing(open_ledger_reader(self.name(tmp_path))) as reading:
            seen = LedgerFollower(reading, 0).read()
            assert [(d.observed, d.action) for _, d in seen] == [(m, a) for m in modes for a in ("pass", "refuse")]
            assert [UNMARKED_SITE in v.anomalies for v, _ in seen] == [False] * 4 + [True] * 2
            # All but the one that was refused.
            assert reading.count_pages("192.0.2.1") == 5
            assert list(reading.find_stopped("192.0.2.1", ["at", "observed"])) == [START + 5, "neutral"]
            assert reading.find_stopped("192.0.2.2", ["at"]) is None

    def test_the_pages_of_each_visitor_on_a_day(self, tmp_path):
        suspect = Evidence("suspicion", "suspect", 1.0, "Suspected.")
        over = Evidence("containment", "k1", 1.0, "More than 20 pages.")
        where = tmp_path

        def page(at: float, visitor: str, **more: Any) -> Visit:
            return Visit(START + at, "192.0.2.1", visitor, "192.0.2.1", "GET", "/", **{"kind": "page", **more})

        with closing(self.open(where)) as ledger:
            for n in range(3):
                ledger.append(Entry(page(n, "clearance:a"), PASS, 200))
                ledger.append(Entry(page(n, "192.0.2.1"), Decision("challenge", (over,)), 403))
                ledger.append(Entry(page(n, "account:o"), Decision("challenge", (over,), observed="links"), 200))
            ledger.append(Entry(page(0, "clearance:b"), Decision("pass", (suspect,), owes=True), 200))
            ledger.append(Entry(page(0, "clearance:c"), Decision("refuse", (Evidence("trap", "trap", 1.0, "."),)), 403))
            ledger.append(Entry(page(0, "clearance:a", kind="asset"), PASS, 200))
            ledger.append(Entry(page(0, "clearance:a", bot="Googlebot"), PASS, 200))
            ledger.append(Entry(page(0, "clearance:a", anomalies=("by-program",)), PASS, 200))
            ledger.append(Entry(page(60, "clearance:a"), PASS, 200))
            listed = Decision("refuse", (Evidence("lists", "list-black", 1.0, "Listed."),))
            ann = page(0, "account:ann", account="ann", kind="page", bot="x")
            ledger.append(Entry(msgspec.structs.replace(ann, address="192.0.2.9"), listed, 403))
        with closing(open_ledger_reader(self.name(where))) as reader:
            found = reader.pages_of_visitors(START, START + 60)
            assert [tuple(row) for row in reader.listed_pages(START, START + 60)] == [
                ("192.0.2.9", "ann", "list-black", 1)
            ]
        assert sorted((one.visitor, one.address, one.pages, one.is_suspect) for one in found) == [
            ("192.0.2.1", "192.0.2.1", 0, False),
            ("account:o", "192.0.2.1", 3, False),
            ("clearance:a", "192.0.2.1", 3, False),
            ("clearance:b", "192.0.2.1", 1, True),
            ("clearance:c", "192.0.2.1", 0, True),
        ]

    def test_claims_of_bots_are_counted_and_reading_can_begin_later(self, tmp_path):
        def page(at: float, **more: Any) -> Visit:
            return Visit(START + at, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", f"/{at:g}", **more)

        with closing(self.open(tmp_path)) as ledger:
            for at in (0, 10, 20):
                ledger.append(Entry(page(at, claim="Googlebot", proof="false"), PASS, 200))
            ledger.append(Entry(page(20, bot="bingbot", claim="bingbot", proof="verified"), PASS, 200))
            ledger.append(Entry(page(30), PASS, 200))
        with closing(open_ledger_reader(self.name(tmp_path))) as reader:
            assert sorted(tuple(row) for row in reader.bot_claims(START + 10)) == [
                ("", "Googlebot", "false", 2),
                ("bingbot", "bingbot", "verified", 1),
            ]
            targets = [row[0] for batch in reader.by_time(["target"], START + 20) for row in batch]
            assert targets == ["/20", "/20", "/30"]

    def test_closing_writes_pending_entries(self, tmp_path):
        ledger = self.open(tmp_path)
        for n in range(2_500):
            ledger.append(Entry(visit(n), PASS, 200))
        ledger.close()
        ledger.close()
        assert [v.target for v in self.visits(tmp_path)] == [f"/{n}" for n in range(2_500)]

    def test_a_reopened_ledger_continues(self, tmp_path):
        for n in range(3):
            ledger = self.open(tmp_path)
            ledger.append(Entry(visit(n), PASS, 200))
            ledger.close()
        assert [v.target for v in self.visits(tmp_path)] == ["/0", "/1", "/2"]

    def test_entries_after_closing_are_lost_and_counted(self, tmp_path):
        ledger = self.open(tmp_path)
        ledger.close()
        ledger.append(Entry(visit(), PASS, 200))
        assert ledger.lost == 1
        assert self.visits(tmp_path) == []

    def test_entries_beyond_a_full_queue_are_lost_and_counted(self, tmp_path):
        ledger = self.open(tmp_path, queue=0)
        for n in range(10):
            ledger.append(Entry(visit(n), PASS, 200))
        assert ledger.lost == 10
        ledger.close()
        assert self.visits(tmp_path) == []

    def test_old_visits_are_deleted(self, tmp_path):
        ledger = self.open(tmp_path, keep_days=2.0)
        today = time.time() // 86_400 * 86_400
        times = [today - 86_400 * day for day in (4, 3, 2, 1, 0)]
        for at in times:
            ledger.append(Entry(visit(at - START), PASS, 200))
        ledger.close()
        assert [v.at for v in self.visits(tmp_path)] == times[2:]

    def test_visits_of_a_clock_that_is_ahead_delete_nothing(self, tmp_path):
        ledger = self.open(tmp_path, keep_days=2.0)
        now = time.time() // 1
        for at in (now - 3_600, now + 300 * 86_400):
            ledger.append(Entry(visit(at - START), PASS, 200))
        ledger.close()
        assert [v.at for v in self.visits(tmp_path)] == [now - 3_600, now + 300 * 86_400]

    def test_text_with_nul_and_surrogates_can_be_stored(self, tmp_path):
        """Half a surrogate pair is no text. It must not take the entries beside it along."""
        ledger = self.open(tmp_path)
        odd = "a\ud800b"
        evidence = Evidence("trap", "trap", 1.0, "Followed a link of the page /\xff\0.")
        ledger.append(Entry(visit(0), PASS, 200))
        fields = dict.fromkeys(["visitor", "account", "target", "host", "user_agent", "referrer", "method"], odd)
        ledger.append(Entry(visit(1, **fields), Decision("refuse", (evidence,)), 403, "ABCD-1234"))
        ledger.append(Entry(visit(2, target="/\0\xff\n"), PASS, 200))
        ledger.close()
        assert ledger.lost == 0
        assert [v.target for v in self.visits(tmp_path)] == ["/0", "a\\ud800b", "/\0\xff\n"]

    def test_many_threads_may_append(self, tmp_path):
        ledger = self.open(tmp_path)

        def append() -> None:
            for n in range(500):
                ledger.append(Entry(visit(n), PASS, 200))

        threads = [threading.Thread(target=append) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ledger.close()
        assert len(self.visits(tmp_path)) == 4_000
        assert ledger.lost == 0

    @pytest.mark.slow
    def test_many_processes_may_append(self, tmp_path):
        self.open(tmp_path).close()
        opened = self.shared(tmp_path)
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            lost = pool.starmap(append, [(opened, number) for number in range(PROCESSES)], 1)
        assert lost == [0] * PROCESSES
        found = sorted(one.target for one in self.visits(tmp_path))
        assert found == sorted(f"/{number}/{n}" for number in range(PROCESSES) for n in range(EACH))

"""The watch: what it tells the state, what it leaves out when it falls behind, and what outlives a restart."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest

from driving import START, Application, Client, settings
from hedgerow.cli.watch import follow_ledger
from hedgerow.core.decision import ISSUED_TO_ANOTHER, PASS, Decision, Evidence, ScoreUpdate
from hedgerow.core.visit import Marker, Visit
from hedgerow.errors import ModelError
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.state.sqlite.journal import SqliteJournal
from hedgerow.watch.models.bundle import Judgement, encoded, shipped
from hedgerow.watch.models.panel import PanelRecord
from hedgerow.watch.session_store import SqliteSessions
from hedgerow.watch.watch import Watch, WatchThread
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.gate import build_policy
from hedgerow.web.watch import build_panels, build_sessions, build_watch, configure_watch

ME = "192.0.2.1"
HOLDER = "clearance:abc"
BEYOND = Decision("pass", (Evidence("containment", "beyond-k2", 0.0, "More pages today than one clearance allows."),))
ALONE = "".join(f"[{table}]\nenabled = false\n" for table in ("density", "traps", "headers", "containment"))
ALONE += '[marker]\nmode = "off"\nrules = []\n'
"""Settings under which only the watch has anything to say."""


def step(n: int, visitor: str = ME, kind: str = "page", **more) -> Visit:
    """The n-th page, by a link of the page before it."""
    marker = Marker("page", visitor_digest(visitor), page_digest(f"/{n - 1}"), f"/{n}")
    return Visit(START + n, visitor, visitor, visitor, "GET", f"/{n}", kind=kind, marker=marker, **more)


class Says:
    """Stands for a panel that says what it is told to say."""

    def __init__(self, judge, kind: str = "paths") -> None:
        self.kind, self.says, self.record = kind, judge, PanelRecord(kind, "none")

    def judge(self, session, _visitor, _at):
        said = self.says(session)
        return said if isinstance(said, Judgement) else Judgement(said, 0.5, "says")

    def restore(self, _record) -> None: ...


def watch_with(judge, **options) -> tuple[Watch, list[ScoreUpdate]]:
    told: list[ScoreUpdate] = []
    return Watch(build_policy(settings()), told.append, paths=Says(judge), **options), told


def eventually(condition) -> bool:
    deadline = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(found)


def test_a_session_is_judged_at_growing_prefixes():
    asked = []
    watch, told = watch_with(lambda session: asked.append(session.size) or "depth-first", on_path="challenge")
    for n in range(130):
        watch.see(step(n, HOLDER), PASS)
        watch.see(step(n, HOLDER, kind="asset"), PASS)
    assert asked == [10, 20, 30, 40, 50, 60] * 2 + [10]
    assert [(change.key, change.identity, change.codes) for change in told] == [
        (HOLDER, "depth-first", ("path-depth-first",)),
        (HOLDER, "", ("path-brisk",)),
    ] * 13
    assert watch.found == {"depth-first": 13}


def test_without_a_clearance_one_judgement_is_not_enough():
    watch, told = watch_with(lambda _: "depth-first")
    for n in range(20):
        watch.see(step(n), PASS)
    assert [(change.identity, change.weight, change.codes) for change in told] == [("", 0.6, ("path-depth-first",))] * 2


def read_by(watch: Watch, visitor: str, gap: float, kind: str, decision: Decision = PASS) -> None:
    for n in range(20):
        marker = Marker(kind, visitor_digest(visitor), page_digest(f"/{n - 1}"), f"/{n}")
        watch.see(Visit(START + gap * n, visitor, visitor, ME, "GET", f"/{n}", marker=marker), decision)


@pytest.mark.parametrize(
    ("visitor", "gap", "kind", "code"),
    [
        (HOLDER, 1.0, "sequence", "path-turning"),
        (HOLDER, 5.0, "page", "path-unhurried"),
        ("account:ann", 1.0, "sequence", "path-turning"),
        (ME, 5.0, "sequence", "path-depth-first"),
    ],
)
def test_the_order_of_a_crawler_that_a_person_can_have_has_a_code_of_its_own(visitor, gap, kind, code):
    watch, told = watch_with(lambda _: "depth-first", on_path="challenge")
    read_by(watch, visitor, gap, kind)
    assert [change.codes for change in told] == [(code,)] * 2
    if not code.endswith("first"):
        assert {(change.identity, change.challenged, change.weight) for change in told} == {("", False, 1.5)}


@pytest.mark.parametrize(("judged", "identity"), [("person", "suspect"), ("depth-first", "depth-first")])
@pytest.mark.parametrize("kind", ["page", "sequence"])
def test_twenty_pages_faster_than_anybody_looks_at_them_are_no_tabs(judged, identity, kind):
    watch, told = watch_with(lambda session: judged if session.size > 10 else "person", on_path="challenge")
    read_by(watch, HOLDER, 0.1, kind)
    assert [(change.identity, change.challenged, change.codes) for change in told] == [
        (identity, True, ("path-hurried",))
    ]


@pytest.mark.parametrize(("visitor", "gap"), [(ME, 0.1), (HOLDER, 0.5)])
def test_an_address_may_be_many_people_and_half_a_second_is_enough_to_look(visitor, gap):
    watch, told = watch_with(lambda _: "person", on_path="challenge")
    read_by(watch, visitor, gap, "page")
    assert told == []


@pytest.mark.parametrize(("is_beyond", "expected"), [(False, ("", False)), (True, ("depth-first", True))])
@pytest.mark.parametrize(("gap", "kind"), [(1.0, "sequence"), (5.0, "page")])
def test_beyond_the_pages_of_one_clearance_no_order_is_excused(gap, kind, is_beyond, expected):
    watch, told = watch_with(lambda _: "depth-first", on_path="challenge")
    read_by(watch, HOLDER, gap, kind, BEYOND if is_beyond else PASS)
    assert [(change.identity, change.challenged) for change in told] == [expected] * 2


@pytest.mark.parametrize(
    ("visitor", "decision", "is_marked", "codes"),
    [
        (HOLDER, BEYOND, lambda _: True, [("path-without-links",)] * 2),
        (HOLDER, PASS, lambda _: True, []),
        (HOLDER, BEYOND, lambda target: len(target) < 3, []),
        (HOLDER, BEYOND, None, []),
    ],
)
@pytest.mark.parametrize("referrer", ["", "https://example.org/list"])
def test_beyond_the_pages_of_one_clearance_a_visitor_without_links_is_a_suspect(
    referrer, visitor, decision, is_marked, codes
):
    watch, told = watch_with(lambda _: "person", on_path="challenge", is_marked=is_marked)
    for n in range(20):
        visit = Visit(START + 9 * n, visitor, visitor, ME, "GET", f"/p{n}", referrer=referrer, host="example.org")
        watch.see(visit, decision)
    assert [change.codes for change in told] == codes


def test_links_excuse_a_visitor_beyond_the_pages_of_one_clearance():
    watch, told = watch_with(lambda _: "person", on_path="challenge", is_marked=lambda _: True)
    read_by(watch, HOLDER, 5.0, "page", BEYOND)
    assert told == []


def test_links_that_had_no_mark_for_a_while_are_nobody_s_fault():
    watch, told = watch_with(lambda _: "person", on_path="challenge", is_marked=lambda _: True)
    for n in range(20):
        visit = Visit(START + 9 * n, HOLDER, HOLDER, ME, "GET", f"/p{n}", anomalies=("unmarked-site",))
        watch.see(visit, BEYOND)
    assert told == []


def test_who_turns_pages_is_not_doubted():
    watch, told = watch_with(lambda _: Judgement("person", 0.9, "says", 1.0), on_path="challenge")
    read_by(watch, HOLDER, 1.0, "sequence")
    assert told == []


def test_the_order_of_a_reader_is_only_recorded_where_nothing_follows():
    watch, told = watch_with(lambda _: "depth-first", on_path="record")
    read_by(watch, HOLDER, 1.0, "sequence")
    assert [(change.codes, change.weight) for change in told] == [(("path-depth-first",), 0.0)] * 2


def test_judgements_below_the_threshold_add_to_the_score_the_nearer_the_more():
    """One alone makes nobody a suspect; four just below the threshold do."""
    nearness = iter((0.2, 0.5, 0.9, 1.0))
    watch, told = watch_with(lambda _: Judgement("person", 0.7, "says", next(nearness)), on_path="challenge")
    for n in range(40):
        watch.see(step(n, HOLDER), PASS)
    assert [change.codes for change in told] == [("path-doubtful",)] * 3, "nothing far below the threshold"
    assert [change.weight for change in told] == pytest.approx([0.075, 0.243, 0.3])
    assert {change.identity for change in told} == {""}
    watch, told = watch_with(lambda _: Judgement("person", 0.9, "says", 1.0), on_path="challenge")
    for n in range(40):
        watch.see(step(n), PASS)
    assert sum(change.weight for change in told[:3]) < 1 < sum(change.weight for change in told)


def test_programs_and_recorded_findings_get_nothing_added_below_the_threshold():
    for options, more in (({"on_path": "record"}, {}), ({}, {"anomalies": ("by-program",)})):
        watch, told = watch_with(lambda _: Judgement("person", 0.9, "says", 1.0), **options)
        for n in range(20):
            watch.see(step(n, **more), PASS)
        assert told == []


def test_what_is_only_recorded_changes_nobody_s_identity():
    watch, told = watch_with(lambda _: "random-like", on_path="record")
    for n in range(10):
        watch.see(step(n), PASS)
    (change,) = told
    assert (change.identity, change.weight, change.codes) == ("", 0.0, ("path-random-like",))


def test_people_are_not_spoken_of():
    watch, told = watch_with(lambda _: "person")
    for n in range(60):
        watch.see(step(n), PASS)
    assert (told, watch.found) == ([], {"person": 6})


def test_bots_and_visits_that_did_not_pass_are_no_part_of_a_path():
    watch, _ = watch_with(lambda _: "person")
    watch.see(step(1, bot="b"), PASS)
    watch.see(step(1, visitor=""), PASS)
    watch.see(step(1, tampered=True), PASS)
    watch.see(step(1), Decision("challenge"))
    assert (watch.pending, watch.seen) == (0, 4)


def test_an_observed_visit_counts_only_for_a_watch_that_observes():
    watch, _ = watch_with(lambda _: "person")
    watch.see(step(1), Decision("challenge", observed="links"))
    watch.see(step(1), Decision("pass", observed="neutral"))
    assert watch.pending == 0
    watch.observe = True
    watch.see(step(1), Decision("challenge", observed="links"))
    assert watch.pending == 1


def test_a_damaged_mark_in_a_query_keeps_nobody_out_of_a_path():
    """Otherwise a crawler would add one to every address."""
    watch, _ = watch_with(lambda _: "person")
    watch.see(step(1, tampered=True, raw_target="/1?~=damaged"), PASS)
    assert watch.pending == 1


def test_a_window_is_judged_at_27_pages_and_after_27_others():
    told: list[ScoreUpdate] = []
    asked = []
    windows = Says(lambda window: asked.append(window.size) or "suspect", "windows")
    watch = Watch(build_policy(settings()), told.append, windows=windows, on_window="challenge")
    for n in range(60):
        watch.see(step(n, HOLDER), PASS)
        watch.see(step(n, HOLDER, kind="asset"), PASS)
        watch.see(step(n, HOLDER, kind="call"), PASS)
    assert len(asked) == 2
    assert asked[0] == 27
    assert 27 <= asked[1] <= 40
    assert {(change.identity, change.codes) for change in told} == {("suspect", ("window-suspect",))}
    assert watch.found == {"window-suspect": 2}


def test_sessions_are_bounded():
    watch, _ = watch_with(lambda _: "person", max_sessions=10)
    for n in range(30):
        watch.see(step(1, f"192.0.2.{n}"), PASS)
    assert watch.pending == 10


def test_the_bundle_that_comes_with_hedgerow_knows_a_crawler_that_runs():
    watch = build_watch(settings(), build_policy(settings()), lambda _: None)
    for n in range(60):
        watch.see(step(n), PASS)
    assert watch.found["person"] < 3


def test_the_window_that_comes_with_hedgerow_knows_a_crawler_that_runs():
    own = settings('[watch]\npaths = "off"\n')
    watch = build_watch(own, build_policy(own), lambda _: None)
    for n in range(60):
        at = step(n)
        watch.see(msgspec.structs.replace(at, at=START + n * 0.1), PASS)
    assert watch.found == {"window-suspect": 2}


@pytest.mark.parametrize(
    ("name", "setting", "right"), [("window", "model", "window_model"), ("boosted", "window_model", "model")]
)
def test_a_bundle_of_another_kind_is_refused(tmp_path, name, setting, right):
    path = tmp_path / "bundle.json"
    path.write_bytes(encoded(shipped(name)))
    with pytest.raises(ModelError, match=f"set it as {right}"):
        build_watch(settings(f'[watch]\n{setting} = "{path}"\n'), build_policy(settings()), lambda _: None)


def test_pathmarkers_own_model_can_be_chosen_by_its_name():
    watch = build_watch(settings('[watch]\nmodel = "pathmarker"\n'), build_policy(settings()), lambda _: None)
    assert watch.paths.bundle == shipped("pathmarker")


def test_other_lengths_of_sessions_apply_and_drop_pending_ones():
    own = settings("[watch]\njudge_at = [20]\n")
    watch = build_watch(own, build_policy(own), lambda _: None)
    for n in range(19):
        watch.see(step(n, "192.0.2.1"), PASS)
    assert not watch.found
    watch.see(step(19, "192.0.2.1"), PASS)
    assert sum(count for name, count in watch.found.items() if not name.startswith("window")) == 1
    configure_watch(watch, own, build_policy(own), build_panels(own))
    assert watch.pending == 1
    configure_watch(watch, settings(), build_policy(own), build_panels(settings()))
    assert watch.pending == 0


# ---- Beside the gate


class Slow:
    """Stands for a watch that is stopped until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.saw: list[str] = []
        self.missed: list[str] = []
        self.note_campaigns = self.restore = self.records = lambda *_: None

    def see(self, visit, _decision) -> None:
        self.go.wait(60)
        self.saw.append(visit.visitor)

    def miss(self, visitor: str) -> None:
        self.missed.append(visitor)


def test_who_falls_behind_leaves_out_visitors_and_never_waits():
    slow = Slow()
    beside = WatchThread(slow, queue=100)  # type: ignore[arg-type]
    names = [f"192.0.2.{n}" for n in range(50)]
    for _ in range(20):
        for name in names:
            beside.add(step(1, name), PASS)
    assert beside.waiting <= 100
    assert beside.left_out >= 850
    slow.go.set()
    assert eventually(lambda: not beside.waiting)
    for name in names:
        beside.add(step(2, name), PASS)
    beside.close()
    # Whose visits were left out has a hole in its session, and the watch is told before it sees the next.
    assert set(slow.missed) == set(names)
    assert len(slow.saw) + beside.left_out == 21 * 50


def test_a_failure_does_not_end_the_watch(caplog):
    watch, _ = watch_with(lambda _: "person")
    before, failed = watch.see, []

    def see(visit, decision):
        if not failed:
            failed.append(visit)
            raise ZeroDivisionError
        before(visit, decision)

    watch.see = see
    beside = WatchThread(watch)
    for n in range(5):
        beside.add(step(n), PASS)
    beside.close()
    assert watch.seen == 4
    assert "failed and continues" in caplog.text
    caplog.clear()


def test_where_nothing_happens_there_is_no_thread(monkeypatch):
    monkeypatch.setattr("hedgerow.watch.watch._IDLE", 0.05)
    watch, _ = watch_with(lambda _: "person")
    beside = WatchThread(watch)
    for n in range(3):
        beside.add(step(n), PASS)
        assert eventually(lambda: beside._thread is None)
    assert watch.seen == 3
    beside.close()


def test_pending_sessions_outlive_a_restart(tmp_path):
    asked = []

    def once(visits) -> None:
        watch, _ = watch_with(lambda session: asked.append(session.features()) or "person")
        beside = WatchThread(watch, sessions=SqliteSessions(tmp_path / "s.sqlite"))
        for n in visits:
            beside.add(step(n), PASS)
            beside.add(step(1, f"198.51.100.{n}"), PASS)
        beside.close()

    once(range(15))
    once(range(15, 20))
    straight, _ = watch_with(lambda session: asked.append(session.features()) or "person")
    for n in range(20):
        straight.see(step(n), PASS)
    assert len(asked) == 4
    assert asked[1] == asked[3]
    store = SqliteSessions(tmp_path / "s.sqlite")
    assert [name for name, _ in store.read().sessions] == [ME]
    store.close()


def test_who_is_killed_loses_what_was_not_yet_written_and_nothing_else(tmp_path, monkeypatch):
    """No close: what another finds in the file is what was there when the process was gone."""
    monkeypatch.setattr("hedgerow.watch.watch._SAVE_EVERY", 0.05)
    borrowed = Marker("page", visitor_digest("198.51.100.1"), page_digest("/0"), "/1")
    own = build_watch(settings(), build_policy(settings()), lambda _: None)
    beside = WatchThread(own, sessions=SqliteSessions(tmp_path / "s.sqlite"))
    evidence = Evidence("integrity", ISSUED_TO_ANOTHER, 0.0, "", details=visitor_digest("198.51.100.1").hex())
    for n in range(28):
        beside.add(step(n), PASS)
    beside.add(msgspec.structs.replace(step(28), marker=borrowed), Decision("pass", (evidence,)))
    store = SqliteSessions(tmp_path / "s.sqlite")
    assert eventually(lambda: len(store.read().ties) == 2)
    assert eventually(lambda: store.read().records and sum(store.read().records[0].judged.values()) == 2)
    after = build_watch(settings(), build_policy(settings()), lambda _: None)
    after.restore(store.read())
    store.close()
    assert after._sessions[ME].to_bytes() == own._sessions[ME].to_bytes()
    assert after.sharing._links._users == own.sharing._links._users
    assert after.paths.record == own.paths.record
    assert after.windows.record.judged == own.windows.record.judged != {}
    beside.close()


def test_the_gate_acts_within_a_second():
    client = Client(text=ALONE + '[watch]\npaths = "challenge"\n')
    client.site.watch.watch.paths = Says(lambda _: "width-first")
    browser = {"accept": "text/html", "accept-language": "en", "user-agent": "Mozilla/5.0"}
    for n in range(20):
        client.clock.now += 1
        assert client.get("/" + "a" * n, headers=browser).status == 200
    scores = client.site.stores.state.scores
    assert eventually(lambda: sum(score.total for key, score in scores() if key == ME) > 0.9)
    answer = client.get("/", headers=browser)
    assert b"challenge" in (answer.header("hedgerow-decision") or b"")
    client.site.close()


# ---- A process of its own


def test_a_watch_of_its_own_reads_along_and_the_gate_acts(tmp_path):
    own = settings(f'directory = "{tmp_path}"\n{ALONE}[watch]\nenabled = false\npaths = "challenge"\n')
    site = Site(own)
    client = Client(Application())
    client.site, client.hedgerow = site, Hedgerow(client.app, site=site, clock=time.time)
    assert site.watch is None
    client.get("/before")
    stop, sessions, journal = threading.Event(), build_sessions(own), SqliteJournal(tmp_path / "state.sqlite")
    assert eventually(lambda: site.stores.ledger.written == 1)
    thread = threading.Thread(target=follow_ledger, args=(own, sessions, journal, stop))
    thread.start()
    try:
        time.sleep(0.5)
        for n in range(60):
            client.get("/" + "a" * n, headers={"referer": "http://example.org/" + "a" * (n - 1)})
        assert eventually(lambda: dict(site.stores.state.scores()).get(ME))
        score = dict(site.stores.state.scores())[ME]
        assert any(code.startswith("path-") for code, _ in score.reasons)
    finally:
        stop.set()
        thread.join()
        sessions.close()
        journal.close()
        site.close()
    again = build_sessions(own)
    # It was told at the tenth page, and may have been stopped there.
    assert 10 < (again.position(str(tmp_path / "ledger.sqlite")) or 0) <= 61
    again.close()

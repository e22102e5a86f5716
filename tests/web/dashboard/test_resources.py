"""What commands read by the API: the stores of the service, in parts that keep it busy for a moment only."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hedgerow.core.attack import ATTACK_KEY
from hedgerow.core.decision import Campaign, Decision, Evidence, VisitorScore
from hedgerow.core.ledger import Entry
from hedgerow.core.state import prefix_key
from hedgerow.core.visit import Visit
from hedgerow.lists.model import Listing
from hedgerow.web.audit import AuditLog
from hedgerow.web.dashboard.resource_types import MAX_IMPORT
from real.servers import wait_for
from web.dashboard.desk import USERS, Desk

SUSPECT = VisitorScore("suspect", 0.8, time.time(), reasons=(("trap", 1),))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, "")


def parts_of(desk: Desk, name: str, rows: str, **parameters: object) -> list:
    """All parts of an answer."""
    found, query = [], "&".join(f"{key}={value}" for key, value in parameters.items())
    after = ""
    while after is not None:
        part = desk.read(f"{name}?after={after}&{query}")
        found.append(part[rows])
        after = part["next"]
    return found


def test_the_service_says_whose_directory_it_uses(desk, tmp_path):
    found = desk.read("service")
    assert (Path(found["directory"]), found["observing"]) == (tmp_path, False)
    assert Desk(tmp_path / "other", "observe = true\n").read("service")["observing"] is True


def test_programs_do_not_wait_for_a_site_that_does_not_answer(desk, monkeypatch):
    async def never(_):
        raise AssertionError("the health was asked for")

    monkeypatch.setattr("hedgerow.web.health.Health.problems", never)
    assert desk.read("state")["rows"] == []
    body = json.dumps({"visitor": "192.0.2.1"}).encode()
    assert desk.ask("/api/v1/visitor/ban", "POST", body=body, content_type="application/json").status == 200


def test_the_whole_state_comes_in_parts(desk):
    keys = [f"192.0.2.{number}" for number in range(10)]
    desk.site.stores.state.restore([], [(key, SUSPECT) for key in keys])
    desk.block("192.0.2.3")
    desk.block("198.51.100.1")
    parts = parts_of(desk, "state", "rows", size=4)
    assert [len(part) for part in parts] == [4, 4, 3]
    rows = {row["key"]: row for part in parts for row in part}
    assert sorted(rows) == [*keys, "198.51.100.1"]
    assert rows["192.0.2.3"]["block"]["evidence"]["code"] == "trap"
    assert rows["192.0.2.4"]["score"]["identity"] == "suspect"
    assert rows["198.51.100.1"]["score"] is None


def test_one_visitor_is_read_as_it_is_now(desk):
    desk.read("state")
    desk.block("192.0.2.1")
    desk.block(prefix_key("192.0.2.1"))
    rows = desk.read("state?visitor=192.0.2.1")["rows"]
    assert [row["key"] for row in rows] == ["192.0.2.1", prefix_key("192.0.2.1")]
    assert rows[0]["pages"] == 0
    assert desk.read("state?visitor=192.0.2.9") == {"rows": [], "next": None}
    desk.change("now/attack", duration="5m")
    assert desk.read(f"state?visitor={ATTACK_KEY}")["rows"][0]["block"]["until"] > time.time()


def test_a_change_is_in_the_next_answer(desk):
    """A copy of the state is used again for a while, but not after a change."""
    desk.site.stores.state.restore([], [(f"192.0.2.{number}", SUSPECT) for number in range(5)])
    assert len(desk.read("state")["rows"]) == 5
    assert desk.change("visitor/forgive", visitor="192.0.2.1").status == 200
    assert len(desk.read("state")["rows"]) == 4


def test_a_decision_has_all_of_its_evidence(desk):
    evidence = Evidence("trap", "trap", 1.0, "Followed a hidden link.", details="x")
    visit = Visit(time.time(), "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/a")
    desk.site.stores.ledger.append(Entry(visit, Decision("refuse", (evidence,)), 403, "1A2B-3C4D"))
    wait_for("the visit", lambda: desk.ask("/api/v1/decision?reference=1a2b-3c4d").status == 200)
    found = desk.read("decision?reference=1a2b-3c4d")
    assert found["decision"]["evidence"][0]["details"] == "x"
    assert found["keys"] == ["192.0.2.1"]
    assert desk.read("decision?visitor=192.0.2.1")["decision"]["target"] == "/a"
    assert desk.ask("/api/v1/decision?reference=FFFF-FFFF").status == 404
    assert desk.ask("/api/v1/decision").status == 422


def test_campaigns_come_with_members_and_in_parts(desk, monkeypatch):
    campaigns = [
        Campaign(f"C{number}", "sharing", 1.0, 10.0 - number, tuple(f"192.0.{number}.{n}" for n in range(200)), "Why.")
        for number in range(40)
    ]
    monkeypatch.setattr(desk.site, "campaigns", lambda: campaigns)
    parts = parts_of(desk, "stored-campaigns", "campaigns")
    assert len(parts) > 1
    assert {one["id"] for part in parts for one in part} == {one.id for one in campaigns}
    assert [len(one["members"]) for one in desk.read("stored-campaigns?id=c7")["campaigns"]] == [200]


def test_entries_are_selected_and_come_in_parts(desk):
    store = desk.site.follower.store
    now = time.time()
    store.put([Listing("black", f"192.0.2.{number}", "feed", "ann", now) for number in range(10)])
    store.put([Listing("white", "198.51.100.0/24", "ours", "bob", now), Listing("black", "AS64496", "", "", now, 1.0)])
    assert [len(part) for part in parts_of(desk, "list-entries", "entries", size=4, list="black")] == [4, 4, 2]
    for query, count in (
        ("address=198.51.100.9", 1), ("author=ann", 10), ("text=ours", 1), ("kind=asn", 0), ("kind=asn&ended=true", 1),
        ("subject=192.0.2.1&list=black", 1), ("list=white", 1),
    ):  # fmt: skip
        assert len(desk.read(f"list-entries?{query}")["entries"]) == count, query
    assert desk.ask("/api/v1/list-entries?address=x").status == 422
    assert desk.read("list-subscriptions") == {"readings": {}}


def test_an_entry_is_added_with_its_author_changed_and_imported(desk):
    until = time.time() + 600
    assert desk.change("lists/add", list="black", subject="192.0.2.1", author="ann", until=until).status == 200
    (entry,) = desk.read("list-entries")["entries"]
    assert (entry["author"], entry["until"]) == ("ann", until)
    assert desk.change("lists/change", **{**entry, "until": 0}).status == 200
    assert desk.read("list-entries")["entries"] == [{**entry, "until": 0.0}]
    assert desk.change("lists/change", **{**entry, "subject": "192.0.2.2"}).status == 404
    # All or none.
    rows = [{"list": "black", "subject": f"198.51.100.{number}", "author": "feed"} for number in range(3)]
    wrong = [*rows, {"list": "black", "subject": "x"}]
    assert desk.change("lists/import", entries=wrong, replacing="", source="a.txt").status == 422
    assert len(desk.read("list-entries")["entries"]) == 1
    assert desk.change("lists/import", entries=rows, replacing="", source="a.txt").status == 200
    assert desk.change("lists/import", entries=rows[:1], replacing="feed", source="b.txt").status == 200
    assert len(desk.read("list-entries")["entries"]) == 2
    assert desk.change("lists/import", entries=rows[:1] * (MAX_IMPORT + 1)).status == 400
    found = [(one.change, one.subject) for one in AuditLog(desk.site.app.settings).read()[0]]
    assert found[:2] == [("lists.import", "b.txt"), ("lists.import", "a.txt")]


def test_the_user_of_a_command_is_believed_with_a_token_only(tmp_path):
    """A session in a browser is that of an operator with a name of its own."""
    token = "a-token-of-the-operator-0123456789"
    desk = Desk(tmp_path, f"[admin]\ntoken = '{token}'\n{USERS}")
    body = json.dumps({"list": "black", "subject": "192.0.2.1"}).encode()
    send = {"content_type": "application/json", "x_hedgerow_user": "ann\x07 of accounts"}
    own = {"authorization": f"Bearer {token}", **send}
    assert desk.ask("/api/v1/lists/add", "POST", body=body, **own).status == 200
    assert desk.ask("/api/v1/lists/remove", "POST", body=body, **send).status == 401
    desk.log_in()
    assert desk.ask("/api/v1/lists/remove", "POST", body=body, x_form_token=desk.form_token(), **send).status == 200
    who = [one.who for one in AuditLog(desk.site.app.settings).read()[0]]
    assert who == ["alice", "ann� of accounts, token (operator)"]


def test_without_a_login_the_user_of_a_command_is_named(desk):
    body = json.dumps({"list": "black", "subject": "192.0.2.1"}).encode()
    for subject_of, more in (("add", {"x_hedgerow_user": "ann"}), ("remove", {})):
        path = f"/api/v1/lists/{subject_of}"
        assert desk.ask(path, "POST", body=body, content_type="application/json", **more).status == 200
    assert [one.who for one in AuditLog(desk.site.app.settings).read()[0]] == ["local", "ann, local"]

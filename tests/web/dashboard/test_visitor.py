"""The pages about one visitor and about a complaint."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from hedgerow.core.decision import Decision, Evidence
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.registry import registry
from hedgerow.markers.token import page_digest
from hedgerow.watch.models.bundle import shipped
from hedgerow.web.dashboard.pages.visitor import _reasons
from hedgerow.web.dashboard.path_tree import features_of, intervals_of, tree_of
from hedgerow.web.visitor_rows import describe_reason, what_to_loosen
from web.dashboard.desk import Desk

EVIL = "<script>alert(1)</script>"
TRAPPED = Decision("refuse", (Evidence("trap", "trap", 1.0, "Followed a hidden link."),))


def visit(target: str, parent: str | None = None, kind: str = "page", at: float | None = None, **fields) -> Visit:
    marker = None if parent is None else Marker(kind, b"12345678", page_digest(parent), target)
    moment = time.time() if at is None else at
    return Visit(moment, "192.0.2.7", "192.0.2.7", "192.0.2.7", "GET", target, marker=marker, host="a.b", **fields)


def write(desk: Desk, *entries: Entry) -> None:
    ledger = desk.site.stores.ledger
    for entry in entries:
        ledger.append(entry)
    done = time.monotonic() + 10
    while ledger.written < len(entries) and time.monotonic() < done:
        time.sleep(0.02)


@pytest.fixture
def desk(tmp_path) -> Desk:
    desk = Desk(tmp_path)
    desk.log_in()
    return desk


def crawl(desk: Desk) -> None:
    """A crawler that was blocked, and has the reference 1A2B-3C4D."""
    write(
        desk,
        Entry(visit("/"), Decision("pass"), 200),
        Entry(visit("/a", "/", user_agent=EVIL), Decision("pass"), 200),
        Entry(visit(f"/x?{EVIL}", "/a", "trap"), TRAPPED, 403, "1A2B-3C4D"),
    )
    desk.block("192.0.2.7")


def test_the_path_is_a_tree_with_traps_and_links_of_others():
    shared = Evidence("shared", "minted-for-another", 0.2, "Link of another.", details="0011")
    nodes = tree_of(
        [
            (visit("/", at=1.0), Decision("pass")),
            (visit("/a", "/", at=2.0), Decision("pass")),
            (visit("/b", "/", at=2.5), Decision("pass", (shared,))),
            (visit("/t", "/b", "trap", at=4.0), TRAPPED),
            (visit("/elsewhere", at=9.0), Decision("pass")),
        ]
    )
    assert [node.depth for node in nodes] == [0, 1, 1, 2, 0]
    assert [node.width for node in nodes] == [2, 0, 1, 0, 0]
    assert [node.trap for node in nodes] == [False, False, False, True, False]
    assert [node.foreign for node in nodes] == [False, False, True, False, False]
    assert [node.seconds for node in nodes] == [None, 1.0, 0.5, 1.5, 5.0]
    assert intervals_of(nodes).below_a_second == 1
    assert tree_of([]) == []
    assert intervals_of([]) is None


def test_features_are_compared_with_those_of_people_and_crawlers():
    entries = [(visit(f"/{n}", f"/{n - 1}", at=0.1 * n), Decision("pass")) for n in range(1, 31)]
    found = {one.name: one for one in features_of(entries, shipped("boosted"))}
    assert found["depth"].people_at_most > 0.9, "no person goes thirty links deep"
    assert found["depth"].crawlers_at_most < found["depth"].people_at_most
    assert found["gap_middle"].text == "seconds between pages: median"
    assert {one.text for one in found.values()}.isdisjoint(found), "each has words"
    assert all(0 <= one.people_at_most <= 1 for one in found.values())
    assert features_of(entries[:3], shipped("boosted")) == []
    assert features_of(entries, None) == []


@pytest.mark.parametrize(
    ("code", "text", "looser"),
    [
        ("trap", "no person can see", "traps.enabled"),
        ("k1", "without a clearance", "containment]: k1"),
        ("suspect", "above the limit", "suspect_at"),
        ("path-depth-first", "order of its pages is that of crawlers", "watch]: paths"),
        ("path-doubtful", "near that of crawlers", "watch]: paths"),
        ("window-suspect", "last visits", "watch]: windows"),
        ("campaign", "links of other visitors", "campaigns]: response"),
        ("program-hasty", "program", "white list"),
        ("no-such-code", "", ""),
    ],
)
def test_each_reason_has_words_and_something_to_loosen(code, text, looser):
    found = describe_reason(code)
    assert text in found.text
    assert not {"…", "{"} & set(found.text)
    assert looser in what_to_loosen(code)
    assert bool(looser) == bool(what_to_loosen(code))


def test_every_code_of_a_detector_has_a_whole_sentence():
    """What differs from visit to visit is said in general words: "More than … … in … seconds" tells nobody anything."""
    codes = [code.code for detector in registry().specs for code in detector.codes]
    assert len(codes) > 50
    for text in (describe_reason(code).text for code in codes):
        assert not {"…", "{"} & set(text)
        assert text[0].isupper()
        assert text.endswith(".")


def test_what_is_unusual_about_requests_is_said_in_words(desk):
    signs = ("no-language", "arrival", "read-by:192.0.2.1")
    write(desk, Entry(visit("/a", anomalies=signs), Decision("pass"), 200))
    found = {one["code"]: one["text"] for one in desk.read("visitor?visitor=192.0.2.7")["signs"]}
    assert list(found) == ["no-language", "arrival", "read-by:"]
    assert found["no-language"] == "The request names no language."
    assert all(text.endswith(".") for text in found.values())
    assert b"plain http, without cookies" in desk.ask("/dashboard/visitor?visitor=192.0.2.7").body


def test_a_complaint_of_a_suspect_is_counted_for_what_made_it_one(desk):
    rule = Evidence("path", "path-rule", 0.0, "The rule for the path /a applies.")
    why = Evidence("suspicion", "suspect", 1.2, "Suspected for enumerated (18 times), entry.")
    write(desk, Entry(visit("/a"), Decision("challenge", (rule, why)), 403, "AAAA-BBBB"))
    assert desk.read("complaint?reference=AAAA-BBBB")["found"]["sentences"] == [why.text]
    assert [one["code"] for one in desk.read("visitor?visitor=192.0.2.7")["reasons"]] == ["suspect"]
    desk.change("complaint/let-in", reference="AAAA-BBBB")
    (count,) = desk.read("complaint")["counts"]
    assert count["code"] == "enumerated"
    assert "marker" in count["setting"]


@pytest.mark.parametrize("name", ["192.0.2.7", "1a2b-3c4d"])
def test_a_visitor_is_found_by_address_and_by_reference(desk, name):
    crawl(desk)
    told = desk.read(f"visitor?visitor={name}")
    assert told["visitor"] == "192.0.2.7"
    assert told["row"]["identity"] == "blocked"
    assert (told["depth"], told["traps"], told["visits"]) == (2, 1, 3)
    assert told["reasons"][0]["text"] == "Followed a hidden link."
    page = desk.ask(f"/dashboard/visitor?visitor={name}").body.decode()
    assert "<script>alert" not in page
    assert "hidden link" in page


def test_xss_user_agents_and_urls_of_a_visitor_are_text(desk):
    crawl(desk)
    for path in ("/", "/dashboard/visitor?visitor=192.0.2.7", "/dashboard/complaint?reference=1A2B-3C4D"):
        body = desk.ask(path).body
        assert b"<script>alert" not in body
        assert b"&lt;script&gt;alert(1)" in body


@pytest.mark.parametrize("name", ["' OR 1=1 --", "x'; DROP TABLE visits; --", '"', "%"])
def test_sql_injection_the_name_of_a_visitor_is_text(desk, name):
    crawl(desk)
    assert desk.read(f"visitor?visitor={quote(name)}")["visits"] == 0
    assert desk.read(f"visitors?filter={quote(name)}")["total"] == 0
    assert desk.read("visitor?visitor=192.0.2.7")["visits"] == 3


def test_a_visitor_nobody_knows(desk):
    told = desk.read("visitor?visitor=203.0.113.9")
    assert told["visits"] == 0
    assert desk.ask("/dashboard/visitor?visitor=203.0.113.9").status == 200
    assert desk.ask("/api/v1/visitor").status == 400
    assert desk.ask("/api/v1/visitor?visitor=FFFF-FFFF").status == 404
    assert desk.change("visitor/forgive", visitor="203.0.113.9").status == 404


def test_forgive_ban_and_allow(desk):
    crawl(desk)
    assert "Removes the block" in desk.read("visitor?visitor=192.0.2.7")["preview"]["forgive"]
    answer = desk.post("/dashboard/visitor/forgive", visitor="192.0.2.7", reason="a person")
    assert answer.header("location").startswith(b"/dashboard/visitor?visitor=192.0.2.7&done=")
    assert desk.read("visitor?visitor=192.0.2.7")["row"]["until"] is None
    assert desk.change("visitor/ban", visitor="192.0.2.7", duration="2h", reason="again").status == 200
    until = desk.read("visitor?visitor=192.0.2.7")["row"]["until"]
    assert 7100 < until - time.time() <= 7200
    assert desk.change("visitor/allow", visitor="192.0.2.7", duration="1d").status == 200
    assert desk.read("visitor?visitor=192.0.2.7")["listed"] == ["white: 192.0.2.7"]
    assert desk.change("visitor/ban", visitor="192.0.2.7", duration="long").status == 422
    changes = [row["change"] for row in desk.read("audit")["rows"]]
    assert changes == ["visitor.allow", "visitor.ban", "visitor.forgive"]


def test_visitors_are_a_table(desk):
    for number in range(60):
        desk.block(f"198.51.100.{number}")
    told = desk.read("visitors?size=20&page=3&sort=-visitor")
    assert (told["total"], len(told["rows"])) == (60, 20)
    assert desk.read("visitors?filter=100.59")["total"] == 1
    assert b"page 1 of 2" in desk.ask("/dashboard/visitors").body


def test_from_a_complaint_to_let_in(desk):
    crawl(desk)
    found = desk.read("complaint?reference=1a2b-3c4d")["found"]
    assert (found["visitor"], found["code"], found["is_blocked"]) == ("192.0.2.7", "trap", True)
    page = desk.ask("/dashboard/complaint?reference=1A2B-3C4D").body.decode()
    assert "Let this person in" in page
    answer = desk.post("/dashboard/complaint/let-in", reference="1A2B-3C4D", back="/dashboard/complaint")
    assert answer.status == 303
    assert not desk.site.stores.state.blocks(time.time())
    (entry,) = desk.read("lists")["rows"]
    assert (entry["list"], entry["subject"], entry["reason"]) == ("white", "192.0.2.7", "Complaint 1A2B-3C4D")
    (count,) = desk.read("complaint")["counts"]
    assert (count["code"], count["count"]) == ("trap", 1)
    assert "[traps]" in count["setting"]


@pytest.mark.parametrize(("reference", "status"), [("FFFF-FFFF", 404), ("nonsense", 400), ("' OR 1=1--", 400)])
def test_a_reference_that_does_not_exist(desk, reference, status):
    assert desk.ask(f"/api/v1/complaint?reference={quote(reference)}").status == status
    assert desk.ask(f"/dashboard/complaint?reference={quote(reference)}").status == status
    assert desk.change("complaint/let-in", reference=reference).status == status


def test_a_wrong_reference_is_corrected_on_the_same_page(desk):
    page = desk.ask("/dashboard/complaint?reference=FFFF-FFFF")
    assert page.status == 404
    assert b"The reference FFFF-FFFF is not in the ledger." in page.body
    assert b'name="reference" value="FFFF-FFFF"' in page.body


def test_from_an_error_there_is_a_way_back_to_the_visitor(desk):
    """The link led to a page that does not exist without a visitor."""
    page = desk.post("/dashboard/visitor/forgive", visitor="192.0.2.7")
    assert page.status == 404
    assert b"is neither suspected nor blocked" in page.body
    assert b'<a href="/dashboard/visitor?visitor=192.0.2.7">Back</a>' in page.body
    assert b'<a href="/">Back</a>' in desk.ask("/dashboard/visitor").body
    assert b'<a href="/dashboard/lists">Back</a>' in desk.post("/dashboard/lists/add", list="white", subject="?").body


def test_hidden_addresses_are_found_by_the_state(tmp_path):
    desk = Desk(tmp_path, "[privacy]\naddresses = 'hashed'\nkey = '0123456789abcdef0123456789abcdef'\n")
    crawl(desk)
    assert desk.read("complaint?reference=1A2B-3C4D")["found"]["visitor"] == "192.0.2.7"
    assert desk.read("visitor?visitor=192.0.2.7")["visits"] == 3


def test_the_same_reason_of_visits_in_a_row_is_one_line():
    trap, other = (Evidence(code, code, 1.0, code.capitalize()) for code in ("trap", "other"))
    stopped = Decision("refuse", (trap,))
    steps = [stopped, stopped, stopped, Decision("pass"), stopped, Decision("refuse", (other, trap))]
    entries = [(visit(f"/{n}", at=10.0 * n), decision) for n, decision in enumerate(steps)]
    found = [(one.code, one.times, one.since, one.at, one.target) for one in _reasons(entries)]
    assert found == [
        ("other", 1, 50.0, 50.0, "/5"),
        ("trap", 2, 40.0, 50.0, "/5"),
        ("trap", 3, 0.0, 20.0, "/2"),
    ]

"""`[[path]]` at the middleware: off, observe, limits, marks, hidden links, kinds of challenges, clearance, closed."""

from __future__ import annotations

import re

import pytest

from driving import Application, Client, marked_links_in, settings, traps_in

BROWSER = {
    "accept": "text/html,*/*;q=0.8",
    "accept-encoding": "gzip",
    "accept-language": "en",
    "sec-fetch-dest": "document",
    "sec-fetch-mode": "navigate",
    "sec-fetch-site": "none",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
}
PAGE = (
    b"<!DOCTYPE html><html><head><title>t</title></head><body>"
    + b"".join(b"<a href='/%s/%d'>one</a>" % (part, n) for part in (b"docs", b"open") for n in range(4))
    + b"</body></html>"
)


def client(text: str) -> Client:
    return Client(Application(PAGE), text)


def codes(one: Client) -> list[str]:
    return [found.code for found in one.entries[-1].decision.evidence if found.detector != "headers"]


def test_off_changes_no_byte_counts_nothing_and_lets_blocked_visitors_in():
    one = client("[[path]]\npath = '/open/*'\nprotection = 'off'\n")
    trap = traps_in(one.get("/docs/1", headers=BROWSER).body)[0]
    assert one.get(trap, headers=BROWSER).status == 403
    assert one.get("/docs/1", headers=BROWSER).status == 403
    answer = one.get("/open/1", headers=BROWSER)
    assert (answer.status, answer.body) == (200, PAGE)
    assert codes(one) == ["path-rule"]


def test_links_to_paths_that_are_off_are_not_marked_and_others_are():
    one = client("[[path]]\npath = '/open/*'\nprotection = 'off'\n")
    links = marked_links_in(one.get("/docs/1", headers=BROWSER).body)
    body = one.get("/docs/1", headers=BROWSER).body.decode()
    assert links
    assert re.search(r"href=.?/open/1[\"'> ]", body)
    assert not re.search(r"href=.?/docs/2[\"'> ]", body)


def test_observe_records_what_would_have_been_done_and_has_no_consequence_elsewhere():
    one = client(
        "[[path]]\npath = '/look/*'\nprotection = 'observe'\nlimits = [{ count = 3, seconds = 600 }]\n"
        "[policy]\nsuspects = 'refuse'\n"
    )
    for number in range(8):
        assert one.get(f"/look/{number}", headers=BROWSER).status == 200
    last = one.entries[-1].decision
    assert (last.action, last.observed) != ("pass", "links")
    assert "path-rule" in codes(one)
    assert one.site.app.gate.blocked == 0
    assert not one.site.stores.state.blocks(one.entries[-1].visit.at)
    assert not one.site.stores.state.scores()
    assert one.get("/docs/1", headers=BROWSER).status == 200
    assert one.entries[-1].decision.action == "pass"


def test_a_blocked_visitor_is_let_in_where_a_rule_observes():
    one = client("[[path]]\npath = '/look/*'\nprotection = 'observe'\n")
    trap = traps_in(one.get("/docs/1", headers=BROWSER).body)[0]
    assert one.get(trap, headers=BROWSER).status == 403
    assert one.get("/look/1", headers=BROWSER).status == 200
    assert one.entries[-1].decision.action == "refuse"
    assert one.get("/docs/1", headers=BROWSER).status == 403


def test_limits_of_a_path_count_its_own_visits_only():
    one = client("[[path]]\npath = '/search*'\nlimits = [{ count = 3, seconds = 600, of = 'requests' }]\n")
    for number in range(6):
        assert one.get(f"/docs/{number}", headers=BROWSER).status == 200
    for number in range(3):
        assert one.get(f"/search?q={number}", headers=BROWSER).status == 200
    assert one.get("/search?q=9", headers=BROWSER).status == 403
    assert "density-visitor" in codes(one)
    assert one.entries[-1].decision.evidence[-1].details == "/search*"


def test_two_rules_count_apart_and_in_the_order_of_their_windows():
    one = client(
        "[[path]]\npath = '/a*'\nlimits = [{ count = 9, seconds = 600 }, { count = 2, seconds = 60 }]\n"
        "[[path]]\npath = '/b*'\nlimits = [{ count = 4, seconds = 600 }]\n[density]\nsite_seconds = 0\n"
    )
    assert [one.get(f"/b{n}", headers=BROWSER).status for n in range(5)] == [200] * 4 + [403]
    two = client("[[path]]\npath = '/a*'\nlimits = [{ count = 9, seconds = 600 }, { count = 2, seconds = 60 }]\n")
    assert [two.get(f"/a{n}", headers=BROWSER).status for n in range(3)] == [200, 200, 403]


def test_limits_work_where_the_limits_of_the_site_are_switched_off():
    one = client("[density]\nenabled = false\n[[path]]\npath = '/a*'\nlimits = [{ count = 2, seconds = 60 }]\n")
    assert [one.get(f"/c{n}", headers=BROWSER).status for n in range(5)] == [200] * 5
    assert [one.get(f"/a{n}", headers=BROWSER).status for n in range(3)] == [200, 200, 403]


def test_a_path_without_limits_has_none():
    one = client("[density]\nwindows = [{ count = 2, seconds = 60 }]\n[[path]]\npath = '/a*'\nlimits = []\n")
    assert [one.get(f"/a{n}", headers=BROWSER).status for n in range(6)] == [200] * 6
    assert [one.get(f"/c{n}", headers=BROWSER).status for n in range(3)] == [200, 200, 403]


def test_hidden_links_are_left_out_of_one_path_or_are_only_there():
    without = client("[[path]]\npath = '/docs/*'\ntraps = false\n")
    assert not traps_in(without.get("/docs/1", headers=BROWSER).body)
    assert traps_in(without.get("/news", headers=BROWSER).body)
    only = client("[traps]\nenabled = false\n[[path]]\npath = '/docs/*'\ntraps = true\n")
    assert not traps_in(only.get("/news", headers=BROWSER).body)
    trap = traps_in(only.get("/docs/1", headers=BROWSER).body)[0]
    assert only.get(trap, headers=BROWSER).status == 403


def test_links_to_a_path_are_marked_in_its_own_mode():
    one = client("[marker]\nmode = 'off'\nrules = []\n[[path]]\npath = '/docs/*'\nmarks = 'opaque'\n")
    body = one.get("/", headers=BROWSER).body.decode()
    assert "/~" in body
    assert "'/docs/1'" not in body
    assert "/open/1" in body


def test_a_path_needs_a_clearance_before_the_page():
    one = client("[[path]]\npath = '/archive/*'\nclearance = true\n")
    assert one.get("/archive/1", headers=BROWSER).status in {401, 403, 429}
    assert "clearance-required" in codes(one)
    assert one.get("/archive/1", headers={"user-agent": "curl/8.0", "accept": "*/*"}).status == 429
    assert one.get("/docs/1", headers=BROWSER).status == 200
    assert one.site.app.gate.blocked == 0


@pytest.mark.parametrize("kind", ["image", "work"])
def test_a_path_has_its_own_kinds_of_challenges(kind):
    one = client(
        f"[challenge]\nkinds = ['{'work' if kind == 'image' else 'image'}']\n"
        f"[[path]]\npath = '/archive/*'\nclearance = true\nchallenges = ['{kind}']\n"
        "[[path]]\npath = '/other/*'\nclearance = true\n"
    )
    image = b"data:image"
    assert (image in one.get("/archive/1", headers=BROWSER).body) == (kind == "image")
    assert (image in one.get("/other/1", headers=BROWSER).body) == (kind == "work")


def test_a_path_is_closed_or_an_entry_by_its_rule():
    one = client("[[path]]\npath = '/docs/*'\nclosed = true\n")
    assert one.get("/docs/1", headers=BROWSER).status == 403
    assert one.get("/news", headers=BROWSER).status == 200
    strict = client("[marker]\nstrict = true\n[[path]]\npath = '/docs/*'\nclosed = false\n")
    assert strict.get("/docs/1", headers=BROWSER).status == 200
    assert strict.get("/news", headers=BROWSER).status == 403


def test_a_site_that_observes_changes_nothing_by_its_rules():
    one = client("observe = true\n[[path]]\npath = '/docs/*'\nclosed = true\ntraps = true\nclearance = true\n")
    answer = one.get("/docs/1", headers=BROWSER)
    assert (answer.status, answer.body) == (200, PAGE)


@pytest.mark.parametrize(
    ("rule", "expected"), [("protection = 'off'", False), ("traps = true", True), ("marks = 'clean'", True)]
)
def test_a_rule_alone_does_not_promise_a_script_that_pages_do_not_get(rule, expected):
    """Visitors without a clearance are contained only where the script of a page can obtain one."""
    text = f"[marker]\nmode = 'off'\nrules = []\n[traps]\nenabled = false\n[[path]]\npath = '/a*'\n{rule}\n"
    assert settings(text).clears_silently is expected

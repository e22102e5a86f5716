"""A site that only observes: what is changed, what is recorded, and what happens when observing begins and ends."""

from __future__ import annotations

import json
import logging
import time

import pytest

from driving import HTML, PAGE, Application, Client, settings, traps_in
from driving_wsgi import WsgiApplication, WsgiClient
from hedgerow.core.decision import Block, Evidence
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.settings import Settings
from hedgerow.web.app import Site
from hedgerow.web.paths import redis_prefix, shared_path, state_path

from .admin.test_app import ask

LIMIT = "[density]\nwindows = [{ count = 3, seconds = 60.0 }]\n[policy]\nsuspects = 'refuse'\n"
NEUTRAL = "observe = true\n" + LIMIT
LINKS = "observe = 'links'\n[marker]\nmode = 'opaque'\n" + LIMIT
ME = "192.0.2.1"
HEADERS = [
    HTML, (b"set-cookie", b"a=1; Path=/wiki/"), (b"cache-control", b"public, max-age=60"), (b"etag", b'"x"'),
    (b"content-length", b"%d" % len(PAGE)), (b"location", b"/other"), (b"link", b"</next>; rel=next"),
    (b"content-security-policy", b"default-src 'none'"), (b"x-own", b"1"),
]  # fmt: skip


@pytest.mark.parametrize("make", [(Client, Application), (WsgiClient, WsgiApplication)])
@pytest.mark.parametrize("status", [200, 302, 404])
@pytest.mark.parametrize("path", ["/", "/robots.txt", "/.hedgerow/answer", "/a?~=own"])
def test_no_byte_is_changed_not_even_of_a_visitor_who_would_have_been_blocked(make, status, path):
    client_class, application = make
    client = client_class(application(status=status, headers=HEADERS), NEUTRAL + "[bots]\nai_training = 'refuse'\n")
    answers = [client.get(each, headers={"sec-fetch-dest": "document"}) for each in [path, *["/"] * 5, path]]
    assert {answer.body for answer in answers} == {PAGE}
    assert {answer.status for answer in answers} == {status}
    assert all(sorted(answer.headers) == sorted(HEADERS) for answer in answers)
    assert client.entries[-1].decision.action == "refuse"
    assert {entry.decision.observed for entry in client.entries} == {"neutral"}


def test_the_application_is_asked_for_any_coding_and_not_whether_a_marked_copy_is_valid():
    client = Client(text=NEUTRAL)
    own = {"cookie": "hedgerow=x; a=1", "if-match": 'W/"v-hs"', "if-none-match": 'W/"v-hs"'}
    client.get(headers={"accept-encoding": "gzip, zstd, dcb", **own})
    assert client.app.seen("accept-encoding") == b"gzip, zstd, dcb"
    assert client.app.seen("if-none-match") == b'W/"v-hs"'
    assert client.app.seen("if-match") == b'"v"'
    assert client.app.seen("cookie") == b"a=1"


def test_links_that_were_marked_before_still_lead_to_their_pages():
    client = Client(text=NEUTRAL)
    codec = TokenCodecs([Key(1, bytes(range(64)), 0.0)]).of("example.org")
    token = codec.seal("page", visitor_digest(ME), page_digest("/"), b"/one?x=1").decode()
    assert client.get(f"/~{token}").body == PAGE
    assert (client.app.scopes[-1]["path"], client.app.scopes[-1]["query_string"]) == ("/one", b"x=1")
    trap = codec.seal("trap", visitor_digest(ME), page_digest("/"), b"").decode()
    assert client.get(f"/~{trap}").body == PAGE
    assert client.app.scopes[-1]["path"] == f"/~{trap}"


def test_a_missing_mark_means_nothing_where_nothing_is_marked():
    client = Client(text="observe = true\n[marker]\nmode = 'opaque'\nstrict = true\n")
    for n in range(60):
        client.clock.now += 5.0
        client.get(f"/item/{n}", headers={"referer": "http://example.org/"})
    evidence = [e for entry in client.entries for e in entry.decision.evidence]
    assert [e.code for e in evidence if e.detector in {"entry", "integrity"}] == []


def test_with_links_pages_are_marked_and_baited():
    client = Client(text=LINKS)
    answers = [client.get() for _ in range(6)]
    assert {answer.status for answer in answers} == {200}
    assert all(traps_in(answer.body) and b'href="/~' in answer.body for answer in answers)
    assert {entry.decision.observed for entry in client.entries} == {"links"}
    assert [entry.decision.action for entry in client.entries] == ["pass"] * 3 + ["refuse"] * 3


def test_what_would_have_been_done_is_counted_and_logged_as_such(caplog):
    client = Client(text=NEUTRAL)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            client.get()
    assert [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()] == [
        f"would have blocked '{ME}': 'More than 3 pages in 60 seconds.'"
    ]
    metrics = client.site.metrics()
    assert (metrics.decided, metrics.blocked) == ({"pass": 5}, 0)
    assert metrics.would_have == {"pass": 3, "refuse": 2, "density-visitor": 2}
    assert metrics.would_have_blocked == 1
    said = ask(client, "/metrics").body.decode()
    assert 'hedgerow_visits_total{action="refuse"} 0.0' in said
    assert 'hedgerow_would_have_total{action="refuse"} 2.0' in said
    assert 'hedgerow_would_have_stopped_total{code="density-visitor"} 2.0' in said
    assert "hedgerow_would_have_blocked_total 1.0" in said


def test_the_overview_shows_what_would_have_been_done():
    client = Client(text=NEUTRAL)
    now = time.time()
    evidence = Evidence("density", "density", 1.0, "Too fast.")
    client.site.stores.state.commit(Block(ME, ME, now, now + 600, "refuse", evidence))
    for _ in range(5):
        client.get()
    page = ask(client).body.decode()
    assert "<b>Observing only.</b> Nothing is enforced" in page
    assert "<h2>Would have blocked</h2>" in page
    assert ME in page
    assert json.loads(ask(client, "/blocks").body) == []
    assert [block["key"] for block in json.loads(ask(client, "/would-have-blocked").body)] == [ME]
    client.site.reload(settings(LIMIT))
    page = ask(client).body.decode()
    assert "<h2>Latest blocks</h2>" in page
    assert ME not in page
    assert json.loads(ask(client, "/would-have-blocked").body) == []


def test_nothing_is_enforced_that_was_found_while_observing():
    client = Client(text=NEUTRAL)
    for _ in range(9):
        client.get()
    client.site.reload(settings(LIMIT).without_clearances())
    assert [client.get().status for _ in range(4)] == [200, 200, 200, 429]


def test_blocks_are_in_force_again_when_observing_ends():
    client = Client(text=LIMIT)
    assert [client.get().status for _ in range(4)] == [200, 200, 200, 429]
    client.site.reload(settings(NEUTRAL))
    assert client.get().status == 200
    assert client.entries[-1].decision.action == "pass"
    client.site.reload(settings(LIMIT))
    assert client.get().status == 429


def test_settings_with_faults_leave_the_stores_as_they_are(tmp_path):
    client = Client(text=LIMIT)
    stores = client.site.stores
    broken = f"observe = true\n[watch]\nmodel = '{tmp_path / 'missing.json'}'\npaths = 'record'\n"
    with pytest.raises(Exception, match="missing"):
        client.site.reload(settings(broken))
    assert client.site.stores is stores
    assert not client.site.app.settings.observe


def stored(directory, text: str) -> Settings:
    return settings(f"directory = '{directory}'\n" + text)


def test_a_restart_without_observing_knows_nothing_of_it(tmp_path):
    """Blocks, scores, campaigns and sessions are in a file of their own."""
    site = Site(stored(tmp_path, NEUTRAL))
    now = time.time()
    evidence = Evidence("trap", "trap", 1.0, "Why.")
    site.stores.state.commit(Block(ME, ME, now, now + 600, "refuse", evidence))
    site.close()
    enforcing = Site(stored(tmp_path, LIMIT))
    assert list(enforcing.stores.state.blocks(now)) == []
    enforcing.close()
    again = Site(stored(tmp_path, NEUTRAL))
    assert [block.key for block in again.stores.state.blocks(now)] == [ME]
    again.close()


def test_each_kind_of_store_has_a_place_of_its_own_while_observing(tmp_path):
    enforcing, observing = stored(tmp_path, LIMIT), stored(tmp_path, NEUTRAL)
    for place in (state_path, shared_path, redis_prefix):
        assert place(enforcing) != place(observing) == place(stored(tmp_path, LINKS))

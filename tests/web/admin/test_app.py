"""The admin listener: for operators, spoken to by its own name, and safe against what visitors are called."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driving import Answer, Client, traps_in
from hedgerow.core.decision import Block, Campaign, Evidence
from hedgerow.watch.models.bundle import shipped
from hedgerow.watch.models.panel import Panel
from hedgerow.watch.sessions.path import PathSession
from hedgerow.web.admin.app import Admin

EVIL = "account:<script>alert(1)</script>\"'&{rows}"


def ask(
    client: Client,
    path: str = "/",
    *,
    method: str = "GET",
    host: str | None = "127.0.0.1:9000",
    body: bytes = b"",
    **options,
) -> Answer:
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in options.pop("headers", {}).items()]
    if host is not None:
        headers.append((b"host", host.encode()))
    scope = {
        "type": "http", "method": method, "path": path, "headers": headers, "server": ("192.168.1.5", 9000), **options,
    }  # fmt: skip
    waiting = [
        {"type": "http.request", "body": body[4:]},
        {"type": "http.request", "body": body[:4], "more_body": True},
    ]
    sent = []

    async def receive():
        return waiting.pop()

    async def send(message):
        sent.append(message)

    asyncio.run(Admin(client.site)(scope, receive, send))
    return Answer(sent[0]["status"], sent[0]["headers"], sent[1]["body"], sent)


def blocked(key: str = EVIL) -> Client:
    client = Client()
    now = time.time()
    evidence = Evidence("trap", "trap", 1.0, "Followed <b>a link</b>.")
    client.site.stores.state.commit(Block(key, "192.0.2.1", now, now + 600, "refuse", evidence))
    return client


def test_the_overview_escapes_what_visitors_are_called():
    answer = ask(blocked())
    assert answer.status == 200
    page = answer.body.decode()
    assert "<script>alert" not in page
    assert "<b>a link</b>" not in page
    assert "account:&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;{rows}" in page
    assert "Followed &lt;b&gt;a link&lt;/b&gt;." in page
    assert "10 min" in page
    assert b"default-src 'none'" in answer.header("content-security-policy")


def test_an_empty_overview():
    page = ask(Client()).body.decode()
    assert "Nobody is blocked." in page


def test_forgive():
    client = blocked("2001:db8::/64")
    answer = ask(client, "/forgive", method="POST", body=b"key=2001%3Adb8%3A%3A%2F64")
    assert answer.status == 303
    assert answer.header("location") == b"/"
    assert list(client.site.stores.state.blocks(0.0)) == []
    assert ask(client, "/forgive", method="POST", body=b"key=2001%3Adb8%3A%3A%2F64").status == 404


def test_what_is_forgiven_once_the_store_is_back(monkeypatch):
    client = blocked("x")
    monkeypatch.setattr(client.site.stores.state, "forgive", lambda _: None)
    answer = ask(client, "/forgive", method="POST", body=b"key=x")
    assert answer.status == 202
    assert b"forgiven as soon as it does" in answer.body


@pytest.mark.parametrize("key", [EVIL, "account:Zoë", "account:a+b&c=d%20", "account:🌿"])
def test_any_name_can_be_forgiven(key):
    from urllib.parse import urlencode

    client = blocked(key)
    assert ask(client, "/forgive", method="POST", body=urlencode({"key": key}).encode()).status == 303


@pytest.mark.parametrize("body", [b"", b"key=", b"key", b"\xff\xfe=%ff", b"key=nobody", b"x" * 100_000])
def test_a_post_that_names_nobody(body):
    assert ask(blocked(), "/forgive", method="POST", body=body).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9001"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "http://127.0.0.1:9000"},
    ],
)
def test_a_post_from_another_site_is_refused(headers):
    client = blocked("x")
    assert ask(client, "/forgive", method="POST", body=b"key=x", headers=headers).status == 403
    assert len(client.site.stores.state.blocks(0.0)) == 1


def test_a_post_from_its_own_page_is_taken():
    headers = {"origin": "http://127.0.0.1:9000", "sec_fetch_site": "same-origin"}
    assert ask(blocked("x"), "/forgive", method="POST", body=b"key=x", headers=headers).status == 303


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:9000", "127.0.0.1:9000", "[::1]:9000", "[::1]", "192.168.1.5:9000", "192.168.1.5"]
)
def test_it_is_spoken_to_by_its_own_name(host):
    assert ask(Client(), "/health", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9000", "127.0.0.1.evil.example", "", None, ":9000", "[", "localhost:x"]
)
def test_a_page_elsewhere_does_not_reach_it_by_a_name_of_its_own(host):
    for path in ("/", "/health", "/metrics", "/blocks"):
        assert ask(Client(), path, host=host).status == 421


def test_the_name_it_listens_under_is_its_own():
    client = Client(text="[admin]\nlisten = 'hedge.internal:9000'")
    assert ask(client, "/health", host="Hedge.internal:9000").status == 200
    assert ask(Client(), "/health", host="[2001:db8::1]:9000", server=("2001:db8::1", 9000)).status == 200


def test_blocks_as_json():
    (block,) = json.loads(ask(blocked(), "/blocks").body)
    assert block["key"] == EVIL
    assert block["evidence"]["code"] == "trap"


def test_metrics_are_what_prometheus_reads():
    client = Client(text="[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 3, seconds = 10.0 }]")
    for _ in range(5):
        client.get()
    trap = traps_in(client.get(peer="198.51.100.7").body)[0]
    client.get(trap, peer="198.51.100.7")
    client.site.counters.count_skipped('odd "reason"\n', "/")
    families = {family.name: family for family in text_string_to_metric_families(ask(client, "/metrics").body.decode())}
    samples = {(s.name, *s.labels.values()): s.value for family in families.values() for s in family.samples}
    assert samples["hedgerow_visits_total", "pass"] == 4
    assert samples["hedgerow_visits_total", "refuse"] == 3
    assert samples["hedgerow_visits_total", "challenge"] == 0
    assert samples["hedgerow_stopped_total", "trap"] == 1
    assert samples["hedgerow_stopped_total", "density-visitor"] == 2
    assert samples["hedgerow_blocked_total",] == 2
    assert samples["hedgerow_pages_untouched_total", 'odd "reason"\n'] == 1
    assert samples["hedgerow_state_visitors",] == 0
    assert samples["hedgerow_detained",] == samples["hedgerow_detentions_total",] == 0
    assert all(family.documentation for family in families.values())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200), ("HEAD", "/health", 200), ("GET", "/x", 404), ("POST", "/", 405),
        ("DELETE", "/blocks", 405), ("GET", "/forgive", 404), ("PUT", "/forgive", 405),
    ],
)  # fmt: skip
def test_paths_and_methods(method, path, status):
    answer = ask(Client(), path, method=method)
    assert answer.status == status
    assert answer.header("cache-control") == b"no-store"
    if method == "HEAD":
        assert answer.body == b""


def test_what_is_not_http_is_left_alone():
    async def never(*_):
        raise AssertionError

    asyncio.run(Admin(Client().site)({"type": "lifespan"}, never, never))


def test_models_and_what_they_have_judged_are_shown():
    client = Client()
    watch = client.site.watch.watch
    watch.paths = Panel("paths", shipped("boosted"), shipped("pathmarker"))
    session = PathSession()
    for n in range(20):
        session.add(1.8e9 + n, f"/{n}", None)
    watch.paths.judge(session, "192.0.2.1", 1.8e9)
    (judged,) = watch.paths.record.judged
    watch.paths.record.drift.counts["10"] = [
        [300] + [0] * (len(bins.shares) - 1) for bins in watch.paths.bundle.stages[0].bins
    ]
    told, windows = json.loads(ask(client, "/models").body)
    assert (told["judged"], windows["kind"]) == ({judged: 1}, "windows")
    assert told["compared"]["differences"][0]["visitor"] == "192.0.2.1"
    metrics = ask(client, "/metrics").body.decode()
    assert f'hedgerow_watch_shadow_total{{as="{judged}",kind="paths",shadow="person"}} 1.0' in metrics
    assert 'hedgerow_watch_drift{feature="depth",kind="paths",visits="10"}' in metrics


def test_campaigns_are_listed_with_a_sentence_why():
    client = Client()
    try:
        found = Campaign("ABC123", "sharing", 1.0, 2.0, tuple(f"192.0.2.{n}" for n in range(30)), "They <share> links.")
        client.site.watch.watch.sharing.restore([found])
        (told,) = json.loads(ask(client, "/campaigns").body)
        assert told["members"] == list(found.members)
        assert "hedgerow_campaigns 1.0" in ask(client, "/metrics").body.decode()
    finally:
        client.site.close()

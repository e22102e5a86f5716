"""Traces in process: what spans say and belong to, whose `traceparent` counts, and what happens without a collector."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from driving import Client, traps_in
from driving_wsgi import WsgiClient
from hedgerow.errors import SettingsError, UpstreamError
from hedgerow.web import traces
from otlp_collector import Collector, collector

BROWSER = {
    "accept": "text/html,*/*;q=0.8",
    "accept-language": "en",
    "accept-encoding": "gzip",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
    "sec-fetch-site": "none",
}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_EXPORT_EVERY_MS", 50)


@pytest.fixture
def sink() -> Iterator[Collector]:
    with collector() as kept:
        yield kept


def traced(sink: Collector, more: str = "", *, share: float = 1.0) -> str:
    return (
        f"[traces]\nenabled = true\nendpoint = '{sink.endpoint}'\nshare = {share}\nservice_name = 'shop'\n"
        f"[challenge]\nstore = 'memory'\n{more}"
    )


@pytest.mark.parametrize("kind", [Client, WsgiClient])
def test_a_page_has_the_spans_of_its_steps_and_what_was_decided(sink, kind):
    client = kind(text=traced(sink))
    assert client.get("/a?secret=1", headers=BROWSER).status == 200
    (root,) = sink.named("request")
    children = {name: sink.named(name)[0] for name in ("gate", "upstream", "rewrite")}
    assert {span.parent for span in children.values()} == {root.id}
    assert {span.trace for span in children.values()} == {root.trace}
    assert root.start <= children["gate"].start <= children["gate"].end <= children["upstream"].start
    assert children["upstream"].end <= children["rewrite"].end <= root.end
    assert (root.parent, root.service, root.failed) == ("", "shop", False)
    expected = {
        "http.request.method": "GET", "http.response.status_code": 200, "url.path": "/a",
        "server.address": "example.org", "hedgerow.action": "pass", "hedgerow.observed": False,
    }  # fmt: skip
    assert expected.items() <= root.attributes.items()
    assert "192.0.2.1" not in str(root), "addresses stay where they are"


def test_a_refusal_says_action_code_and_reference(sink):
    client = Client(text=traced(sink))
    trap = traps_in(client.get("/", headers=BROWSER).body)[0]
    refused = client.get(trap, headers=BROWSER)
    reference = refused.header("hedgerow-decision").decode().rpartition("ref=")[2]
    found = sink.named("request", 2)[1]
    assert found.attributes["hedgerow.action"] == "refuse"
    assert found.attributes["hedgerow.code"] == client.entries[-1].decision.code
    assert found.attributes["hedgerow.reference"] == reference
    assert found.attributes["http.response.status_code"] == 403
    assert found.attributes["url.path"] == "(marked link)"
    assert len(sink.named("upstream")) == 1, "the site was not asked"


def test_the_rule_for_a_path_is_named(sink):
    client = Client(text=traced(sink, "[[path]]\npath = '/open/*'\nprotection = 'off'\n"))
    client.get("/open/1", headers=BROWSER)
    assert sink.named("request")[0].attributes["hedgerow.rule"] == "/open/*"


@pytest.mark.parametrize("kind", [Client, WsgiClient])
def test_the_trace_of_the_client_is_continued_to_the_application(sink, kind):
    client = kind(text=traced(sink))
    client.get("/", headers=BROWSER | {"traceparent": f"00-{TRACE}-{PARENT}-00", "tracestate": "a=1"})
    root, upstream = sink.named("request")[0], sink.named("upstream")[0]
    assert (root.trace, root.parent) == (TRACE, PARENT)
    if kind is Client:
        seen = dict(client.app.scopes[-1]["headers"])
        got, state = seen[b"traceparent"].decode(), seen[b"tracestate"].decode()
    else:
        got, state = client.app.environs[-1]["HTTP_TRACEPARENT"], client.app.environs[-1]["HTTP_TRACESTATE"]
    assert got == f"00-{TRACE}-{upstream.id}-01"
    assert state == "a=1"


@pytest.mark.parametrize(
    "header", ["", "00-1-2-01", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", "\xe9", f"00-{TRACE}-{PARENT}"]
)
def test_a_malformed_parent_begins_a_new_trace(sink, header):
    client = Client(text=traced(sink))
    client.get("/", headers=BROWSER | {"traceparent": header, "tracestate": "a=1"})
    root = sink.named("request")[0]
    assert root.parent == ""
    assert b"tracestate" not in dict(client.app.scopes[-1]["headers"])


def test_two_parents_begin_a_new_trace(sink):
    client = Client(text=traced(sink))
    twice = [(b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())] * 2
    client.get("/", headers=[(name.encode(), value.encode()) for name, value in BROWSER.items()] + twice)
    assert sink.named("request")[0].parent == ""


def test_a_client_cannot_choose_to_be_recorded_and_a_trusted_proxy_can(sink):
    client = Client(text=traced(sink, "[identity]\ntrusted_proxies = ['10.0.0.1']\n", share=0.0))
    sampled = BROWSER | {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    client.get("/client", headers=sampled)
    assert dict(client.app.scopes[-1]["headers"])[b"traceparent"] == f"00-{TRACE}-{PARENT}-01".encode()
    client.get("/proxy", headers=sampled | {"x-forwarded-for": "192.0.2.1"}, peer="10.0.0.1")
    (root,) = sink.named("request")
    assert root.attributes["url.path"] == "/proxy"


def test_a_trusted_proxy_can_choose_that_nothing_is_recorded(sink):
    client = Client(text=traced(sink, "[identity]\ntrusted_proxies = ['10.0.0.1']\n"))
    said = BROWSER | {"traceparent": f"00-{TRACE}-{PARENT}-00", "x-forwarded-for": "192.0.2.1"}
    client.get("/not", headers=said, peer="10.0.0.1")
    client.get("/yes", headers=BROWSER)
    assert [span.attributes["url.path"] for span in sink.named("request")] == ["/yes"]


def test_about_the_share_of_requests_is_recorded(sink):
    client = Client(text=traced(sink, share=0.3))
    for number in range(400):
        client.get(f"/{number}.png", headers=BROWSER)
    client.site.tracer.close()
    assert 60 <= len(sink.named("request")) <= 190


def test_a_collector_that_does_not_answer_blocks_no_request_and_losses_are_counted(sink, monkeypatch):
    monkeypatch.setattr(traces, "_QUEUE", 512)
    asked = []
    admit = traces._Queue.admit
    monkeypatch.setattr(traces._Queue, "admit", lambda queue: asked.append(1) or admit(queue))
    client = Client(text=traced(sink))
    sink.waits.clear()
    slowest = 0.0
    for number in range(300):
        began = time.monotonic()
        client.get(f"/{number}.png", headers=BROWSER)
        slowest = max(slowest, time.monotonic() - began)
    site = client.site
    metrics = site.own_metrics().spans
    assert metrics["dropped"] > 0
    assert len(asked) >= 300 * 3
    assert slowest < traces._TIMEOUT / 2, "a request waited for the collector"
    sink.waits.set()
    client.site.close()
    counts = site.tracer.counts
    assert counts["exported"] + counts.get("failed", 0) + counts["dropped"] == len(asked)
    assert counts["dropped"] == metrics["dropped"]


def test_without_a_collector_spans_are_counted_as_failed_and_the_end_does_not_wait(caplog):
    client = Client(text="[traces]\nenabled = true\nendpoint = 'http://127.0.0.1:9/v1/traces'\n")
    client.get("/", headers=BROWSER)
    tracer = client.site.tracer
    end = time.monotonic() + 30
    while not tracer.counts.get("failed"):
        assert time.monotonic() < end
        time.sleep(0.02)
    client.get("/", headers=BROWSER)
    began = time.monotonic()
    client.site.close()
    assert time.monotonic() - began < traces._TIMEOUT
    assert sum("does not take the traces" in one.message for one in caplog.records) == 1


def test_a_failure_of_the_site_is_an_error_of_both_spans(sink):
    class Broken:
        def __init__(self, *_: object) -> None: ...

        async def __call__(self, *_: object) -> None:
            raise UpstreamError("connect", "nobody listens")

    client = Client(Broken(), traced(sink))
    assert client.get("/", headers=BROWSER).status == 502
    root, upstream = sink.named("request")[0], sink.named("upstream")[0]
    assert root.failed
    assert upstream.failed
    assert upstream.attributes["error.type"] == "connect"


def test_nothing_is_imported_while_traces_are_off():
    code = (
        "import sys; from hedgerow.asgi import Hedgerow; from hedgerow.settings import read_settings;"
        "h = Hedgerow(None, settings=read_settings('[state]\\ndurable = false\\n[ledger]\\nenabled = false\\n"
        "[lists]\\nenabled = false', environment={}));"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'google', 'requests'))]); h.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_the_start_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    monkeypatch.delitem(sys.modules, "hedgerow.web.traces")
    with pytest.raises(SettingsError, match=r"pip install 'hedgerow\[otel\]'"):
        Client(text="[traces]\nenabled = true\n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [("share = 1.5", "between 0 and 1"), ("endpoint = 'collector:4318'", "https:// or http://"),
     ("service_name = ''", "must not be empty")],
)  # fmt: skip
def test_faulty_settings_are_named(text, fault):
    with pytest.raises(SettingsError, match=fault):
        Client(text=f"[traces]\n{text}\n")

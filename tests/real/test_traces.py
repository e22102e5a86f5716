"""Traces of `hedgerow protect`: a collector on loopback gets them, from one process and from workers."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from otlp_collector import Collector, collector

from .servers import Protect, free_port, wait_for

PAGE = b"<!DOCTYPE html><html><head><title>t</title></head><body><a href='/b'>b</a></body></html>"


@pytest.fixture
def sink() -> Iterator[Collector]:
    with collector() as kept:
        yield kept


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """A site that answers with a page, and with the trace that it was asked with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(PAGE)))
            self.send_header("x-asked-with", self.headers.get("traceparent", "none"))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


BROWSER = {"user-agent": "Mozilla/5.0", "accept": "text/html", "sec-fetch-mode": "navigate"}


def ask(hedgerow: Protect, path: str, **headers: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", hedgerow.port, timeout=60)
    connection.request("GET", path, headers=BROWSER | headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def settings(sink: Collector) -> str:
    return f"[traces]\nenabled = true\nendpoint = '{sink.endpoint}'\nservice_name = 'front'\n"


@pytest.mark.parametrize("options", [[], ["--workers", "2"]], ids=["one process", "workers"])
def test_spans_of_a_running_proxy_arrive_and_the_site_continues_them(protect, site, sink, options):
    hedgerow = protect(site, settings=settings(sink), options=options)
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    answer = ask(hedgerow, "/a", traceparent=f"00-{trace}-{parent}-01")
    root, upstream = sink.named("request")[0], sink.named("upstream")[0]
    assert (root.trace, root.parent, root.service) == (trace, parent, "front")
    assert answer.headers["x-asked-with"] == f"00-{trace}-{upstream.id}-01"
    assert {"hedgerow.action": "pass", "http.response.status_code": 200}.items() <= root.attributes.items()
    assert sink.named("gate")[0].parent == sink.named("rewrite")[0].parent == upstream.parent == root.id
    wait_for("the metric", lambda: hedgerow.metric('hedgerow_spans_total{result="exported"}') == 4)


def test_a_refused_crawler_is_seen_with_its_reason(protect, site, sink):
    hedgerow = protect(site, settings=settings(sink))
    for number in range(60):
        ask(hedgerow, f"/{number}")
    refused = [span for span in sink.named("request", 60) if span.attributes["hedgerow.action"] != "pass"]
    assert refused
    assert {span.attributes["http.response.status_code"] for span in refused} <= {401, 403, 429}
    references = {span.attributes["hedgerow.reference"] for span in refused}
    assert len(references) == len(refused)
    assert all(span.attributes["hedgerow.code"] for span in refused)


def test_an_absent_collector_disturbs_nobody_and_not_the_end(protect: Callable[..., Protect], site: str):
    own = f"[traces]\nenabled = true\nendpoint = 'http://127.0.0.1:{free_port()}/v1/traces'\n"
    hedgerow = protect(site, settings=own)
    assert ask(hedgerow, "/a").status == 200
    wait_for("failures", lambda: hedgerow.metric('hedgerow_spans_total{result="failed"}') == 4)
    assert ask(hedgerow, "/b").status == 200
    assert hedgerow.ask_admin("/ready") == "well\n"
    hedgerow.stop(patience=15)
    assert hedgerow.said().count("does not take the traces") == 1
    assert "opentelemetry" not in hedgerow.said()


def test_traces_are_off_by_default(protect: Callable[..., Protect], site: str):
    hedgerow = protect(site)
    assert ask(hedgerow, "/a", traceparent="anything").headers["x-asked-with"] == "anything"
    maps = Path(f"/proc/{hedgerow.pid}/maps").read_text()
    assert "google" not in maps
    assert "hedgerow_spans" not in hedgerow.ask_admin("/metrics")

"""A collector of traces on loopback: it takes OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE = 60.0


class Span(NamedTuple):
    """A span as it arrived. *parent* is "" if the trace begins with it."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    failed: bool
    attributes: dict[str, Any]


class Collector:
    """The spans that have arrived. While *waits*, every request has to wait for its answer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.endpoint = ""
        self.waits = threading.Event()
        self.waits.set()

    def named(self, name: str, count: int = 1) -> list[Span]:
        """Return all spans with this name, as soon as there are *count* of them."""
        end = time.monotonic() + PATIENCE
        while len(found := [span for span in self.spans if span.name == name]) < count:
            assert time.monotonic() < end, f"{count} spans {name!r} were waited for, and only {self.spans} came"
            time.sleep(0.02)
        return found


@contextmanager
def collector() -> Iterator[Collector]:
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            kept.waits.wait(PATIENCE)
            kept.spans += spans_of(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        kept.endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kept
        kept.waits.set()
        server.shutdown()


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = next(one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
        for scope in resource.scope_spans:
            for span in scope.spans:
                attributes = {
                    one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value")
                    for one in span.attributes
                }
                yield Span(
                    service, span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
                    span.start_time_unix_nano, span.end_time_unix_nano, span.status.code == 2, attributes,
                )  # fmt: skip

"""
Traces of requests through OpenTelemetry, an extra: this module is imported only if `traces.enabled` is set.

    request     from the first header to the end of the response; says what was decided and why
      gate      the visitor is identified, and the decision made
      upstream  until the head of the site's response; the site gets the id of this span as `traceparent`
      rewrite   from that head to the end of a page whose links are changed

A `traceparent` of the client or of a proxy is continued. Whether a request is recorded is chosen by the share of the
settings, or by a trusted proxy: a client cannot choose. Spans wait in a bounded queue for a thread that exports them,
so a request never waits for the collector. Spans for which there is no room are dropped and counted.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hedgerow import __version__
from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit
from hedgerow.request.path_rules import rule_of
from hedgerow.settings.operation_tables import TracesSettings
from hedgerow.web.request_log import shown_path

log = logging.getLogger(__name__)

_QUEUE = 4096
_BATCH = 512
_EXPORT_EVERY_MS = 1000
_TIMEOUT = 5.0
_REPORT_EVERY = 300.0
_MAX_TEXT = 300
_SERVER_ERROR = 500
_CONTEXT_HEADERS = frozenset({b"traceparent", b"tracestate"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_PROPAGATOR = TraceContextTextMapPropagator()

Headers = Sequence[tuple[bytes, bytes]]


class Tracer:
    """Makes and exports the traces of one site, with the name *site* if there are several."""

    def __init__(self, settings: TracesSettings, site: str = "") -> None:
        self._share = settings.share
        self._site = site
        self._queue = _Queue(OTLPSpanExporter(endpoint=settings.endpoint, timeout=_TIMEOUT), settings.endpoint)
        resource = Resource.create({"service.name": settings.service_name, "service.version": __version__})
        # Not the global provider: that belongs to the application around which the middleware is.
        self._provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
        self._provider.add_span_processor(_BoundedProcessor(self._queue))
        self._tracer = self._provider.get_tracer("hedgerow", __version__)

    @property
    def counts(self) -> dict[str, int]:
        """Spans by what became of them: exported, failed, dropped."""
        return dict(self._queue.counts)

    def begin(self, headers: Headers, began: float, *, trusted: bool) -> Trace | None:
        """
        Return the trace of a request that began at *began* on the clock of `perf_counter`; None if it is not recorded.

        If it is *trusted*, a proxy has sent it and has chosen whether to record it.
        """
        parent = _parent_of(headers)
        said = get_current_span(parent).get_span_context()
        recorded = said.trace_flags.sampled if trusted and said.is_valid else random.random() < self._share  # noqa: S311
        if not recorded:
            return None
        zero = time.time_ns() - time.perf_counter_ns()
        root = self._tracer.start_span("request", parent, SpanKind.SERVER, start_time=zero + int(began * 1e9))
        if self._site:
            root.set_attribute("hedgerow.site", self._site)
        return Trace(self, root, zero)

    def start_span(self, name: str, parent: Span, kind: SpanKind, start: int) -> Span:
        return self._tracer.start_span(name, set_span_in_context(parent), kind, start_time=start)

    def close(self) -> None:
        """Export what waits, unless the collector does not answer."""
        self._queue.closing()
        self._provider.shutdown()


def _parent_of(headers: Headers) -> Context:
    """Return the context that the headers name: an empty one without a valid `traceparent`, or with several."""
    found = [(name.decode(), value.decode("latin-1")) for name, value in headers if name in _CONTEXT_HEADERS]
    carrier = dict(found)
    if "traceparent" not in carrier or sum(name == "traceparent" for name, _ in found) > 1:
        return Context()
    carrier["tracestate"] = ",".join(value for name, value in found if name == "tracestate")
    return _PROPAGATOR.extract(carrier, Context())


class Trace:
    """The spans of one request. Times are those of `perf_counter`."""

    def __init__(self, tracer: Tracer, root: Span, zero: int) -> None:
        self._tracer = tracer
        self._root = root
        self._zero = zero
        self._upstream: Span | None = None
        self._failure = ""

    def decided(self, began: float, ended: float) -> None:
        """Add the span of the gate."""
        span = self._tracer.start_span("gate", self._root, SpanKind.INTERNAL, self._at(began))
        span.end(self._at(ended))

    def ask(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Begin the span of the upstream, and return the headers with its id in place of that of the client."""
        if self._upstream is None:
            self._upstream = self._tracer.start_span(
                "upstream", self._root, SpanKind.CLIENT, self._at(time.perf_counter())
            )
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(self._upstream))
        kept = [pair for pair in headers if pair[0] not in _CONTEXT_HEADERS]
        return [*kept, *((name.encode(), value.encode("latin-1")) for name, value in carrier.items())]

    def fail(self, kind: str) -> None:
        """Note that the upstream has failed, and how."""
        self._failure = kind

    def answered(self, answered_at: float, status: int, rewrite_seconds: float) -> None:
        """End the span of the upstream at *answered_at*, or now if it is 0, and add that of the rewriting."""
        now = time.perf_counter()
        if self._upstream is not None:
            if answered_at:
                self._upstream.set_attribute("http.response.status_code", status)
            if self._failure:
                self._upstream.set_attribute("error.type", self._failure)
                self._upstream.set_status(StatusCode.ERROR, self._failure)
            self._upstream.end(self._at(answered_at or now))
        if rewrite_seconds:
            span = self._tracer.start_span("rewrite", self._root, SpanKind.INTERNAL, self._at(answered_at))
            span.set_attribute("hedgerow.rewrite.seconds", rewrite_seconds)
            span.end(self._at(now))

    def note(self, visit: Visit, decision: Decision, status: int, reference: str, request_id: str) -> None:
        """Say what was decided on the request, and how it was answered."""
        known = visit.method in _METHODS
        attributes: dict[str, str | int | bool] = {
            "http.request.method": visit.method if known else "_OTHER",
            "http.response.status_code": status,
            "url.path": shown_path(visit)[:_MAX_TEXT],
            "server.address": visit.host[:_MAX_TEXT],
            "hedgerow.action": decision.action,
            "hedgerow.code": decision.code,
            "hedgerow.observed": bool(decision.observed),
            "hedgerow.rule": rule_of(decision.evidence)[:_MAX_TEXT],
            "hedgerow.kind": visit.kind,
            "hedgerow.reference": reference,
            "hedgerow.request_id": request_id,
        }
        self._root.set_attributes({name: value for name, value in attributes.items() if value != ""})
        if status >= _SERVER_ERROR:
            self._root.set_status(StatusCode.ERROR, self._failure or None)

    def end(self) -> None:
        self._root.end()

    def _at(self, moment: float) -> int:
        return self._zero + int(moment * 1e9)


class _Queue(SpanExporter):
    """Counts the spans that wait, and what becomes of them, around the *exporter* of the library."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self.counts: Counter[str] = Counter()
        self._exporter = exporter
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._waiting = 0
        self._failing = False
        self._report_at = 0.0

    def admit(self) -> bool:
        """Return whether there is room for one more span, and count it."""
        with self._lock:
            if self._waiting >= _QUEUE:
                self.counts["dropped"] += 1
                return False
            self._waiting += 1
            return True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            self._waiting -= len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self._failing = result is not SpanExportResult.SUCCESS
            with self._lock:
                self.counts["failed" if self._failing else "exported"] += len(spans)
            self._report()
        return result

    def _report(self) -> None:
        """Say now and then that the collector does not take the spans."""
        now = time.monotonic()
        if self._failing and now >= self._report_at:
            self._report_at = now + _REPORT_EVERY
            log.warning("the collector at %s does not take the traces; they are dropped", self._endpoint)

    def closing(self) -> None:
        """Before the last export: do not wait for a collector that does not answer."""
        if self._failing:
            self._exporter.shutdown()

    def shutdown(self) -> None:
        if not self._failing:
            self._exporter.shutdown()


class _BoundedProcessor(BatchSpanProcessor):
    """Drops spans before the queue of the library is full, because that one does not count what it loses."""

    def __init__(self, queue: _Queue) -> None:
        super().__init__(queue, _QUEUE, _EXPORT_EVERY_MS, _BATCH)
        self._bound = queue

    def on_end(self, span: ReadableSpan) -> None:
        if self._bound.admit():
            super().on_end(span)

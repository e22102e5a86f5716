"""Metrics about the operation of a gate: decisions by action and code, durations, errors, queues, version and mode."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hedgerow import __version__
from hedgerow.web.app import Site
from hedgerow.web.daily_limits import limits_of
from hedgerow.web.latency import STAGES, cumulated
from hedgerow.web.metrics import SiteMetrics

_PARTS = ("journal", "ledger", "lists", "state", "watch")
_STORES = ("journal", "ledger", "lists", "state", "subscriptions")
_QUEUES = ("ledger", "watch")
_SPANS = ("exported", "failed", "dropped")


class OperationCollector(Collector):
    """Read at each request, for all processes of the site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def collect(self) -> Iterable[Metric]:
        site, metrics = self._site, self._site.metrics()
        yield _decisions(metrics)
        durations = HistogramMetricFamily(
            "hedgerow_duration_seconds",
            "Duration of a request's stages: the gate's decision, the site's response, rewriting of the page",
            labels=["stage"],
        )
        for stage in STAGES:
            durations.add_metric([stage], *cumulated(metrics.latency, stage))
        yield durations
        errors = CounterMetricFamily("hedgerow_store_errors", "Failed accesses to a store", labels=["store"])
        for store in _STORES:
            errors.add_metric([store], metrics.store_errors.get(store, 0))
        yield errors
        failing = GaugeMetricFamily("hedgerow_failing", "Processes in which a part fails now", labels=["part"])
        problems = [site.problems(), *site.problems_of_workers().values()]
        for part in _PARTS:
            failing.add_metric([part], sum(part in each for each in problems))
        failing.add_metric(["certificate"], int(bool(site.certificate_problem)))
        yield failing
        queues = GaugeMetricFamily("hedgerow_queue_length", "Visits that wait in a queue", labels=["queue"])
        for queue in _QUEUES:
            queues.add_metric([queue], metrics.queues.get(queue, 0))
        yield queues
        budget = GaugeMetricFamily("hedgerow_budget_pages", "Pages a day that visitors may read", labels=["clearance"])
        for clearance, limit in zip(("no", "yes"), limits_of(site.app.settings), strict=True):
            budget.add_metric([clearance], limit.pages)
        yield budget
        if site.tracer is not None:
            spans = CounterMetricFamily("hedgerow_spans", "Spans of traces by their fate", labels=["result"])
            for result in _SPANS:
                spans.add_metric([result], metrics.spans.get(result, 0))
            yield spans
        yield from self._about()

    def _about(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("hedgerow_build_info", "Version of Hedgerow", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1)
        yield build
        observes = bool(self._site.app.settings.observe)
        yield GaugeMetricFamily("hedgerow_observing", "1 if decisions are recorded and not enforced", int(observes))
        attacked = self._site.attack_until(time.time()) > 0
        yield GaugeMetricFamily(
            "hedgerow_under_attack",
            "1 if every visitor without a clearance needs one: hedgerow attack on",
            int(attacked),
        )


def _decisions(metrics: SiteMetrics) -> Metric:
    """Return decisions by action and code. Those that were only observed have passed, and say so."""
    family = CounterMetricFamily(
        "hedgerow_decisions", "Decisions by action and code of the reason", labels=["action", "code", "observed"]
    )
    family.add_metric(["pass", "", "false"], metrics.decided.get("pass", 0))
    for key, count in sorted(metrics.stopped.items()):
        observed, action, code = key.split(" ", 2)
        family.add_metric([action, code, observed], count)
    return family

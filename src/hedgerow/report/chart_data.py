"""
Chart data: what a report draws, in numbers; `html.charts` draws it.

All data are reduced to what a page can hold, whatever the length of the log and the number of sources.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.report.result import CampaignResult, Report, SourceResult
from hedgerow.report.shape.autocorrelation import Levels, autocorrelation, runs_of, standard_errors
from hedgerow.report.shape.series import SIX_HOURS, Counts, SeriesPlan, decompose, operators, plan_of
from hedgerow.report.source_labels import CRAWLER, LABELS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PORTRAITS = 12
"""Crawlers that are drawn."""

OVERLAYS = 12
"""Campaigns that are drawn, and members that are drawn of each."""

_BARS = 200
_STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
_MICROSECONDS = 1_000_000


class Traffic(msgspec.Struct, frozen=True):
    """Requests by label in intervals of *step* seconds from *origin* on."""

    origin: float
    step: float
    counts: dict[str, list[int]]


class Portrait(msgspec.Struct, frozen=True):
    """
    A crawler's busiest window: requests in intervals of *interval* seconds from *origin* on, and what they fall into.

    *coefficients* are those of auto-correlation from lag 1 on, *errors* their standard errors, *spikes* the lags of
    local spikes. *trend*, *season* and *rest* add up to *counts*.
    """

    source: SourceResult
    origin: float
    interval: float
    counts: list[float]
    coefficients: list[float]
    errors: list[float]
    spikes: list[int]
    trend: list[float]
    season: list[float]
    rest: list[float]


class Overlay(msgspec.Struct, frozen=True):
    """
    A campaign, and for some members the share of its own requests in each interval. Series that match only when shifted
    are shifted.
    """

    campaign: CampaignResult
    origin: float
    step: float
    series: list[list[float]]


def step_of(span: float, most: int = _BARS) -> float:
    """
    Return the seconds of an interval, so that a log of *span* seconds has at most *most* intervals.

    >>> step_of(7 * 86400), step_of(365 * 86400)
    (3600, 172800)
    """
    return next((step for step in _STEPS if span / step < most - 1), math.ceil(span / (most - 1)) or 1)


def traffic_of(report: Report) -> Traffic:
    """Requests by label over the whole log."""
    tables = report.tables
    step = step_of(tables.span)
    origin = tables.origin // step * step
    found = tables.store.series(round(origin * _MICROSECONDS), round(step * _MICROSECONDS))
    label = report.judgements.label[tables.places(found["source"])]
    bins = found["bin"].astype(np.int64)
    counts = np.zeros((len(LABELS), int(bins.max(initial=0)) + 1))
    np.add.at(counts, (label, bins), found["n"])
    return Traffic(
        origin, step, {name: counts[k].astype(np.int64).tolist() for k, name in enumerate(LABELS) if counts[k].any()}
    )


def portraits_of(report: Report, most: int = PORTRAITS) -> tuple[SeriesPlan, list[Portrait]]:
    """Return the plan of the series, and portraits of the crawlers with the most requests."""
    tables = report.tables
    plan = plan_of(tables.origin, tables.origin + tables.span)
    ranked = report.ranked
    top = ranked[report.judgements.label[ranked] == CRAWLER][:most]
    if not plan.points or not len(top):
        return plan, []
    chosen = np.sort(top)
    counts = _asked(report, chosen, tables.origin, plan.interval)
    starts = _busiest(counts, plan)
    (_, block), *_ = counts.blocks(np.arange(len(chosen)), starts, plan.points)
    coefficients = autocorrelation(block, plan.lags)
    errors = standard_errors(coefficients, plan.points)
    significance = runs_of(coefficients, plan.points).significance
    trend, season = decompose(block, operators(plan.points, plan.period, SIX_HOURS, SIX_HOURS))
    drawn = {}
    for row, place in enumerate(chosen.tolist()):
        drawn[place] = Portrait(
            report.source(place),
            plan.origin + float(starts[row]) * plan.interval,
            plan.interval,
            block[row].tolist(),
            coefficients[row].tolist(),
            errors[row].tolist(),
            _peaks(significance[row], coefficients[row]),
            trend[row].tolist(),
            season[row].tolist(),
            (block[row] - trend[row] - season[row]).tolist(),
        )
    return plan, [drawn[place] for place in top.tolist()]


def overlays_of(report: Report, most: int = OVERLAYS) -> list[Overlay]:
    """Return the largest campaigns as overlaid lines."""
    tables = report.tables
    places = {name: place for place, name in enumerate(tables.sources)} if report.campaigns else {}
    found = []
    for campaign in sorted(report.campaigns, key=lambda c: (-len(c.members), c.id))[:most]:
        inside = np.array([places[name] for name in campaign.members if name in places], np.int64)
        busiest = np.sort(inside[np.lexsort((inside, -tables.requests[inside]))][:most])
        first, last = tables.first[busiest], tables.last[busiest]
        step = step_of(float(last.max() - first.min()))
        shifts = [campaign.shifts.get(tables.sources[place], 0.0) for place in busiest.tolist()]
        later = np.rint(np.array(shifts) / step).astype(np.int64)
        begin, end = int((first // step + later).min()), int((last // step + later).max())
        rows = np.zeros((len(busiest), end - begin + 1))
        counted = _asked(report, busiest, begin * step, step)
        rows[counted.rows, counted.bins + later[counted.rows]] = counted.values
        shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
        found.append(Overlay(campaign, begin * step, step, shares.tolist()))
    return found


def _asked(report: Report, chosen: Ints, origin: float, step: float) -> Counts:
    """Return the requests of the sources at *chosen* in intervals of *step* seconds from *origin* on."""
    tables = report.tables
    times = round(origin * _MICROSECONDS), round(step * _MICROSECONDS)
    found = tables.store.series_of(tables.figures.sources[chosen], *times)
    rows = np.searchsorted(tables.figures.sources[chosen], found["source"])
    return Counts(rows, found["bin"].astype(np.int64), found["n"].astype(np.float64), len(chosen))


def _busiest(counts: Counts, plan: SeriesPlan) -> Ints:
    """Return the start of each source's busiest window, the first of equals."""
    best = np.zeros(counts.size, np.int64)
    last = plan.bins - plan.points
    for row in range(counts.size):
        mine = counts.rows == row
        bins, values = counts.bins[mine], counts.values[mine]
        sums = np.bincount(bins // plan.points, values)
        start = int(sums.argmax()) * plan.points
        # The last window ends with the log and overlaps the one before.
        if start > last or values[bins >= last].sum() > sums.max():
            start = last
        best[row] = start
    return best


def _peaks(significance: NDArray[np.bool_], coefficients: Floats) -> list[int]:
    """Return the lags of local spikes: the highest lag of each short significant run, except the run from lag 1."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], significance.astype(np.int8), [0]))))
    return [
        begin + int(np.abs(coefficients[begin:end]).argmax()) + 1
        for begin, end in edges.reshape(-1, 2).tolist()
        if begin and end - begin <= Levels().local_low
    ]

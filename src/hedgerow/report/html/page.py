"""
The report as one HTML file that needs nothing else.

Style and script are inside. The Content-Security-Policy allows only these, by their digests, and nothing may be loaded.
Sections without data are left out. The same report gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files

from hedgerow.report.chart_data import PORTRAITS, Overlay, Portrait, Traffic, overlays_of, portraits_of, traffic_of
from hedgerow.report.heuristics import NAMES
from hedgerow.report.html.charts import (
    bar_of_shares,
    correlation_chart,
    lasting,
    overlay_chart,
    parts_chart,
    series_chart,
    share_chart,
    traffic_chart,
)
from hedgerow.report.html.tables import Cell, Column, count, counted, cut, escaped, percent, table, text, when
from hedgerow.report.request_volumes import K1, K2
from hedgerow.report.result import Containment, Report, SourceResult
from hedgerow.report.source_labels import CRAWLER, LABELS
from hedgerow.report.summary import deeds, summary_of

SOURCES_BUDGET = 1_200_000
CAMPAIGNS_BUDGET = 300_000
"""Bytes for the rows of the long tables; all else together stays well below a megabyte."""

WORDS = {"crawler": "crawlers", "person": "people", "good-bot": "good bots", "unknown": "unknown"}
_DAY = 86_400
_SMALL = 100_000
_LONGEST_REASON = 600
_MEMBERS = 40
_LONGEST_AGENT = 500
_MOST_EVIDENCE = 8
_SHORT_EVIDENCE = 3


def page(report: Report, *, refresh: int = 0) -> Iterator[str]:
    """Yield the page of *report*, in pieces of ASCII. It loads itself again after *refresh* seconds, if not 0."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    host = ", ".join(report.tables.hosts[:3])
    title = f"Who crawls {host}" if host else "Who crawls the site"
    again = f' data-refresh="{refresh}"' if refresh else ""
    sections = [section for section in _sections(report) if section[2]]
    links = "".join(f'<li><a href="#{name}">{escaped(heading)}</a></li>' for name, heading, _ in sections)
    yield (
        f'<!doctype html>\n<html lang="en"{again}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(cut(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#summary">To the summary</a>\n<header>\n'
        f"<h1>{escaped(cut(title))}</h1>\n<p>{_read(report)}</p>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n</header>\n<main>\n'
    )
    for name, heading, body in sections:
        yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escaped(heading)}</h2>\n'
        yield from body
        yield "</section>\n"
    yield "</main>\n<footer><p>Made by hedgerow report. All times are UTC.</p></footer>\n"
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _asset(name: str) -> str:
    return (files("hedgerow.data") / "report" / name).read_text("ascii")


def _digest(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _sections(report: Report) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name, the heading and the contents of each section; no contents if there are no data."""
    traffic = traffic_of(report)
    plan, portraits = portraits_of(report)
    overlays = overlays_of(report)
    yield "summary", "Summary", list(_summary(report))
    yield "traffic", "Traffic", [*_traffic(traffic), *_residual_traffic(report)] if report.read_counts.parsed else []
    yield "crawlers", "The busiest crawlers", list(_portraits(report, plan.description, portraits))
    yield "campaigns", "Campaigns", list(_campaigns(report, overlays))
    yield "sources", "All sources", list(_sources(report))
    yield "reasons", "How they were found", _behind_a_click("The heuristics and rules", _reasons(report))
    yield (
        "containment",
        "Daily limits (containment)",
        _behind_a_click("What k1 and k2 would touch", _containment(report)),
    )
    yield "bad", "Lines that could not be read", list(_bad(report))


def _behind_a_click(summary: str, parts: Iterator[str]) -> list[str]:
    found = list(parts)
    return [f"<details><summary>{summary}</summary>\n", *found, "</details>\n"] if found else []


def _read(report: Report) -> str:
    counts = report.read_counts
    read = f"{counted(counts.lines, 'line', 'lines')} ({escaped(', '.join(counts.formats)) or 'no format'})"
    if counts.first is None or counts.last is None:
        return f"{read}, none of which could be read. {escaped(report.advice)}"
    days = (counts.last - counts.first) / _DAY
    method = "" if report.method is None else f" {escaped(report.method.text)}"
    return f"{read} from {when(counts.first)} to {when(counts.last)} UTC: {days:,.1f} days.{method}"


def _summary(report: Report) -> Iterator[str]:
    summary = summary_of(report)
    totals = report.totals()
    requests = max(1, sum(n for _, n in totals.values()))
    yield f'<p class="headline">{escaped(summary.headline)}</p>\n'
    yield bar_of_shares({label: n / requests for label, (_, n) in totals.items() if n})
    yield '<ul class="tiles">'
    for label in LABELS:
        sources, n = totals[label]
        yield (
            f'<li><span class="key {label}" aria-hidden="true"></span>{WORDS[label]}'
            f"<b>{percent(n / requests)}</b> of requests<br>{counted(n, 'request', 'requests')}, "
            f"{counted(sources, 'source', 'sources')}</li>"
        )
    yield "</ul>\n"
    topics = (
        ("What it costs", summary.cost), ("What to do first", summary.first), ("Whom not to touch", summary.spare),
        ("How certain it is", summary.certainty),
    )  # fmt: skip
    yield '<div class="topics">'
    for heading, sentences in topics:
        if sentences:
            lines = "".join(f"<li>{escaped(line)}</li>" for line in sentences)
            yield f"<div><h3>{heading}</h3>\n<ul>{lines}</ul></div>\n"
    yield "</div>\n"
    if report.read_counts.bad:
        bad = counted(report.read_counts.bad, "line", "lines")
        yield f"<p>{bad} could not be read; see the end of this page.</p>\n"
    yield from _kinds(report, requests)


def _kinds(report: Report, requests: int) -> Iterator[str]:
    """Yield what sources do that do not read pages, and why others are unknown."""
    for heading, counts in (("Not reading pages", report.kinds()), ("Why sources are unknown", report.reasons())):
        if counts:
            lines = "".join(
                f"<li>{escaped(name)}: {counted(sources, 'source', 'sources')}, {percent(made / requests)} of requests"
                "</li>"
                for name, (sources, made) in counts.items()
            )
            yield f"<details><summary>{heading}</summary>\n<ul>{lines}</ul></details>\n"


def _residual_traffic(report: Report) -> Iterator[str]:
    if report.crowd is not None and report.crowd.text:
        yield f"<p>{escaped(report.crowd.text)}</p>\n"


def _traffic(traffic: Traffic) -> Iterator[str]:
    step = lasting(traffic.step)
    labels = [label for label in LABELS if label in traffic.counts]
    keys = "".join(f'<li><span class="key {n}" aria-hidden="true"></span>{WORDS[n]}</li>' for n in labels)
    yield (
        f'<p>Requests in each {step}.</p>\n<ul class="keys">{keys}</ul>\n'
        '<div class="scroll plot" role="region" tabindex="0" aria-label="Traffic over time; with the arrow keys it is '
        'read bar by bar" data-values="traffic-values">'
    )
    bars = len(traffic.counts[labels[0]])
    yield traffic_chart(traffic, f"Requests by label in {bars} intervals of {step}; the table below has the numbers.")
    yield "</div>\n"
    rows = (
        [
            Cell(when(traffic.origin + k * traffic.step), f"{k:05}"),
            *(count(traffic.counts[label][k]) for label in labels),
        ]
        for k in range(bars)
    )
    columns = [Column("from"), *(Column(WORDS[label], "number") for label in labels)]
    yield "<details><summary>The same as a table</summary>\n"
    yield from table("traffic-values", f"Requests in each {step}", columns, rows, bars, budget=CAMPAIGNS_BUDGET)
    yield "</details>\n"


def _portraits(report: Report, description: str, portraits: list[Portrait]) -> Iterator[str]:
    ranked = report.ranked
    chosen = ranked[report.judgements.label[ranked] == CRAWLER][:PORTRAITS].tolist()
    if not chosen:
        return
    drawn = {portrait.source.source: portrait for portrait in portraits}
    for rank, (place, source) in enumerate(zip(chosen, report.sources_at(chosen), strict=True)):
        agent = f'<p class="agent">{escaped(cut(source.agent, _LONGEST_AGENT))}</p>' if source.agent else ""
        campaign = f" It belongs to campaign {escaped(source.campaign)}." if source.campaign else ""
        yield (
            f'<article aria-labelledby="crawler-{rank}"><h3 id="crawler-{rank}">'
            f"<code>{escaped(cut(source.source))}</code></h3>{agent}"
            f"<p>It {escaped(deeds(report, place))}. {counted(source.requests, 'request', 'requests')} in all; "
            f"a crawler with a certainty of {percent(source.score)}.{campaign}</p>\n"
        )
        yield "<details><summary>Evidence and statistics</summary>\n"
        yield f"<ul>{''.join(f'<li>{escaped(e.text)}</li>' for e in source.evidence[:_MOST_EVIDENCE])}</ul>\n"
        if source.source in drawn:
            yield from _statistics(drawn[source.source], description)
        yield "</details></article>\n"


def _statistics(portrait: Portrait, description: str) -> Iterator[str]:
    yield (
        f"<p>{escaped(description)} Its requests in its busiest window, with their trend; how its series resembles "
        "itself some time later (outside the band it is hardly chance; dots are local spikes, at which it repeats "
        'itself); and what its series falls into.</p>\n<div class="charts">\n'
    )
    for heading, chart in (
        ("Requests", series_chart(portrait)),
        ("Auto-correlation", correlation_chart(portrait)),
        ("Trend, season, rest", parts_chart(portrait)),
    ):
        yield f"<figure><figcaption>{heading}</figcaption>{chart}</figure>\n"
    yield "</div>\n"


def _campaigns(report: Report, overlays: list[Overlay]) -> Iterator[str]:
    if not report.campaigns:
        return
    yield '<div class="charts">\n'
    for overlay in overlays:
        one = overlay.campaign
        yield (
            f"<figure><figcaption>Campaign {escaped(one.id)}: {counted(len(one.members), 'source', 'sources')}"
            f"</figcaption>{overlay_chart(overlay)}<p>{escaped(cut(one.text, _LONGEST_REASON))}</p></figure>\n"
        )
    yield "</div>\n"
    columns = [
        Column("campaign"), Column("kind", "choice"), Column("sources", "number"), Column("similarity", "number"),
        Column("why"), Column("members"),
    ]  # fmt: skip
    rows = (
        [
            text(one.id),
            text(one.kind),
            count(len(one.members)),
            Cell(f"{one.similarity:.2f}", f"{one.similarity:.6f}"),
            text(one.text),
            text(_members(one.members)),
        ]
        for one in report.campaigns
    )
    more = "{} more campaigns did not fit in here; --json has all."
    total = len(report.campaigns)
    yield from table("campaign-table", "Campaigns", columns, rows, total, budget=CAMPAIGNS_BUDGET, more=more)


def _members(members: list[str]) -> str:
    shown = ", ".join(members[:_MEMBERS])
    return shown if len(members) <= _MEMBERS else f"{shown} and {len(members) - _MEMBERS:,} more"


def _reasons(report: Report) -> Iterator[str]:
    votes = report.votes
    if votes is None:
        return
    yield (
        "<p>Seven heuristics look at what each source asked for. A source is labelled by the majority of those that "
        "have a vote on it.</p>\n"
    )
    columns = [
        Column("heuristic"), Column("says crawler where"), Column("crawler", "number"), Column("no crawler", "number"),
        Column("no vote", "number"),
    ]  # fmt: skip
    rows = (
        [text(name), text(sentence), count(yes), count(no), count(none)]
        for name, sentence, yes, no, none in votes.in_words()
    )
    yield from table(
        "heuristics", "Heuristics, and how many sources each speaks of", columns, rows, len(NAMES), budget=_SMALL
    )
    if report.rules:
        yield "<h3>Rules about the shape of traffic</h3>\n"
        yield "<p>Learned by CN2; the first rule that fits a source decides.</p>\n"
        yield f"<ol>{''.join(f'<li>{escaped(rule)}</li>' for rule in report.rules)}</ol>\n"


def _containment(report: Report) -> Iterator[str]:
    found = report.containment
    if found is None or not found.sources:
        return
    yield (
        "<p>A source may make k1 requests a day freely, is challenged between k1 and k2, and judged by its traffic "
        "above k2 (PubCrawl, section 6.5). A source on one day counts once; images, styles and scripts do not count: "
        f"{counted(found.sources, 'day of a source', 'days of sources')}, "
        f"{counted(found.requests, 'request', 'requests')}.</p>\n"
    )
    marks: dict[str, int] = {}
    if found.k1 is None or found.k2 is None:
        yield "<p>The log is too small to propose k1 and k2.</p>\n"
    else:
        marks = {"k1": found.k1, "k2": found.k2}
        touched = _cell(found, found.k1, found.k2)
        yield (
            f"<p><strong>Proposed: k1 = {found.k1:,}, k2 = {found.k2:,}.</strong> Between them are "
            f"{percent(touched['sources'] / found.sources)} of the days of sources and "
            f"{percent(touched['requests'] / max(1, found.requests))} of the requests.</p>\n"
        )
    at = [one["at_most"] for one in found.volumes]
    yield '<div class="charts">\n'
    for whose, whole, heading in (
        ("sources", found.sources, "Sources by their requests a day, at most"),
        ("requests", found.requests, "Requests by their source's requests a day, at most"),
    ):
        shares = [one[whose] / max(1, whole) for one in found.volumes]
        reached = ", ".join(f"{percent(share)} up to {k:,}" for k, share in zip(at, shares, strict=True))
        chart = share_chart(at, shares, marks, f"Share of {whose} by requests a day of their source: {reached}.")
        yield f"<figure><figcaption>{heading}</figcaption>{chart}</figure>\n"
    yield "</div>\n"
    columns = [Column("k1", "number"), *(Column(f"k2 = {k2:,}", "number") for k2 in K2)]
    rows = ([count(k1), *(_share(found, k1, k2) for k2 in K2)] for k1 in K1)
    caption = "Requests of sources with more than k1 and at most k2 requests in a day"
    yield from table("touched", caption, columns, rows, len(K1), budget=_SMALL)
    if report.density:
        windows = ", ".join(f"{one.window.count:,} in {one.window.seconds:g} s" for one in report.density)
        yield f"<p>Most page visits that ordinary visitors may reach, by this log: {windows}.</p>\n"


def _cell(found: Containment, k1: int, k2: int) -> dict[str, int]:
    return next(one for one in found.grid if (one["k1"], one["k2"]) == (k1, k2))


def _share(found: Containment, k1: int, k2: int) -> Cell:
    if k2 <= k1:
        return Cell("", "-1")
    share = _cell(found, k1, k2)["requests"] / max(1, found.requests)
    return Cell(f"{share * 100:.2f} %", f"{share:.8f}")


def _sources(report: Report) -> Iterator[str]:
    if not len(report.tables.sources):
        return
    order = "Crawlers first, then good bots, unknown sources and people, the busiest of each first."
    yield f"<p>{order}{' ' if report.sort else ''}{report.sort}</p>\n"
    columns = [
        Column("source"), Column("label", "choice"), Column("kind", "choice"), Column("requests", "number"),
        Column("score", "number"), Column("why"), Column("user agent"), Column("campaign"), Column("pages", "number"),
        Column("first", "time"), Column("last", "time"),
    ]  # fmt: skip

    def address(one: SourceResult) -> str:
        return f" {escaped(cut(one.address))}" if one.address not in {"", one.source} else ""

    def rows() -> Iterator[list[Cell]]:
        for one in report.sources_at(report.ranked.tolist()):
            yield [
                Cell(f"<code>{escaped(cut(one.source))}</code>{address(one)}"),
                text(one.label),
                text(one.kind),
                count(one.requests),
                Cell(f"{one.score:.2f}", f"{one.score:.4f}"),
                text(" ".join(filter(None, [one.reason, *(e.text for e in one.evidence[:_SHORT_EVIDENCE])]))),
                text(cut(one.agent, _LONGEST_AGENT)),
                text(one.campaign or ""),
                count(one.pages),
                text(when(one.first)),
                text(when(one.last)),
            ]

    more = "{} more sources did not fit in here; --json has all."
    total = len(report.tables.sources)
    yield from table("source-table", "Sources", columns, rows(), total, budget=SOURCES_BUDGET, more=more)


def _bad(report: Report) -> Iterator[str]:
    read_counts = report.read_counts
    if not read_counts.bad and not read_counts.damage:
        return
    yield f"<p>{read_counts.bad:,} of {counted(read_counts.lines, 'line', 'lines')}. Some of them:</p>\n"
    rows = [[text("bad line"), text(sample or "(an empty line)")] for sample in read_counts.samples]
    rows += [[text("damaged file"), text(sentence)] for sentence in read_counts.damage]
    columns = [Column("what", "choice"), Column("text")]
    yield from table("bad-table", "Lines that could not be read", columns, rows, len(rows), budget=_SMALL)

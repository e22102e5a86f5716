"""Terminal: a short summary of the report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hedgerow.core.decision import Evidence
from hedgerow.logs.formats import iso, readable
from hedgerow.report.activity import KINDS, OWN
from hedgerow.report.result import Report
from hedgerow.report.source_labels import CRAWLER, LABELS

_WORDS = {"crawler": "crawlers", "person": "people", "good-bot": "good bots", "unknown": "unknown"}
_LONGEST_AGENT = 40
_MOST_CAMPAIGNS = 3
_MOST_OWN = 5


def print_report(console: Console, report: Report, *, top: int = 10) -> None:
    """Print what was read, the totals by label, and the *top* crawlers with reasons."""
    _print_log(console, report)
    totals = report.totals()
    requests = max(1, sum(count for _, count in totals.values()))
    table = Table(box=None, pad_edge=False)
    for column in ("", "sources", "requests", "share"):
        table.add_column(column, justify="right" if column else "left")
    for label in LABELS:
        sources, count = totals[label]
        table.add_row(_WORDS[label], f"{sources:,}", f"{count:,}", f"{count / requests:.1%}".replace("%", " %"))
    console.print(table)
    _print_kinds(console, report, requests)
    _print_top(console, report, top)
    _print_campaigns(console, report)
    if report.crowd is not None and report.crowd.text:
        console.print(Text(report.crowd.text), soft_wrap=True)
    _print_limits(console, report)


def _print_kinds(console: Console, report: Report, requests: int) -> None:
    """Print why sources are unknown, and what sources do that do not read pages."""
    for sentence, (sources, made) in report.reasons().items():
        console.print(Text(f"  unknown, {_share(sources, made, requests)}: {sentence}"), soft_wrap=True)
    kinds = [f"{name} ({_share(*counts, requests)})" for name, counts in report.kinds().items() if name != KINDS[OWN]]
    if kinds:
        console.print(Text(f"Not reading pages: {', '.join(kinds)}."), soft_wrap=True)
    own = report.tables.sources
    itself = [readable(own[place]) for place in np.flatnonzero(report.judgements.activity == OWN).tolist()]
    if itself:
        shown = ", ".join(itself[:_MOST_OWN]) + (f" and {len(itself) - _MOST_OWN:,} more" if itself[_MOST_OWN:] else "")
        made = report.kinds()[KINDS[OWN]][1]
        share = f"{made / requests:.1%}".replace("%", " %")
        console.print(Text(f"The site itself, never to be blocked: {shown}; {share} of the requests."), soft_wrap=True)


def _share(sources: int, made: int, requests: int) -> str:
    return f"{sources:,} {'source' if sources == 1 else 'sources'}, {made / requests:.1%}".replace("%", " %")


def _print_log(console: Console, report: Report) -> None:
    read_counts = report.read_counts
    lines = "1 line" if read_counts.lines == 1 else f"{read_counts.lines:,} lines"
    text = f"{lines} ({', '.join(read_counts.formats)}): {read_counts.parsed:,} read, {read_counts.bad:,} bad"
    if read_counts.first is not None and read_counts.last is not None:
        days = timedelta(seconds=read_counts.last - read_counts.first) / timedelta(days=1)
        text += f"; {_moment(read_counts.first)} to {_moment(read_counts.last)} UTC, {days:,.1f} days"
    console.print(Text(text))
    method = "" if report.method is None else report.method.text
    for sentence in filter(None, (report.sort, report.advice, method)):
        console.print(Text(sentence), soft_wrap=True)
    for sample in read_counts.samples:
        console.print(Text(f"  bad: {sample}" if sample else "  bad: an empty line"), soft_wrap=True)
    for damage in read_counts.damage:
        console.print(Text(f"  damaged: {damage}"), soft_wrap=True)
    if report.silent:
        console.print(f"The DNS gave no answer about {report.silent:,} addresses of bots: they are not verified.")


def _print_top(console: Console, report: Report, top: int) -> None:
    """Print the *top* crawlers with their strongest evidence; the page and the JSON have all of it."""
    ranked = report.ranked
    crawlers = ranked[report.judgements.label[ranked] == CRAWLER]
    if not len(crawlers):
        console.print("Nobody is held to be a crawler.")
        return
    if not top:
        return
    table = Table(title=None)
    table.add_column("crawler", overflow="fold")
    table.add_column("requests", justify="right")
    table.add_column("score", justify="right")
    table.add_column("user agent", overflow="fold")
    table.add_column("why", overflow="fold")
    for source in report.sources_at(crawlers[:top].tolist()):
        agent = source.bot or source.agent[:_LONGEST_AGENT]
        shown = [readable(text) for text in (source.source, agent, _strongest(source.evidence))]
        table.add_row(Text(shown[0]), f"{source.requests:,}", f"{source.score:.2f}", Text(shown[1]), Text(shown[2]))
    console.print(table)
    if len(crawlers) > top:
        console.print(
            f"and {len(crawlers) - top:,} more; --top shows more of them, --html and --json all, with all reasons"
        )


def _strongest(evidence: Sequence[Evidence]) -> str:
    """Return evidence that a person understands at once. A rule about the shape of traffic takes a minute to read."""
    plain = [one.text for one in evidence if one.detector not in {"shape", "campaign"}]
    return next(iter([*plain, *(one.text for one in evidence)]), "")


def _moment(at: float) -> str:
    text = iso(at)
    return text[:16].replace("T", " ") if text else "?"


def _print_limits(console: Console, report: Report) -> None:
    """Print the limits that fit the log, one line each."""
    found = report.containment
    if found is not None and found.k1 is not None and found.k2 is not None:
        touched = next(one for one in found.grid if (one["k1"], one["k2"]) == (found.k1, found.k2))
        share = touched["sources"] / max(1, found.sources), touched["requests"] / max(1, found.requests)
        console.print(
            f"Containment that fits this log: k1 = {found.k1}, k2 = {found.k2}; "
            f"touches {share[0]:.2%} of source-days and {share[1]:.2%} of requests".replace("%", " %")
        )
    if report.density:
        windows = ", ".join(f"{one.window.count} in {one.window.seconds:g} s" for one in report.density)
        console.print(f"Density limits that fit this log: {windows}")


def _print_campaigns(console: Console, report: Report) -> None:
    if not report.campaigns:
        return
    members = sum(len(campaign.members) for campaign in report.campaigns)
    many = f"{len(report.campaigns):,} campaigns" if len(report.campaigns) > 1 else "1 campaign"
    console.print(f"{many} with {members:,} members; the largest:")
    for campaign in report.campaigns[:_MOST_CAMPAIGNS]:
        console.print(Text(f"  {readable(campaign.text)}"), soft_wrap=True)

"""Terminal: a short summary of the report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hedgerow.logs.formats import iso, readable
from hedgerow.report.activity import KINDS, OWN
from hedgerow.report.result import Report
from hedgerow.report.source_labels import CRAWLER, LABELS
from hedgerow.report.summary import deeds, summary_of

_WORDS = {"crawler": "crawlers", "person": "people", "good-bot": "good bots", "unknown": "unknown"}
_MOST_CAMPAIGNS = 3


def print_report(console: Console, report: Report, *, top: int = 10) -> None:
    """Print what was read, what it means, the totals by label, and the *top* crawlers with reasons."""
    _print_log(console, report)
    summary = summary_of(report)
    console.print()
    console.print(Text(summary.headline, style="bold"), soft_wrap=True)
    for sentence in summary.cost:
        console.print(Text(sentence), soft_wrap=True)
    totals = report.totals()
    requests = max(1, sum(count for _, count in totals.values()))
    table = Table(box=None, pad_edge=False)
    for column in ("", "sources", "requests", "share"):
        table.add_column(column, justify="right" if column else "left")
    for label in LABELS:
        sources, count = totals[label]
        table.add_row(_WORDS[label], f"{sources:,}", f"{count:,}", f"{count / requests:.1%}".replace("%", " %"))
    console.print(table)
    for heading, sentences in (
        ("What to do first", summary.first),
        ("Whom not to touch", summary.spare),
        ("How certain it is", summary.certainty),
    ):  # fmt: skip
        _print_list(console, heading, sentences)
    _print_top(console, report, top)
    _print_kinds(console, report, requests)
    _print_campaigns(console, report)
    _print_limits(console, report)


def _print_list(console: Console, heading: str, sentences: Sequence[str]) -> None:
    if sentences:
        console.print()
        console.print(Text(heading, style="bold"))
        for sentence in sentences:
            console.print(Text(f"  - {sentence}"), soft_wrap=True)


def _print_kinds(console: Console, report: Report, requests: int) -> None:
    """Print why sources are unknown, and what sources do that do not read pages."""
    for sentence, (sources, made) in report.reasons().items():
        console.print(Text(f"Unknown, {_share(sources, made, requests)}: {sentence}"), soft_wrap=True)
    kinds = [f"{name} ({_share(*counts, requests)})" for name, counts in report.kinds().items() if name != KINDS[OWN]]
    if kinds:
        console.print(Text(f"Not reading pages: {', '.join(kinds)}."), soft_wrap=True)


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
    """Print the *top* crawlers with what they did; the page and the JSON have all evidence."""
    ranked = report.ranked
    crawlers = ranked[report.judgements.label[ranked] == CRAWLER]
    if not len(crawlers) or not top:
        return
    console.print()
    table = Table(title=None)
    table.add_column("crawler", overflow="fold")
    table.add_column("requests", justify="right")
    table.add_column("certain", justify="right")
    table.add_column("what it did, and its user agent", overflow="fold")
    chosen = crawlers[:top].tolist()
    for place, source in zip(chosen, report.sources_at(chosen), strict=True):
        told = Text(readable(deeds(report, place)))
        if source.agent:
            told.append(f"\n{readable(source.agent)}", style="dim")
        table.add_row(
            Text(readable(source.source)), f"{source.requests:,}", f"{source.score:.0%}".replace("%", " %"), told
        )
    console.print(table)
    if len(crawlers) > top:
        console.print(
            f"and {len(crawlers) - top:,} more; --top shows more of them, --html and --json all, with all reasons"
        )


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
            f"Daily page limits that fit this log (containment): k1 = {found.k1}, k2 = {found.k2}; "
            f"touches {share[0]:.2%} of source-days and {share[1]:.2%} of requests".replace("%", " %")
        )
    if report.density:
        windows = ", ".join(f"{one.window.count} in {one.window.seconds:g} s" for one in report.density)
        console.print(f"Rate limits that fit this log: {windows}")


def _print_campaigns(console: Console, report: Report) -> None:
    if not report.campaigns:
        return
    members = sum(len(campaign.members) for campaign in report.campaigns)
    many = f"{len(report.campaigns):,} campaigns" if len(report.campaigns) > 1 else "1 campaign"
    console.print(f"{many} with {members:,} members; the largest:")
    for campaign in report.campaigns[:_MOST_CAMPAIGNS]:
        console.print(Text(f"  {readable(campaign.text)}"), soft_wrap=True)

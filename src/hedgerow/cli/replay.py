"""
`hedgerow replay LOG...`: what Hedgerow would have done, had it stood in front of the site when a log was
written.

Progress goes to standard error, and only where that is a terminal; the table, or the JSON, goes to standard
output. Everything from the log is made harmless before it is printed: a request may hold what steers a
terminal.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hedgerow.cli.interrupt import STATUS as INTERRUPTED
from hedgerow.core.gate import Gate
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.errors import HedgerowError
from hedgerow.logs.formats import iso, readable
from hedgerow.logs.reader import LogReader, ReadCounts
from hedgerow.markers.token import TokenCodecs
from hedgerow.report.rate_limit_proposal import Peaks, Proposal
from hedgerow.report.replay import Replay, likely_host, replay, to_json
from hedgerow.request.bot_verifier import BotCache
from hedgerow.settings import Settings, load_settings
from hedgerow.web.gate import build_bot_verifier, build_gate
from hedgerow.web.key_file import new_key
from hedgerow.web.paths import key_path
from hedgerow.web.stores import build_list_follower, build_token_codecs
from hedgerow.web.watch import build_watch

STANDARD_OUTPUT = "-"

_WIDTH_OF_A_FILE = 160
_VISITS_BETWEEN = 500
_LOOKED_AT = 2000
_SECONDS_BETWEEN = 0.2


def run(
    logs: list[str],
    *,
    config: Path | None = None,
    json_path: str | None = None,
    propose: bool = False,
    top: int = 20,
    host: str = "",
    watched: bool = True,
) -> None:
    """
    Replay *logs* under the settings in *config*, or the defaults, and say what would have happened.

    The *top* visitors that would have been stopped are shown. *json_path* gets everything as JSON ("-":
    standard output, instead of the table). *propose* adds density windows that fit this log. *watched*: the watch looks
    on, too, with all its models.
    """
    settings = load_settings(config)
    _check_writable(json_path)
    reader = LogReader(logs, bot_verifier=build_bot_verifier(settings, BotCache()))
    peaks = Peaks() if propose else None
    visits = _watched(reader, peaks)
    try:
        gate = _gate(settings, entries=reader.is_ledger)
        watch = build_watch(settings, gate.engine.policy, gate.state.update_score) if watched else None
        first = list(islice(visits, _LOOKED_AT))
        if not host and not any(visit.host for visit in first):
            host = likely_host(first)
        result = replay(gate, chain(first, visits), host=host, watch=watch)
    except KeyboardInterrupt:
        visits.close()
        Console(stderr=True).print(f"Interrupted after {reader.counts.lines:,} lines; nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    proposals = peaks.propose() if peaks is not None else None
    if json_path is not None:
        _write_json(json_path, result, reader.counts, proposals)
    if json_path != STANDARD_OUTPUT:
        console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
        _print_summary(console, result, reader.counts)
        _print_stopped(console, result, top)
        if watch is not None:
            _print_watch(console, result, settings, top, host=host)
        if proposals is not None:
            _print_proposals(console, proposals)


def _gate(settings: Settings, *, entries: bool) -> Gate:
    """A gate that writes nothing; with the site's key and lists, where we have them, so that it knows its traps."""
    there = "HEDGEROW_KEYS" in os.environ or os.access(key_path(settings), os.R_OK)
    seals = build_token_codecs(settings) if there else TokenCodecs([new_key(0.0)])
    follower = build_list_follower(settings)
    if follower is not None:
        # Once, and not along as they change.
        follower.refresh(at_once=True)
        follower.close()
    lists = follower.lists if follower is not None else None
    return build_gate(settings, seals=seals, ledger=NoLedger(), entries=entries, lists=lists)


def _watched(reader: LogReader, peaks: Peaks | None) -> Generator[Visit, None, None]:
    """The reader's visits, shown to *peaks* as they pass, under a progress bar."""
    console = Console(stderr=True)
    tally = reader.counts
    columns = (
        TextColumn("Replaying"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %" if tally.bytes_total else "{task.fields[lines]:,} lines"),
        TextColumn("{task.fields[rate]:,.0f} lines/s"),
        TimeRemainingColumn(),
    )
    began = shown = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=tally.bytes_total or None, lines=0, rate=0.0)
        for n, visit in enumerate(reader):
            if n % _VISITS_BETWEEN == 0 and (now := time.monotonic()) - shown > _SECONDS_BETWEEN:
                shown = now
                rate = tally.lines / (now - began)
                progress.update(task, completed=tally.bytes_read, lines=tally.lines, rate=rate)
            if peaks is not None:
                peaks.add(visit)
            yield visit


def _check_writable(path: str | None) -> None:
    """Before an hour of work, not after it."""
    if path is None or path == STANDARD_OUTPUT:
        return
    target = Path(path)
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise HedgerowError(f"{readable(path)}: cannot be written; name another file for --json")


def _write_json(path: str, result: Replay, tally: ReadCounts, proposals: list[Proposal] | None) -> None:
    data: dict[str, Any] = to_json(result, tally)
    if proposals is not None:
        data["proposals"] = msgspec.to_builtins(proposals)
    text = json.dumps(data, indent=1) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="ascii")
    except OSError as error:
        raise HedgerowError(f"{readable(path)}: cannot be written: {error.strerror}") from None


def _print_summary(console: Console, result: Replay, tally: ReadCounts) -> None:
    lines = f"{tally.lines:,} lines ({', '.join(tally.formats)}): {tally.parsed:,} read, {tally.bad:,} bad"
    if tally.first is not None and tally.last is not None:
        days = timedelta(seconds=tally.last - tally.first) / timedelta(days=1)
        lines += f"; {_moment(tally.first)} to {_moment(tally.last)} UTC, {days:,.1f} days"
    console.print(Text(lines))
    for sample in tally.samples:
        console.print(Text(f"  bad: {sample}" if sample else "  bad: an empty line"), soft_wrap=True)
    for damage in tally.damage:
        console.print(Text(f"  damaged: {damage}"), soft_wrap=True)
    totals = result.totals()
    requests = totals["requests"]
    stopped = requests - totals["decisions"]["pass"] - result.beyond
    rate = tally.lines / result.seconds if result.seconds else 0.0
    console.print(
        f"{totals['visitors']:,} visitors, {totals['stopped_visitors']:,} of them stopped; "
        f"{requests:,} requests, {stopped:,} of them stopped; {result.seconds:,.1f} s, {rate:,.0f} lines/s"
    )
    if result.beyond:
        console.print(f"{result.beyond:,} requests came from visitors for whom there was no room in the table")


def _print_stopped(console: Console, result: Replay, top: int) -> None:
    stopped = [(name, fate) for name, fate in result.ranked() if fate.stopped_at is not None]
    if not stopped:
        console.print("Nobody would have been stopped.")
        return
    table = Table(title=None)
    table.add_column("visitor", overflow="fold")
    for column in ("requests", "passed", "refused", "detained"):
        table.add_column(column, justify="right")
    table.add_column("first stopped (UTC)")
    table.add_column("after pages", justify="right")
    table.add_column("why", overflow="fold")
    for name, fate in stopped[:top]:
        table.add_row(
            Text(readable(name)),
            f"{fate.requests:,}",
            f"{fate.passed:,}",
            f"{fate.refused:,}",
            f"{fate.detained:,}",
            _moment(fate.stopped_at),
            f"{fate.pages_before:,}",
            Text(readable(" ".join(e.text for e in fate.evidence))),
        )
    console.print(table)
    if len(stopped) > top:
        console.print(f"and {len(stopped) - top:,} more; --top shows more of them, --json all")


def _print_watch(console: Console, result: Replay, settings: Settings, top: int, *, host: str) -> None:
    """What the watch would have found: of whom, and what becomes of it."""
    if host:
        told = f"\nThe watch, with the referrer as the way to a page where there is no marker (this site is {host}): "
    else:
        told = "\nThe watch: "
    sessions = sum(count for name, count in result.judged.items() if name != "campaign" and "window" not in name)
    windows = sum(count for name, count in result.judged.items() if "window" in name)
    console.print(
        Text(
            f"{told}{sessions:,} judgements of paths, {windows:,} of windows; {len(result.found):,} visitors found, "
            f"{len(result.campaigns):,} campaigns."
        ),
        soft_wrap=True,
    )
    if not result.found:
        return
    responses = {
        "paths": settings.watch.paths, "windows": settings.watch.windows, "campaigns": settings.campaigns.response,
    }  # fmt: skip
    said = ", ".join(f"{name}: {response}" for name, response in responses.items())
    console.print(Text(f"What would have become of that, by the settings: {said}."), soft_wrap=True)
    table = Table(title=None)
    table.add_column("visitor", overflow="fold")
    table.add_column("requests", justify="right")
    table.add_column("first found (UTC)")
    table.add_column("found as", overflow="fold")
    ranked = sorted(result.found.items(), key=lambda item: (-sum(item[1].codes.values()), item[0]))
    for name, finding in ranked[:top]:
        fate = result.fates.get(name)
        codes = ", ".join(f"{code} ({count}x)" for code, count in sorted(finding.codes.items()))
        table.add_row(Text(readable(name)), f"{fate.requests:,}" if fate else "?", _moment(finding.at), Text(codes))
    console.print(table)
    if len(ranked) > top:
        console.print(f"and {len(ranked) - top:,} more; --top shows more of them, --json all")
    for campaign in result.campaigns[:top]:
        console.print(Text(f"campaign {campaign.id}: {readable(campaign.text)}"), soft_wrap=True)


def _moment(at: float | None) -> str:
    text = iso(at)
    return text[:19].replace("T", " ") if text else "?"


def _print_proposals(console: Console, proposals: list[Proposal]) -> None:
    """As TOML that can be put into the settings."""
    if not proposals:
        console.print("This log has too few ordinary visitors for limits to be proposed from it.")
        return
    console.print("\nLimits that fit this log, for hedgerow.toml:\n")
    for proposal in proposals:
        window, ordinary = proposal.window, proposal.touched_ordinary
        told = (
            f"# Nearly all of {proposal.ordinary:,} ordinary visitors stay at {proposal.reached:,} or below.\n"
            f"# Touches {proposal.touched:,} visitors of this log, {ordinary:,} of them ordinary.\n"
            f"[[density.windows]]\ncount = {window.count}\nseconds = {window.seconds:g}\n"
        )
        console.print(Text(told), soft_wrap=True)

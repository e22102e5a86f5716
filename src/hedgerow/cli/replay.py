"""
`hedgerow replay LOG...`: what Hedgerow would have done with the visits in a log.

Progress goes to standard error if it is a terminal. The table or the JSON goes to standard output. Everything from the
log is escaped before it is printed: a request may contain terminal control sequences.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from hedgerow.cli.main import Config, JsonFile
from hedgerow.cli.output import STANDARD_OUTPUT, console, is_writable, new_table, visits_with_progress, write_json
from hedgerow.cli.start import STATUS as INTERRUPTED
from hedgerow.core.gate import Gate
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.errors import HedgerowError
from hedgerow.lists.times import parse_duration
from hedgerow.logs.formats import iso, readable
from hedgerow.logs.reader import LogReader, ReadCounts
from hedgerow.markers.token import TokenCodecs
from hedgerow.report.rate_limit_proposal import Peaks, Proposal
from hedgerow.report.replay import Replay, likely_host, replay, to_json
from hedgerow.request.bot_cache import BotCache
from hedgerow.settings import Settings, load_settings
from hedgerow.web.gate import build_bot_verifier, build_gate
from hedgerow.web.key_file import new_key
from hedgerow.web.paths import key_path
from hedgerow.web.stores import build_list_follower, build_token_codecs
from hedgerow.web.watch import build_watch, response_to

_VISITS_FOR_HOST = 2000


def run(
    logs: Annotated[
        list[str],
        Argument(metavar="LOG...", help="Access logs, a ledger (also postgresql://...), or - for standard input."),
    ],
    config: Config = None,
    json_path: JsonFile = None,
    propose: Annotated[bool, Option("--propose", help="Propose rate limits based on these logs.")] = False,
    top: Annotated[int, Option(min=0, help="Number of visitors to show.")] = 20,
    host: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Host of the site, if the log does not contain it. It is needed to open marked links and to follow "
            "referrers. Default: the host in the referrers of images.",
        ),
    ] = "",
    since: Annotated[
        str, Option("--since", metavar="TIME", help="Only the last visits of a ledger, such as those of 12h or 1d.")
    ] = "",
    no_watch: Annotated[bool, Option("--no-watch", help="Do not run the watch: no models, no campaigns.")] = False,
) -> None:
    settings = load_settings(config)
    if json_path not in {None, STANDARD_OUTPUT} and not is_writable(Path(str(json_path))):
        raise HedgerowError(f"{readable(str(json_path))}: cannot be written; name another file for --json")
    start = time.time() - parse_duration(since) if since else -math.inf
    reader = LogReader(logs, bot_verifier=build_bot_verifier(settings, BotCache()), since=start)
    if since and not reader.is_ledger:
        raise HedgerowError("--since is for ledgers; cut a log with the tools of your system")
    peaks = Peaks() if propose else None
    source = visits_with_progress(reader, "Replaying")
    visits = source if peaks is None else _counted(source, peaks)
    try:
        if not reader.is_ledger:
            # Nobody in an access log has a clearance, and most people would have had one.
            settings = settings.without_clearances()
        gate = _gate(settings, entries=reader.is_ledger)
        watch = None if no_watch else build_watch(settings, gate.engine.policy, gate.state.update_score)
        first = list(islice(visits, _VISITS_FOR_HOST))
        if not host and not any(visit.host for visit in first):
            host = likely_host(first)
        result = replay(gate, chain(first, visits), host=host, watch=watch)
    except KeyboardInterrupt:
        source.close()
        Console(stderr=True).print(f"Interrupted after {reader.counts.lines:,} lines; nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    proposals = peaks.propose() if peaks is not None else None
    if json_path is not None:
        data: dict[str, Any] = to_json(result, reader.counts)
        if proposals is not None:
            data["proposals"] = msgspec.to_builtins(proposals)
        write_json(json_path, data)
    if json_path != STANDARD_OUTPUT:
        output = console()
        _print_summary(output, result, reader.counts)
        if not reader.is_ledger:
            _print_limits_of_logs(output, propose=propose)
        _print_stopped(output, result, top)
        if watch is not None:
            _print_watch(output, result, settings, top, host=host)
        if proposals is not None:
            _print_proposals(output, proposals)


def _gate(settings: Settings, *, entries: bool) -> Gate:
    """Return a gate that writes nothing, with the site's key and lists if they exist, so that traps are recognised."""
    has_keys = "HEDGEROW_KEYS" in os.environ or os.access(key_path(settings), os.R_OK)
    tokens = build_token_codecs(settings) if has_keys else TokenCodecs([new_key(0.0)])
    follower = build_list_follower(settings)
    if follower is not None:
        # Read the lists once, without following changes.
        follower.refresh(at_once=True)
        follower.close()
    lists = follower.lists if follower is not None else None
    return build_gate(settings, tokens=tokens, ledger=NoLedger(), entries=entries, lists=lists)


def _counted(visits: Iterable[Visit], peaks: Peaks) -> Iterator[Visit]:
    for visit in visits:
        peaks.add(visit)
        yield visit


def _print_summary(output: Console, result: Replay, counts: ReadCounts) -> None:
    lines = f"{counts.lines:,} lines ({', '.join(counts.formats)}): {counts.parsed:,} read, {counts.bad:,} bad"
    if counts.first is not None and counts.last is not None:
        days = timedelta(seconds=counts.last - counts.first) / timedelta(days=1)
        lines += f"; {_moment(counts.first)} to {_moment(counts.last)} UTC, {days:,.1f} days"
    output.print(Text(lines))
    for sample in counts.samples:
        output.print(Text(f"  bad: {sample}" if sample else "  bad: an empty line"), soft_wrap=True)
    for damage in counts.damage:
        output.print(Text(f"  damaged: {damage}"), soft_wrap=True)
    totals = result.totals()
    requests = totals["requests"]
    stopped = requests - totals["decisions"]["pass"] - result.beyond
    rate = counts.lines / result.seconds if result.seconds else 0.0
    output.print(
        f"{totals['visitors']:,} visitors, {totals['stopped_visitors']:,} of them stopped; "
        f"{requests:,} requests, {stopped:,} of them stopped; {result.seconds:,.1f} s, {rate:,.0f} lines/s"
    )
    if result.beyond:
        output.print(f"{result.beyond:,} requests came from further visitors that are not in the table")


def _print_limits_of_logs(output: Console, *, propose: bool) -> None:
    """Say what an access log cannot show, so that nobody takes the result for that of a running Hedgerow."""
    output.print(
        "An access log cannot show marked links, traps, clearances or headers: a running Hedgerow stops more than this "
        "replay does.",
        soft_wrap=True,
    )
    if not propose:
        output.print("--propose computes rate limits that fit this log.", soft_wrap=True)


def _print_stopped(output: Console, result: Replay, top: int) -> None:
    stopped = [(name, fate) for name, fate in result.ranked() if fate.stopped_at is not None]
    if not stopped:
        output.print("Nobody would have been stopped.")
        return
    counts = (">requests", ">passed", ">refused", ">detained")
    table = new_table("visitor", *counts, "first stopped (UTC)", ">after pages", "why")
    for name, fate in stopped[:top]:
        numbers = [f"{count:,}" for count in (fate.requests, fate.passed, fate.refused, fate.detained)]
        why = Text(readable(" ".join(e.text for e in fate.evidence)))
        table.add_row(Text(readable(name)), *numbers, _moment(fate.stopped_at), f"{fate.pages_before:,}", why)
    _print_top(output, table, len(stopped), top)


def _print_top(output: Console, table: Table, count: int, top: int) -> None:
    output.print(table)
    if count > top:
        output.print(f"and {count - top:,} more; --top shows more of them, --json all")


def _print_watch(output: Console, result: Replay, settings: Settings, top: int, *, host: str) -> None:
    """Print what the watch would have found, and the configured responses."""
    label = f", using referrers on pages without a marker (host of the site: {host})" if host else ""
    sessions = sum(count for name, count in result.judged.items() if name != "campaign" and "window" not in name)
    windows = sum(count for name, count in result.judged.items() if "window" in name)
    summary = (
        f"\nThe watch{label}: {sessions:,} classifications of paths, {windows:,} of windows; "
        f"{len(result.found):,} visitors found, {len(result.campaigns):,} campaigns."
    )
    output.print(Text(summary), soft_wrap=True)
    if not result.found:
        return
    watch = settings.watch
    on_path, on_window = response_to(settings, watch.paths), response_to(settings, watch.windows)
    configured = f"paths: {on_path}, windows: {on_window}, campaigns: {settings.campaigns.response}"
    output.print(f"Responses according to the settings: {configured}.", soft_wrap=True)
    table = new_table("visitor", ">requests", "first found (UTC)", "found as")
    ranked = sorted(result.found.items(), key=lambda item: (-sum(item[1].codes.values()), item[0]))
    for name, finding in ranked[:top]:
        fate = result.fates.get(name)
        codes = ", ".join(f"{code} ({count}x)" for code, count in sorted(finding.codes.items()))
        table.add_row(Text(readable(name)), f"{fate.requests:,}" if fate else "?", _moment(finding.at), Text(codes))
    _print_top(output, table, len(ranked), top)
    for campaign in result.campaigns[:top]:
        output.print(Text(f"campaign {campaign.id}: {readable(campaign.text)}"), soft_wrap=True)


def _moment(at: float | None) -> str:
    text = iso(at)
    return text[:19].replace("T", " ") if text else "?"


def _print_proposals(output: Console, proposals: list[Proposal]) -> None:
    """Print the proposals as TOML for the settings file."""
    if not proposals:
        output.print("This log has too few ordinary visitors to propose limits.")
        return
    output.print("\nLimits that fit this log, for hedgerow.toml:\n")
    for proposal in proposals:
        window, ordinary = proposal.window, proposal.touched_ordinary
        toml = (
            f"# Nearly all of {proposal.ordinary:,} ordinary visitors stay at {proposal.reached:,} or below.\n"
            f"# Affects {proposal.touched:,} visitors of this log, {ordinary:,} of them ordinary.\n"
            f"[[density.windows]]\ncount = {window.count}\nseconds = {window.seconds:g}\n"
        )
        output.print(Text(toml), soft_wrap=True)

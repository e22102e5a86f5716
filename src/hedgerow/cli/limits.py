"""
`hedgerow limits`: what visitors may read in a day and why, what they read, and who was or would be asked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import typer
from typer import Option

from hedgerow.cli.main import AsJson, Config
from hedgerow.cli.output import console, new_table, print_json, progress_bar
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.cli.visitor_store import open_visitor_stores
from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.core.visit import BY_PROGRAM, ELSEWHERE
from hedgerow.errors import StoreError
from hedgerow.ledger.people_days import LEAST_DAYS, SHARE, percentile
from hedgerow.ledger.reader import LedgerReader
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.web.daily_limits import Limit, limits_of
from hedgerow.web.gate import day_of
from hedgerow.web.ledger_access import open_ledger
from hedgerow.web.visitor_rows import gateways_among

_COLUMNS = ("at", "visitor", "kind", "action", "code", "signs", "bot")
_BUDGET_CODES = frozenset({"k1", "k2", "k1-scripts", "k2-scripts", "k1-network", "k2-address"})
_SHOWN = (0.5, 0.9, 0.99, SHARE)


class VisitorDays(NamedTuple):
    """
    Days of visitors by how many pages they read on each, and how often each visitor was asked for a clearance.

    *holders* had a clearance or an account, *others* had none. *over* has the days of each visitor on which it read
    more than the limits of today allow, in whatever way these were enforced then. Programs and verified bots are left
    out.
    """

    holders: Counter[int]
    others: Counter[int]
    asked: Counter[str]
    over: Counter[str]


def run(
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    top: Annotated[int, Option(min=0, help="Number of visitors to show that were asked.")] = 20,
    json: AsJson = False,
) -> None:
    """Show how many pages visitors may read in a day and why, how many they read, and who is affected."""
    settings = find_site(config, directory, site, place="ledger", changes=False, quiet=json)
    limits = limits_of(settings)
    with closing(open_ledger(settings)) as ledger, progress_bar("Reading", "visits") as progress:
        days = count_days(_rows(ledger, progress), settings, *limits)
    found = _summary(settings, site, days, *limits)
    if json:
        print_json(found)
        return
    _print(found, *limits, top)


def _rows(ledger: LedgerReader, progress: Any) -> Iterable[Sequence[Any]]:
    span, done = ledger.span(), 0
    for batch in ledger.by_time(_COLUMNS):
        yield from batch
        done += len(batch)
        progress(min(done, span), span, done)


def count_days(rows: Iterable[Sequence[Any]], settings: Settings, k1: Limit, k2: Limit) -> VisitorDays:
    """Count pages by visitor and day. Only one day is in memory at a time: rows come in their order."""
    number_of = day_of(ZoneInfo(settings.policy.timezone))
    days = VisitorDays(Counter(), Counter(), Counter(), Counter())
    today, pages = 0, Counter[str]()
    for at, visitor, kind, action, code, signs, bot in rows:
        if (day := number_of(at)) != today:
            _add_day(days, pages, k1, k2)
            today, pages = day, Counter()
        if kind != "page" or bot or BY_PROGRAM in signs or ELSEWHERE in signs:
            continue
        pages[visitor] += 1
        if code in _BUDGET_CODES and action != "pass":
            days.asked[visitor] += 1
    _add_day(days, pages, k1, k2)
    return days


def _add_day(days: VisitorDays, pages: Counter[str], k1: Limit, k2: Limit) -> None:
    for visitor, count in pages.items():
        has_clearance = visitor.startswith((CLEARANCE, ACCOUNT))
        (days.holders if has_clearance else days.others)[count] += 1
        if count > (k2 if has_clearance else k1).pages and not visitor.startswith(ACCOUNT):
            days.over[visitor] += 1


def _gateways(settings: Settings, site: str) -> dict[str, int]:
    """Return the addresses of many people; none where no state is stored."""
    now = time.time()
    try:
        with open_visitor_stores(settings, site) as stores:
            scores = [one for store in stores for one in store.read(now)[1]]
            # The files and the service have them in different orders.
            return dict(sorted(gateways_among(scores, now).items(), key=lambda pair: (-pair[1], pair[0])))
    except StoreError:
        return {}


def _summary(settings: Settings, site: str, days: VisitorDays, k1: Limit, k2: Limit) -> dict[str, Any]:
    own = settings.containment
    return {
        "enabled": settings.clears_silently if own.enabled == "auto" else own.enabled,
        "k1": k1.pages,
        "k1_source": k1.source,
        "k1_derived_from": k1.days,
        "k2": k2.pages,
        "k2_source": k2.source,
        "k2_derived_from": k2.days,
        "days_with_clearance": days.holders.total(),
        "days_without": days.others.total(),
        "pages_with_clearance": {f"{share:.1%}": percentile(days.holders, share) for share in _SHOWN},
        "pages_without": {f"{share:.1%}": percentile(days.others, share) for share in _SHOWN},
        "over_k1": sum(count for pages, count in days.others.items() if pages > k1.pages),
        "over_k2": sum(count for pages, count in days.holders.items() if pages > k2.pages),
        "over": dict(days.over.most_common()),
        "asked": dict(days.asked.most_common()),
        "gateways": _gateways(settings, site),
    }


def _print(found: dict[str, Any], k1: Limit, k2: Limit, top: int) -> None:
    output = console()
    if not found["enabled"]:
        output.print("The budget is off: see containment in the settings.")
    output.print(f"Without a clearance an address may have {k1.pages:,} pages a day (k1, {k1.why}).")
    output.print(f"With a clearance a visitor may have {k2.pages:,}; above that the models decide (k2, {k2.why}).")
    if "shipped" in {k1.source, k2.source}:
        output.print(
            f"Numbers as shipped may rise once {LEAST_DAYS:,} days of people are known (one day of an address)."
        )
    table = new_table("pages in a day", ">days", *(f">{share:.1%} have at most" for share in _SHOWN), ">over the limit")
    for name, days, pages, over in (
        ("with a clearance or an account", "days_with_clearance", "pages_with_clearance", "over_k2"),
        ("without", "days_without", "pages_without", "over_k1"),
    ):
        shown = [f"{count:,}" for count in found[pages].values()]
        table.add_row(name, f"{found[days]:,}", *shown, f"{found[over]:,}")
    output.print(table)
    _print_visitors(found["over"], top, "read more than this on a day, enforced or not", "days", "Nobody read more.")
    _print_visitors(
        found["asked"], top, "were asked for a clearance because of these limits", "pages",
        "Nobody was asked for a clearance because of these limits.",
    )  # fmt: skip
    _print_visitors(found["gateways"], top, "are gateways, where more is allowed", "people", "")


def _print_visitors(counts: dict[str, int], top: int, what: str, unit: str, nobody: str) -> None:
    if not counts:
        if nobody:
            console().print(nobody)
        return
    console().print(f"{len(counts):,} visitors {what}:")
    for visitor, count in list(counts.items())[:top]:
        typer.echo(f"  {readable(visitor)}: {count:,} {unit}")
    if len(counts) > top:
        typer.echo(f"  and {len(counts) - top:,} more; --top shows more of them, --json all")

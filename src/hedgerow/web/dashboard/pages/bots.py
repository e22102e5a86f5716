"""*Bots*: the known bots, how each is verified, and how often each was claimed, verified or falsely claimed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import msgspec

from hedgerow.web.bots import all_bots, describe_verification, load_ranges
from hedgerow.web.dashboard.page import Context, Page
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, tabulate
from hedgerow.web.paths import ranges_path

_DAY = 86_400.0
_COLUMNS = (
    Column("bot", "Bot"),
    Column("category", "Category"),
    Column("policy", "Policy"),
    Column("verified", "Verified", is_number=True),
    Column("unverified", "Not verified", is_number=True),
    Column("false", "False claims", is_number=True),
    Column("methods", "Verified by"),
)


class BotRow(msgspec.Struct, frozen=True):
    """
    A bot, and its requests of the last day.

    *verified*: it was the bot. *false*: another client used its name. *unverified*: it could not be told.
    """

    bot: str
    category: str
    policy: str
    verified: int
    unverified: int
    false: int
    methods: str


def query(context: Context, parameters: TableParameters) -> TablePage[BotRow]:
    settings = context.settings
    ranges = load_ranges(ranges_path(settings))
    counts = _counts(context)
    rows = []
    for bot in all_bots(settings):
        found = counts.get(bot.name, Counter[str]())
        methods = ", ".join(describe_verification(bot, ranges, time.time())) or "nothing: it cannot be verified"
        policy = getattr(settings.bots, bot.category.replace("-", "_"))
        verified, false = found["verified"], found["false"]
        rows.append(
            BotRow(bot.name, bot.category, policy, verified, sum(found.values()) - verified - false, false, methods)
        )
    # Those that came, first.
    rows.sort(key=lambda row: -(row.verified + row.unverified + row.false))
    return tabulate(rows, _COLUMNS, parameters)


def _counts(context: Context) -> Mapping[str, Counter[str]]:
    """Return the requests of the last day by bot and by what became of its claim."""
    counts: dict[str, Counter[str]] = {}
    if not context.has_ledger:
        return counts
    with context.ledger() as ledger:
        for bot, claim, proof, number in ledger.bot_claims(context.now - _DAY):
            name, outcome = (bot, "verified") if bot else (claim, proof)
            counts.setdefault(name, Counter())[outcome] += number
    return counts


PAGE = Page(
    name="bots",
    title="Bots",
    summary="Known bots, how each is verified, and its requests of the last day.",
    query=query,
    result=TablePage[BotRow],
    parameters=TableParameters,
    columns=_COLUMNS,
)

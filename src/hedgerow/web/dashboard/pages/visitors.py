"""*Visitors*: everybody who is suspected or blocked."""

from __future__ import annotations

from heapq import nlargest, nsmallest
from typing import Any

from hedgerow.core.decision import Block, VisitorScore
from hedgerow.web.dashboard.page import Context, Page
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, check_sort
from hedgerow.web.visitor_rows import VisitorRow, row_of

_COLUMNS = (
    Column("visitor", "Visitor"),
    Column("identity", "Is"),
    Column("until", "Blocked until"),
    Column("suspicion", "Score", is_number=True),
    Column("wrong_visits", "Suspicious visits", is_number=True),
    Column("challenges", "Challenges", is_number=True),
    Column("why", "Why"),
)


_UNKNOWN = VisitorScore()
_MAX_CHOSEN = 5000


def query(context: Context, parameters: TableParameters) -> TablePage[VisitorRow]:
    """Choose the visitors of the page first, and describe only these: there may be hundreds of thousands."""
    check_sort(parameters, _COLUMNS)
    blocks, scores = context.snapshot.blocks, context.snapshot.scores
    keys: list[str] = [*blocks, *(key for key in scores if key not in blocks)]
    if wanted := parameters.filter.casefold():
        keys = [key for key in keys if _matches(wanted, key, scores.get(key, _UNKNOWN), blocks.get(key))]
    total, end, column = len(keys), parameters.offset + parameters.limit, parameters.column
    if not column and not wanted and end <= len(blocks):
        # The page that is opened most: blocked visitors come first.
        keys = [*blocks]

    def order(key: str) -> Any:
        return _order(column, key, scores.get(key, _UNKNOWN), blocks.get(key))

    if end > _MAX_CHOSEN:
        keys.sort(key=order, reverse=parameters.descending)
    else:
        # Much quicker than to sort all.
        keys = nlargest(end, keys, key=order) if parameters.descending else nsmallest(end, keys, key=order)
    observed = bool(context.settings.observe)
    rows = [
        row_of(context.settings, key, scores.get(key), blocks.get(key), context.now, observed=observed)
        for key in keys[parameters.offset : end]
    ]
    return TablePage(rows, total, parameters.page, parameters.size)


def _matches(wanted: str, key: str, score: VisitorScore, block: Block | None) -> bool:
    """Return whether a filter finds a visitor: by its name, what it is, the codes against it, or why it is blocked."""
    return (
        wanted in key.casefold()
        or wanted in score.identity
        or any(wanted in code for code, _ in score.reasons)
        or (block is not None and (wanted in block.evidence.text.casefold() or wanted in "blocked"))
    )


def _order(column: str, key: str, score: VisitorScore, block: Block | None) -> Any:
    """Return the value by which a visitor is sorted. Scores are compared as they were stored: they fade alike."""
    match column:
        case "visitor":
            return key
        case "identity":
            return "blocked" if block else score.identity
        case "until":
            return block.until if block else 0.0
        case "suspicion":
            return score.total
        case "wrong_visits":
            return score.suspicious_visits
        case "challenges":
            return score.challenges
        case "why":
            return block.evidence.text if block else " ".join(code for code, _ in score.reasons)
    # Blocked visitors first, then by score.
    return block is None, -score.total, key


PAGE = Page(
    name="visitors",
    title="Visitors",
    summary="Suspected and blocked visitors, the blocked ones first.",
    query=query,
    result=TablePage[VisitorRow],
    parameters=TableParameters,
    columns=_COLUMNS,
)

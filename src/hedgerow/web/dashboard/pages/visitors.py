"""*Visitors*: everybody who is suspected or blocked."""

from __future__ import annotations

from hedgerow.web.dashboard.page import Context, Page
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, tabulate
from hedgerow.web.visitor_rows import VisitorRow, visitor_rows

_COLUMNS = (
    Column("visitor", "Visitor"),
    Column("identity", "Is"),
    Column("until", "Blocked until"),
    Column("suspicion", "Score", is_number=True),
    Column("wrong_visits", "Suspicious visits", is_number=True),
    Column("challenges", "Challenges", is_number=True),
    Column("why", "Why"),
)


def query(context: Context, parameters: TableParameters) -> TablePage[VisitorRow]:
    state = context.site.stores.state
    rows = visitor_rows(
        context.settings, state.blocks(context.now), state.scores(), context.now,
        observed=bool(context.settings.observe),
    )  # fmt: skip
    return tabulate(rows, _COLUMNS, parameters)


PAGE = Page(
    name="visitors",
    title="Visitors",
    summary="Suspected and blocked visitors, the blocked ones first.",
    query=query,
    result=TablePage[VisitorRow],
    parameters=TableParameters,
    columns=_COLUMNS,
)

"""*Audit log*: every change that operators and commands made, by whom."""

from __future__ import annotations

from hedgerow.web.audit import AuditEntry
from hedgerow.web.dashboard.page import Context, Page
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, check_sort

_COLUMNS = (
    Column("at", "Time"),
    Column("who", "Who"),
    Column("source", "From"),
    Column("change", "Change"),
    Column("subject", "Subject"),
    Column("details", "Details"),
)


def query(context: Context, parameters: TableParameters) -> TablePage[AuditEntry]:
    check_sort(parameters, _COLUMNS)
    rows, total = context.audit.read(
        text=parameters.filter, sort=parameters.column or "at", limit=parameters.limit, offset=parameters.offset,
        descending=parameters.descending if parameters.sort else True,
    )  # fmt: skip
    return TablePage(rows, total, parameters.page, parameters.size)


PAGE = Page(
    name="audit",
    title="Audit log",
    summary="Changes that operators and commands made, the latest first.",
    query=query,
    result=TablePage[AuditEntry],
    parameters=TableParameters,
    columns=_COLUMNS,
)

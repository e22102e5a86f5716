"""*Reports*: who crawled the site, from the ledger, made on demand or by a schedule and kept in the state directory."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import msgspec

from hedgerow.errors import HedgerowError
from hedgerow.settings import Settings
from hedgerow.web.dashboard.jobs import Job, Jobs, run_command
from hedgerow.web.dashboard.page import Action, Context, Done, Empty, Page, Problem
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, tabulate
from hedgerow.web.ledger_access import has_ledger, ledger_of
from hedgerow.web.paths import state_directory

JOB = "report"
_COLUMNS = (
    Column("name", "Report"),
    Column("made", "Made"),
    Column("requests", "Requests", is_number=True),
    Column("crawlers", "Crawlers", is_number=True),
    Column("people", "People", is_number=True),
    Column("good_bots", "Good bots", is_number=True),
    Column("campaigns", "Campaigns", is_number=True),
)
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_KEPT = 60
"""Reports that are kept at most."""
_DAY = 86_400.0


class ReportRow(msgspec.Struct, frozen=True):
    """A report, and how many sources of each kind it found."""

    name: str
    made: float
    requests: int
    crawlers: int
    people: int
    good_bots: int
    campaigns: int


class Reports(TablePage[ReportRow], frozen=True):
    """*missing* says why no report can be made here. *every* are the seconds between two scheduled reports, or 0."""

    last: Job | None = None
    missing: str = ""
    every: float = 0.0


def query(context: Context, parameters: TableParameters) -> Reports:
    rows = sorted((_summary(path) for path in _folder(context.settings).glob("*.json")), key=lambda row: -row.made)
    table = tabulate(rows, _COLUMNS, parameters)
    return Reports(
        table.rows, table.total, table.page, table.size, context.jobs.last(JOB), missing(context.settings),
        context.settings.admin.report_every,
    )  # fmt: skip


def _folder(settings: Settings) -> Path:
    return state_directory(settings) / "reports"


def missing(settings: Settings) -> str:
    """Return why no report can be made, or ""."""
    if not settings.ledger.enabled or not has_ledger(settings):
        return "There is no ledger to report on: see [ledger] in the settings."
    if find_spec("numpy") is None or find_spec("sklearn") is None:
        return "Reports need more packages: pip install 'hedgerow[report]'."
    return ""


def _summary(path: Path) -> ReportRow:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReportRow)
    except (OSError, msgspec.MsgspecError):
        return ReportRow(path.stem, path.stat().st_mtime, 0, 0, 0, 0, 0)


def make_report(settings: Settings) -> None:
    """Make a report of the ledger now, and remove the oldest ones."""
    folder = _folder(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = time.time()
    name = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    data, page = folder / f"{name}.data", folder / f"{name}.html"
    try:
        run_command(
            ["report", ledger_of(settings), "--json", str(data), "--html", str(page)],
            {"HEDGEROW__DIRECTORY": str(state_directory(settings))},
        )  # fmt: skip
        row = _count(name, now, data.read_bytes())
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(row))
    except BaseException:
        page.unlink(missing_ok=True)
        raise
    finally:
        data.unlink(missing_ok=True)
    remove_old(settings, now)


def remove_old(settings: Settings, now: float) -> None:
    """Remove reports that are older than the settings say, and all but the last ones."""
    reports = sorted(_folder(settings).glob("*.json"))
    oldest = now - settings.privacy.report_days * _DAY
    for number, report in enumerate(reversed(reports)):
        if number >= _KEPT or report.stat().st_mtime < oldest:
            report.with_suffix(".html").unlink(missing_ok=True)
            report.unlink(missing_ok=True)


def _count(name: str, made: float, data: bytes) -> ReportRow:
    report = msgspec.json.decode(data)
    labels = [source["label"] for source in report["sources"]]
    return ReportRow(
        name, made, report["log"]["parsed"], labels.count("crawler"), labels.count("person"),
        labels.count("good-bot"), len(report["campaigns"]),
    )  # fmt: skip


def make(context: Context, _: Empty) -> Done:
    if problem := missing(context.settings):
        raise Problem(409, problem)
    settings = context.settings
    context.jobs.start(JOB, lambda: make_report(settings))
    return Done("The report is being made. This page shows when it is finished.", "report")


def document(context: Context, file: str) -> bytes:
    if not _NAME.fullmatch(file):
        raise Problem(404, "There is no such report.")
    try:
        return (_folder(context.settings) / f"{file}.html").read_bytes()
    except OSError:
        raise Problem(404, "There is no such report.") from None


def make_if_due(settings: Settings, jobs: Jobs, now: float) -> None:
    """Start a report if the settings want one every so often and the last one is older."""
    if not settings.admin.report_every or missing(settings):
        return
    last = jobs.last(JOB)
    made = [path.stat().st_mtime for path in _folder(settings).glob("*.json")]
    if now - max([*made, last.started if last else 0.0]) < settings.admin.report_every:
        return
    try:
        jobs.start(JOB, lambda: make_report(settings))
    except HedgerowError:
        # Another job runs: the next check comes soon.
        return


PAGE = Page(
    name="reports",
    title="Reports",
    summary="Reports on the ledger: when each was made, and how many crawlers, people and good bots it found.",
    query=query,
    result=Reports,
    parameters=TableParameters,
    columns=_COLUMNS,
    actions=(Action("make", "Make a report on the ledger now.", Empty, make),),
    document=document,
    document_names=f"^{_NAME.pattern}$",
)

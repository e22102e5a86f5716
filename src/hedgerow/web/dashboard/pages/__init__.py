"""The pages of the dashboard, in the order of the navigation."""

from __future__ import annotations

from hedgerow.web.dashboard.page import Page
from hedgerow.web.dashboard.pages import (
    audit,
    bots,
    campaigns,
    complaint,
    lists,
    models,
    now,
    reports,
    settings,
    visitor,
    visitors,
)

PAGES: tuple[Page, ...] = (
    now.PAGE, visitors.PAGE, visitor.PAGE, complaint.PAGE, campaigns.PAGE, lists.PAGE, bots.PAGE, models.PAGE,
    reports.PAGE, settings.PAGE, audit.PAGE,
)  # fmt: skip

"""The pages of the dashboard, in the order of the navigation."""

from __future__ import annotations

from hedgerow.web.dashboard.page import Page
from hedgerow.web.dashboard.pages import audit, complaint, lists, now, visitor, visitors

PAGES: tuple[Page, ...] = (
    now.PAGE, visitors.PAGE, visitor.PAGE, complaint.PAGE, lists.PAGE, audit.PAGE,
)  # fmt: skip

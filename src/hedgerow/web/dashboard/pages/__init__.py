"""The pages of the dashboard, in the order of the navigation."""

from __future__ import annotations

from hedgerow.web.dashboard.page import Page
from hedgerow.web.dashboard.pages import audit, lists, now

PAGES: tuple[Page, ...] = (now.PAGE, lists.PAGE, audit.PAGE)

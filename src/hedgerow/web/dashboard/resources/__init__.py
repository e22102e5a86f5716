"""
What only the API has: `/api/v1/NAME` without a page. Commands read by it what the stores of the service contain.

Each is a `Page` without a template. Answers are small: a program asks for one part after another.
"""

from __future__ import annotations

from hedgerow.web.dashboard.page import Page
from hedgerow.web.dashboard.resources import campaigns, decision, lists, service, state

RESOURCES: tuple[Page, ...] = (
    service.RESOURCE, state.RESOURCE, decision.RESOURCE, campaigns.RESOURCE, lists.ENTRIES, lists.SUBSCRIPTIONS,
)  # fmt: skip

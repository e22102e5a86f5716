"""Applications that take long to install or build are the same behind Hedgerow (`make test-apps`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from .comparing import compare
from .table import APPS, App


@pytest.mark.parametrize("app", [app for app in APPS if not app.is_light], ids=lambda app: app.name)
def test_application_is_the_same_behind_hedgerow(app: App, browser: Browser, tmp_path: Path) -> None:
    compare(app, browser, tmp_path)

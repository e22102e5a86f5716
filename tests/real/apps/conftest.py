"""The applications as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Page

from real import conftest as real

from . import forum, scenarios, wiki
from .visitor import Record


class App(NamedTuple):
    """A real application, and what people do in it."""

    name: str
    missing_parts: Callable[[], str]
    server: type[forum.Forum | wiki.Wiki]
    scenario: Callable[[Page, str], Record]


FORUM = App("forum", forum.missing_parts, forum.Forum, scenarios.forum)
WIKI = App("wiki", wiki.missing_parts, wiki.Wiki, scenarios.wiki)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[App], forum.Forum | wiki.Wiki]]:
    """Starts an application as it was seeded, for as long as the module's tests run."""
    running: list[forum.Forum | wiki.Wiki] = []

    def start_one(app: App) -> forum.Forum | wiki.Wiki:
        lacking = app.missing_parts()
        if lacking:
            real.missing(f"{lacking}, for the {app.name},")
        server = app.server(tmp_path_factory.mktemp(app.name) / "site")
        running.append(server)
        real._started.append(server)
        return server

    yield start_one
    for server in reversed(running):
        server.stop()
        real._started.remove(server)

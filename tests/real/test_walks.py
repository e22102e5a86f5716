"""
A dozen people in Chromium and Firefox, with default settings: none of them sees a challenge or a refusal.

`python -m bench people` has 200 of them. Each has an address of its own, which a trusted proxy names, unless two share
one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from . import test_firefox
from .browsing import tab
from .firefox import Firefox
from .servers import Nginx, Protect
from .walks import ChromiumWindow, FirefoxTab, Person, Walk

TRUSTED = '[identity]\ntrusted_proxies = ["127.0.0.1/32"]\n'
LISTS = ["/sql-commands.html", "/reference-client.html"]
REST = (0.02, 0.2)
start = test_firefox.start


@pytest.fixture(scope="module")
def hedgerow(site: Nginx, protect: Callable[..., Protect]) -> Protect:
    return protect(site.url, settings=TRUSTED)


def pages_of(hedgerow: Protect) -> float:
    return hedgerow.metric('hedgerow_visits_total{action="pass"}')


@pytest.fixture(autouse=True)
def nobody_is_disturbed(hedgerow: Protect) -> Iterator[None]:
    """Each walk reads pages, and nothing else than pages was given out after it."""
    before = pages_of(hedgerow)
    yield
    assert pages_of(hedgerow) >= before + 3
    for action in ("challenge", "refuse", "detain"):
        assert hedgerow.metric(f'hedgerow_visits_total{{action="{action}"}}') == 0


def person(window: ChromiumWindow | FirefoxTab, hedgerow: Protect) -> Person:
    return Person(window, hedgerow.url, LISTS, "/tutorial.html", 5, rest=REST)


@pytest.mark.parametrize(
    ("number", "walk", "pages", "scripts"),
    [
        (1, Person.read_by_next, 25, True),
        (2, Person.read_index, 16, True),
        (3, Person.open_fifteen_tabs, 15, True),
        (4, Person.search, 6, True),
        (5, Person.read_forum, 6, True),
        (6, Person.go_back_and_forward, 8, True),
        (7, Person.wander, 10, True),
        (8, Person.wander, 10, False),
    ],
)
def test_in_chromium(number: int, walk: Walk, pages: int, scripts: bool, browser: Browser, hedgerow: Protect) -> None:
    # A new tab may ask for its first page before it has got the header.
    headers = {"X-Forwarded-For": f"198.51.100.{number}"} if walk is not Person.open_fifteen_tabs else {}
    with tab(browser, extra_http_headers=headers, java_script_enabled=scripts) as page:
        walk(person(ChromiumWindow(page), hedgerow), pages)


def test_two_people_behind_one_address(browser: Browser, hedgerow: Protect) -> None:
    headers = {"X-Forwarded-For": "198.51.100.20"}
    with contextlib.ExitStack() as stack:
        people = [
            person(ChromiumWindow(stack.enter_context(tab(browser, extra_http_headers=headers))), hedgerow)
            for _ in range(2)
        ]
        for _ in range(3):
            for one in people:
                one.wander(2)


@pytest.mark.parametrize(
    ("number", "walk", "preferences"),
    [
        (1, Person.read_by_next, {}),
        (2, Person.wander, {"network__cookie__cookieBehavior": 2}),
        (3, Person.go_back_and_forward, {"browser__privatebrowsing__autostart": True}),
    ],
    ids=["with next", "cookies off", "private window"],
)
def test_in_firefox(
    number: int, walk: Walk, preferences: dict[str, bool | int], start: Callable[..., Firefox], hedgerow: Protect
) -> None:
    firefox = start(**preferences)
    with firefox.tab() as window:
        walk(person(FirefoxTab(firefox, window, f"198.51.100.{30 + number}"), hedgerow), 12)

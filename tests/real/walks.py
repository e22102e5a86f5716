"""
How people walk through a site, for any browser that can open, click and go back.

They click only what can be seen, and rest between pages for a second or so. That is less than people do, so that the
walks end within minutes; a fast reader is more suspicious than a slow one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from playwright.sync_api import Page

from .firefox import Firefox
from .firefox import Tab as FirefoxWindow
from .hand import Hand

SEARCH_ENGINE = "https://www.example.com/"
_TIMEOUT = 20_000
VISIBLE_LINKS = """[...document.links].map((link, number) => [link.href, number])
  .filter(([href, number]) => href.startsWith(location.origin + "/") && document.links[number].checkVisibility(
    {visibilityProperty: true, opacityProperty: true}) && document.links[number].getClientRects().length > 0
    && document.links[number].textContent.trim())"""


class Window(Protocol):
    """A window of a browser."""

    def open(self, url: str, referrer: str) -> None: ...
    def click(self, number: int) -> None: ...
    def go(self, steps: int) -> None: ...
    def evaluate(self, expression: str) -> Any: ...
    def open_tabs(self, numbers: list[int]) -> None: ...


class PlaywrightTab:
    def __init__(self, page: Page) -> None:
        page.set_default_timeout(_TIMEOUT)
        self._page = page

    def open(self, url: str, referrer: str) -> None:
        self._page.goto(url, **({"referer": referrer} if referrer else {}))

    def click(self, number: int) -> None:
        link = self._page.evaluate_handle("number => document.links[number]", number).as_element()
        assert link is not None
        with self._page.expect_navigation():
            link.click()

    def evaluate(self, expression: str) -> Any:
        return self._page.evaluate(expression)


class ChromiumWindow(PlaywrightTab):
    """A window in which a hand moves the mouse to what it clicks."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._hand = Hand(page, 1)

    def click(self, number: int) -> None:
        link = self._page.evaluate_handle("number => document.links[number]", number).as_element()
        assert link is not None
        link.scroll_into_view_if_needed()
        box = link.bounding_box()
        assert box is not None
        self._hand.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        super().click(number)

    def go(self, steps: int) -> None:
        (self._page.go_back if steps < 0 else self._page.go_forward)()

    def open_tabs(self, numbers: list[int]) -> None:
        """Open links in new tabs, one right after the other, and look at each in turn."""
        before = len(self._page.context.pages)
        for number in numbers:
            link = self._page.evaluate_handle("number => document.links[number]", number).as_element()
            assert link is not None
            link.click(modifiers=["ControlOrMeta"])
        for _ in range(1200):
            if len(self._page.context.pages) >= before + len(numbers):
                break
            self._page.wait_for_timeout(50)
        for opened in self._page.context.pages[before:]:
            opened.wait_for_load_state()
            opened.bring_to_front()
            opened.wait_for_timeout(200)


class FirefoxTab:
    """Firefox, driven by WebDriver BiDi."""

    def __init__(self, firefox: Firefox, window: FirefoxWindow, address: str) -> None:
        self._window = window
        header = {"name": "X-Forwarded-For", "value": {"type": "string", "value": address}}
        firefox.call("network.setExtraHeaders", headers=[header], contexts=[window.context])

    def open(self, url: str, referrer: str) -> None:  # noqa: ARG002 - it cannot send one
        self._window.goto(url)

    def click(self, number: int) -> None:
        before = self._window.url
        self._window._press(f"document.links[{number}]", 0, "")
        self._wait(before)

    def go(self, steps: int) -> None:
        before = self._window.url
        self._window.go(steps)
        self._wait(before)

    def _wait(self, before: str) -> None:
        for _ in range(300):
            with contextlib.suppress(AssertionError):
                if self._window.url != before and self._window.evaluate("document.readyState === 'complete'"):
                    return
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        return self._window.evaluate(expression)

    def open_tabs(self, numbers: list[int]) -> None:
        raise NotImplementedError


class Person:
    """One person at *url*. The *lists* of the site are pages with many links to others."""

    def __init__(
        self,
        window: Window,
        url: str,
        lists: list[str],
        first: str,
        seed: int,
        *,
        rest: tuple[float, float] = (0.3, 1.4),
    ) -> None:
        self.window, self.url, self.lists, self.first = window, url, lists, first
        self._rest = rest
        self.dice = Random(seed)

    def rest(self) -> None:
        time.sleep(self.dice.uniform(*self._rest))

    def open(self, path: str, referrer: str = "") -> None:
        self.window.open(self.url + path, referrer)
        self.rest()

    def links(self) -> list[tuple[str, int]]:
        """The links that can be seen, and lead to another page."""
        here = str(self.window.evaluate("location.href")).partition("#")[0].partition("?")[0]
        found = ((href.partition("#")[0].partition("?")[0], n) for href, n in self.window.evaluate(VISIBLE_LINKS))
        others = [(href, n) for href, n in found if href not in {here, self.url + "/"}]
        # The first of several links to one page.
        return list({href: (href, n) for href, n in reversed(others)}.values())[::-1]

    def click(self, number: int) -> None:
        self.window.click(number)
        self.rest()

    def wander(self, pages: int) -> None:
        self.open("/")
        for _ in range(pages - 1):
            links = self.links()
            if links:
                self.click(self.dice.choice(links)[1])
            else:
                self.open("/")

    def read_by_next(self, pages: int) -> None:
        """From page to page by the link that is named so, as one reads a manual."""
        self.open(self.first)
        for _ in range(pages - 1):
            named = "([, number]) => document.links[number].textContent.trim() === 'Next'"
            found = self.window.evaluate(f"({VISIBLE_LINKS}).find({named}) ?? null")
            if found is None:
                return
            self.click(found[1])

    def read_index(self, pages: int) -> None:
        """The pages of a list from top to bottom, each by its link, and back."""
        self.open(self.dice.choice(self.lists))
        for turn in range((pages - 1) // 2 + 1):
            links = self.links()
            self.click(links[3 + turn][1])
            self.window.go(-1)
            self.rest()

    def read_forum(self, pages: int) -> None:
        """A list of topics, some of them, a page behind one now and then, and back to the list."""
        self.open("/")
        self.open(self.dice.choice(self.lists))
        here = 0
        while here < pages:
            links = self.links()
            self.click(self.dice.choice(links)[1])
            here += 1
            if self.dice.random() < 0.3 and self.links():
                self.click(self.dice.choice(self.links())[1])
                self.window.go(-1)
                here += 1
            self.window.go(-1)
            self.rest()

    def search(self, pages: int) -> None:
        """Pages from a search engine, and one or two links from there."""
        for _ in range(max(1, pages // 3)):
            self.open(self.dice.choice(self.lists) if self.dice.random() < 0.3 else self.first, SEARCH_ENGINE)
            for _ in range(self.dice.randrange(1, 3)):
                links = self.links()
                if links:
                    self.click(self.dice.choice(links)[1])

    def go_back_and_forward(self, pages: int) -> None:
        self.open("/")
        for _ in range(max(1, pages // 4)):
            for _ in range(2):
                links = self.links()
                self.click(self.dice.choice(links)[1])
            for steps in (-1, 1, -1):
                self.window.go(steps)
                self.rest()

    def open_fifteen_tabs(self, pages: int) -> None:
        self.open(self.dice.choice(self.lists))
        self.window.open_tabs([number for _, number in self.links()[2 : pages + 1]])

    def take_a_lesson(self, pages: int) -> None:
        self.wander(pages)


Walk = Callable[[Person, int], None]
"""How a person reads about so many pages."""

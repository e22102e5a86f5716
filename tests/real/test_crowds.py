"""
Many requests of people at once, in front of a Hedgerow as anybody would start it.

A browser over a limit may have to calculate. Nobody has to do anything, nobody is blocked, and everybody gets every
page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from challenge.solver import answers_of

from . import crawling, test_innocents
from .browsing import tab
from .servers import Nginx, Protect
from .test_innocents import Visitor, is_served

BOOKMARKS = 60
PUPILS = 30
# Here one process calculates for all of them.
QUICK = "[challenge]\ndifficulty = 200\nhardest = 400\nseconds = 100\n"
_TITLE = r"document.title.replace(/\s+/g, ' ').trim()"


def open_at_once(browser: Browser, urls: list[str], titles: list[str]) -> None:
    """Open all bookmarks of a folder in tabs, and wait until each shows its page."""
    with tab(browser) as page:
        page.goto(urls[0])
        protocol = page.context.new_cdp_session(page)
        context = protocol.send("Target.getTargetInfo")["targetInfo"]["browserContextId"]
        for url in urls:
            protocol.send("Target.createTarget", {"url": url, "browserContextId": context, "background": True})
        while len(page.context.pages) <= len(urls):
            page.wait_for_timeout(50)
        for opened in page.context.pages[1:]:
            opened.wait_for_function(f"titles => titles.includes({_TITLE})", arg=titles)
        assert sorted(opened.evaluate(_TITLE) for opened in page.context.pages[1:]) == sorted(titles)


def test_sixty_bookmarks_at_once(
    browser: Browser, site: Nginx, protect: Callable[..., Protect], documentation: Path
) -> None:
    hedgerow = protect(site.url)
    names = sorted(crawling.titles_in(documentation))[:: 1169 // BOOKMARKS][:BOOKMARKS]
    titles = [crawling.titles_in(documentation)[name].decode() for name in names]
    open_at_once(browser, [f"{hedgerow.url}/{name}" for name in names], titles)
    assert hedgerow.blocked() == {}


def test_twenty_bookmarks_with_one_number_after_the_other(
    browser: Browser,
    small: Nginx,
    protect: Callable[..., Protect],
) -> None:
    hedgerow = protect(small.url)
    numbers = range(1, BOOKMARKS // 3 + 1)
    open_at_once(browser, [f"{hedgerow.url}/ticket/{n}" for n in numbers], [f"Ticket {n}" for n in numbers])
    assert hedgerow.blocked() == {}


small = test_innocents.small


class Pupil(Visitor):
    """A browser with JavaScript: it solves a calculation by itself and goes on."""

    challenges = 0

    def see(self, link: str, **headers: str) -> bool:
        """Return whether the page is served, after a calculation at most."""
        answer = self.open(link, **headers)
        if answer.headers.get("hedgerow-decision", "").startswith("challenge"):
            self.challenges += 1
            answer = self._client.post(
                f"{self.url}/.hedgerow/answer", data=answers_of(answer.content), follow_redirects=True,
                headers={**self._headers, "Sec-Fetch-Site": "same-origin", "Referer": self.here},
            )  # fmt: skip
            self.text = answer.text
        return is_served(answer)


@pytest.mark.parametrize("mode", ["clean", "opaque"])
def test_a_class_behind_one_address(mode: str, site: Nginx, protect: Callable[..., Protect]) -> None:
    """Thirty pupils with browsers of their own open three pages each, all at the same time."""
    hedgerow = protect(site.url, settings=f"[marker]\nmode = '{mode}'\n{QUICK}")
    with contextlib.ExitStack() as stack:
        pupils = [stack.enter_context(Pupil(hedgerow.url, "127.5.0.1")) for _ in range(PUPILS)]

        def lesson(pupil: Pupil) -> list[bool]:
            seen = [pupil.see("/index.html")]
            for _ in range(2):
                links = pupil.links() or [pupil.here]
                link = links[pupils.index(pupil) % len(links)]
                seen.append(pupil.see(link, Sec_Fetch_Site="same-origin", Referer=pupil.here))
            return seen

        with ThreadPoolExecutor(PUPILS) as pool:
            assert list(pool.map(lesson, pupils)) == [[True] * 3] * PUPILS
        assert max(pupil.challenges for pupil in pupils) <= 1
    assert hedgerow.blocked() == {}

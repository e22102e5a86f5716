"""
A driven Chromium that solves its challenges by itself, and goes on asking when pages do not come any more.

Hedgerow has its default settings. The browser waits ten seconds after each page that did not come; Hedgerow's clock is
set forward by these, instead of waiting for them.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn
from playwright.sync_api import Browser, Error, Page

from driving import Application, Client
from hedgerow.asgi import Hedgerow

from .browsing import tab
from .servers import wait_for
from .test_browser_signs import PAGE, TEXT, visible_links

PAGES = 300
PATIENCE = 10.0
"""Seconds for which the crawler waits after a page that did not come."""
MOST_ASKED = 150
REFERENCE = re.compile("[0-9A-F]{4}-[0-9A-F]{4}")


class _Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def site() -> Client:
    """A site in which each page has ten links to others, with the watch that comes with Hedgerow."""
    chance = random.Random(5)
    links = {n: chance.sample([other for other in range(PAGES) if other != n], 10) for n in range(PAGES)}

    def react(scope: dict[str, object]) -> dict[str, object]:
        number = str(scope["path"]).removeprefix("/").removesuffix(".html")
        if not (number.isdecimal() and int(number) in links):
            return {"status": 404, "chunks": (b"There is nothing.",)}
        shown = "".join(f'<li><a href="/{n}.html">Notes on hedge {n}</a></li>' for n in links[int(number)])
        return {"chunks": (PAGE.format(number, TEXT, shown).encode(),)}

    client = Client(Application(react=react), silent=True)
    watch = client.site.watch
    assert watch is not None
    client.site.app.gate.on_decision = watch.watch.see
    return client


@contextlib.contextmanager
def served(client: Client, clock: Callable[[], float]) -> Iterator[str]:
    app = Hedgerow(client.app, site=client.site, clock=clock)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_for("the server", lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def is_there(page: Page) -> bool:
    """Wait until the page or a question is there that no script solves."""
    for _ in range(100):
        # Between two documents a page may be gone while it is looked at.
        with contextlib.suppress(Error):
            page.wait_for_load_state()
            if page.title().startswith("Page "):
                return True
            if not page.query_selector("[data-question]"):
                return False
        page.wait_for_timeout(100)
    return False


def test_a_browser_that_solves_its_challenges_and_goes_on_asking_is_banned(browser: Browser) -> None:
    client, clock = site(), _Clock()
    with served(client, clock) as url, tab(browser) as page:
        waiting, seen, given, asked = [f"{url}/0.html"], {f"{url}/0.html"}, 0, 0
        decision = ""
        while waiting and asked < MOST_ASKED and "too-many-challenges" not in decision:
            asked += 1
            response = page.goto(waiting.pop(0))
            assert response is not None
            decision = response.headers.get("hedgerow-decision", "")
            if not is_there(page):
                clock.ahead += PATIENCE
                continue
            given += 1
            # The script of the page obtains a clearance, and solves what is asked of it.
            page.wait_for_timeout(100)
            for link in visible_links(page):
                if (name := link.partition("?")[0]) not in seen:
                    seen.add(name)
                    waiting.append(link)
        counted = client.site.app.challenges.counted
        print(f"{given} pages, {asked} asked for, then {decision}; challenges: {dict(counted)}")  # noqa: T201
        assert "too-many-challenges" in decision
        assert given <= 60
        assert counted["cleared"] >= 2, "it has a clearance, and earned it again"
        assert counted["issued"] >= 1, "it has seen a challenge, too"
        (block,) = client.site.stores.state.blocks(clock())
        assert block.key.startswith("clearance:"), "others behind its address are not blocked"
        assert block.until - clock() > 23 * 3600
        # It stays banned, and is told so.
        clock.ahead += 6 * 3600
        response = page.goto(f"{url}/0.html")
        assert response is not None
        assert response.status == 403
        assert REFERENCE.search(page.inner_text("body"))

"""A person in front of Chromium, walking the site: never disturbed, and nothing to be seen of Hedgerow."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Browser

from .browsing import Person, Watch, tab
from .servers import Nginx, Protect


def walk(browser: Browser, url: str, *, seed: int, steps: int, **seen: Any) -> tuple[list[str], Watch]:
    with tab(browser) as page:
        watch = Watch(page.context, url)
        return Person(page, url, seed=seed, **seen).walk(steps), watch


def test_walks_undisturbed(browser: Browser, site: Nginx, hedgerow: Protect) -> None:
    bare, before = walk(browser, site.url, seed=7, steps=30)
    trail, watch = walk(browser, hedgerow.url, seed=7, steps=30, plain=hedgerow.plain, is_trap=hedgerow.is_trap)
    assert len({step.partition(" ")[2] for step in trail}) >= 12
    assert len(trail) >= 26
    assert trail == bare
    assert watch.decisions == []
    answers = {(hedgerow.plain(url), status) for url, status in watch.answers}
    assert len({url for url, _ in watch.answers if "~=" in url}) >= 8, "its links were not marked"
    assert {a for a in answers if a[1] >= 400} <= {a for a in before.answers if a[1] >= 400}
    assert sorted(set(watch.complaints)) == sorted(set(before.complaints))
    assert [hedgerow.plain(url) for url in watch.failures] == before.failures
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    # The one thing to be said of it is that it came to the start page, which is worth nothing. It walks fast enough to
    # be taken for a crawler by its path; then it calculates once more, which it does not notice.
    evidence = [found for visit in hedgerow.visits() for found in json.loads(visit["evidence"])]
    # The browser here says that it is a driven one, and its mouse jumps from click to click.
    unnoticed = {"automation", "pointer-jumps", "suspect"}
    assert [found for found in evidence if found["weight"] and found["code"] not in unnoticed] == []
    assert {visit["action"] for visit in hedgerow.visits()} == {"pass"}

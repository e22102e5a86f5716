"""A person in front of Chromium, walking the site: never disturbed, and nothing to be seen of Hedgerow."""

from __future__ import annotations

from playwright.sync_api import Browser

from .browsing import VIEWPORT, Person, Watch
from .servers import Nginx, Protect


def walk(browser: Browser, url: str, *, seed: int, steps: int) -> tuple[list[str], Watch]:
    context = browser.new_context(viewport=VIEWPORT)
    try:
        watch = Watch(context, url)
        trail = Person(context.new_page(), url, seed=seed).walk(steps)
    finally:
        context.close()
    return trail, watch


def test_walks_undisturbed(browser: Browser, site: Nginx, hedgerow: Protect) -> None:
    bare, before = walk(browser, site.url, seed=7, steps=30)
    trail, watch = walk(browser, hedgerow.url, seed=7, steps=30)
    assert len({step.partition(" ")[2] for step in trail}) >= 12
    assert len(trail) >= 26
    assert trail == bare
    assert watch.decisions == []
    assert {a for a in watch.answers if a[1] >= 400} <= {a for a in before.answers if a[1] >= 400}
    assert sorted(set(watch.complaints)) == sorted(set(before.complaints))
    assert watch.failures == before.failures
    assert hedgerow.blocked() == {}

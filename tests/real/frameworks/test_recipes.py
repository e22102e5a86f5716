"""
The recipes of docs/recipes.md for MediaWiki and WordPress, enforced in front of the applications (`make test-apps`).

People do what they do in the other tests, and see no challenge. Programs get what the recipe says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from real import browsing
from real.servers import Protect
from real.test_recipes import ask, enforced

from .comparing import served
from .install import NotInstallableError, install
from .table import APPS
from .walk import Walker

pytestmark = pytest.mark.heavy


@contextlib.contextmanager
def walked(name: str, recipe: str, browser: Browser, folder: Path) -> Iterator[str]:
    """Walk an application behind Hedgerow with its recipe, without being stopped, and give its address."""
    app = next(one for one in APPS if one.name == name)
    try:
        root = install(app)
    except NotInstallableError as error:
        pytest.skip(f"{name} cannot be installed here: {error}")
    with served(app, root, folder / "app") as (url, _), contextlib.ExitStack() as stack:
        hedgerow = Protect(url, folder / "hedgerow", settings=enforced(recipe))
        stack.callback(hedgerow.stop)
        with browsing.tab(browser) as page:
            walk = Walker(page.context, app, hedgerow.url, lambda: None).take(page)
        assert not walk.refusals
        assert hedgerow.blocked() == {}
        yield hedgerow.url


def test_mediawiki(browser: Browser, tmp_path: Path) -> None:
    with walked("mediawiki", "MediaWiki", browser, tmp_path) as url:
        for expensive in ("action=history", "diff=2", "oldid=1"):
            assert ask(f"{url}/index.php?title=Hazel&{expensive}")[0] == 429
        assert {ask(f"{url}/load.php?modules=startup&only=scripts")[0] for _ in range(40)} == {200}
        assert ask(f"{url}/api.php?action=query&format=json")[0] == 200


def test_wordpress(browser: Browser, tmp_path: Path) -> None:
    with walked("wordpress", "WordPress", browser, tmp_path) as url:
        assert {ask(f"{url}/wp-cron.php?doing_wp_cron")[0] for _ in range(30)} == {200}
        found = [ask(f"{url}/xmlrpc.php", data=b"<methodCall/>")[0] for _ in range(14)]
        assert (set(found[:10]) & {429}, set(found[10:])) == (set(), {429})
        assert ask(f"{url}/wp-json/wp/v2/posts")[0] == 200

"""Compares an application as it is with the same one behind `hedgerow protect`."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from real import browsing
from real.servers import Protect, Running, free_port, wait_for

from .install import HERE, NotInstallableError, environment, install
from .table import App
from .walk import Walk, Walker, differences

SETTINGS = f'[marker]\nmode = "{mode}"\n' if (mode := os.environ.get("APPS_MODE")) else ""
"""With the variable APPS_MODE the applications are walked in another mode than the default."""

TRIES = 3


def compare(app: App, browser: Browser, folder: Path) -> None:
    """
    Walk *app* without and with Hedgerow; fail where there is a difference each time.

    Two walks without Hedgerow may differ, too: it depends on the moment whether a browser asks again for a file that it
    has, when it loads a font, and which page a script has prefetched. A refusal counts even once.

    Where it cannot be installed, the test is skipped, also in CI: npm and its registry are no part of a test machine.
    """
    try:
        root = install(app)
    except NotInstallableError as error:
        pytest.skip(f"{app.name} cannot be installed here: {error}")
    found: list[str] = []
    for number in range(TRIES):
        direct = _walk(app, browser, root, folder / f"direct-{number}", protected=False)
        other = _walk(app, browser, root, folder / f"protected-{number}", protected=True)
        assert not other.refusals
        now = differences(app, direct, other)
        again = {_subject(one) for one in found}
        found = [one for one in now if not number or _subject(one) in again]
        if not found:
            break
    assert not found, f"{app.name}: {len(found)} differences\n" + "\n".join(found)


def _subject(difference: str) -> str:
    """Return what a difference is about: the console, all requests, or one element, address or status."""
    return difference.partition(":")[0]


def _walk(app: App, browser: Browser, root: Path, folder: Path, *, protected: bool) -> Walk:
    with served(app, root, folder) as (url, server), contextlib.ExitStack() as stack:
        hedgerow = Protect(url, folder / "hedgerow", settings=SETTINGS) if protected else None
        if hedgerow is not None:
            stack.callback(hedgerow.stop)

        def stop() -> None:
            server.stop()
            if hedgerow is not None:
                hedgerow.stop()

        with browsing.tab(browser) as page:
            walk = Walker(page.context, app, hedgerow.url if hedgerow is not None else url, stop).take(page)
        if hedgerow is not None and hedgerow.running.alive:
            assert hedgerow.blocked() == {}
    return walk


@contextlib.contextmanager
def served(app: App, root: Path, folder: Path) -> Iterator[tuple[str, Running]]:
    """The application as a process of its own, from its start until its address answers."""
    data = folder / "data"
    data.mkdir(parents=True)
    port = free_port()
    static = shlex.join([sys.executable, str(HERE / "static_server.py")])
    command = shlex.split(app.serve.format(port=port, data=data, static=static))
    variables = {**environment(app, root), "PORT": str(port), "DATA": str(data), **app.variables}
    found = next(
        (path for place in variables["PATH"].split(os.pathsep) if os.access(path := Path(place, command[0]), os.X_OK)),
        command[0],
    )
    server = Running([str(found), *command[1:]], folder / "server.log", cwd=root, environment=variables)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{app.name} at {url}", lambda: _answers(url + app.ready) or not server.alive)
        assert server.alive, server.said()
        yield url, server
    finally:
        server.stop()


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return False
    return True

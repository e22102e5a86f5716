"""
A pytest plugin that puts Hedgerow around the applications that a framework tests.

Its settings are the defaults, without rate limits and look-ups.

It is switched on by the environment variable AROUND: `asgi` wraps what Starlette's test client is given, `wsgi` the
application of httpbin. Each client has a Hedgerow and a folder of its own, so that no test limits another.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_OPEN: list[Callable[[], object]] = []
_AROUND = os.environ.get("AROUND", "")


def _settings() -> Any:
    from hedgerow.settings import read_settings

    folder = tempfile.TemporaryDirectory(prefix="hedgerow-suites-")
    _OPEN.append(folder.cleanup)
    # No look-ups of host names and addresses while tests run. A test makes hundreds of requests in a second.
    off = "".join(f"[{table}]\nenabled = false\n" for table in ("bots", "density"))
    return read_settings(f'directory = "{folder.name}"\n{off}', environment={})


def _around_starlette() -> None:
    from starlette import testclient

    from hedgerow.web.asgi import Hedgerow

    first = testclient.TestClient.__init__

    def wrapped(self: Any, app: Any, *args: Any, **options: Any) -> None:
        inner = app if testclient._is_asgi3(app) else testclient._WrapASGI2(app)  # noqa: SLF001 - as its first lines do
        outer = Hedgerow(inner, settings=_settings())
        _OPEN.append(outer.site.close)
        first(self, outer, *args, **options)
        self.app = app

    testclient.TestClient.__init__ = wrapped


def _around_httpbin() -> None:
    import httpbin

    from hedgerow.web.wsgi import Hedgerow

    first = httpbin.app.test_client
    bare = httpbin.app.wsgi_app

    def wrapped(*args: Any, **options: Any) -> Any:
        httpbin.app.wsgi_app = outer = Hedgerow(bare, settings=_settings())
        _OPEN.append(outer.close)
        return first(*args, **options)

    httpbin.app.test_client = wrapped


if _AROUND:
    {"asgi": _around_starlette, "wsgi": _around_httpbin}[_AROUND]()


@pytest.fixture(autouse=True)
def _closed_when_tested() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop()()

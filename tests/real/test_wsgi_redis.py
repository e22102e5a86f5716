"""The WSGI middleware with its state in Redis: threads of two processes' worth of sites count as one, exactly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from driving import OFF, Clock, settings
from driving_wsgi import WsgiApplication, ask, environ_for
from hedgerow.core.ledger import NoLedger
from hedgerow.web.app import Site
from hedgerow.wsgi import Hedgerow

from .databases import RedisServer


@pytest.fixture
def redis():
    server = RedisServer()
    yield server
    server.close()


def test_threads_of_two_sites_count_as_one(redis, tmp_path):
    """Fifty are free: of 320 by sixteen threads at two sites fifty pass."""
    text = (
        OFF + "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 50, seconds = 600.0, of = 'requests' }]\n"
    )
    text += f"[containment]\nenabled = false\n[state]\nurl = '{redis.url}'\n[challenge]\nstore = 'memory'\n"
    clock, sites = Clock(), []
    for name in ("a", "b"):
        said = settings(f"directory = '{tmp_path / name}'\n{text}")
        sites.append(Site(said, ledger=NoLedger()))
    apps = [Hedgerow(WsgiApplication(), site=site, clock=clock) for site in sites]

    def crawl(n: int) -> list[int]:
        return [ask(apps[(n + m) % 2], environ_for("/", "192.0.2.1", "GET", {}, b"")).status for m in range(20)]

    try:
        with ThreadPoolExecutor(16) as threads:
            statuses = [status for each in threads.map(crawl, range(16)) for status in each]
    finally:
        for app in apps:
            app.close()
    assert (statuses.count(200), statuses.count(429)) == (50, 270)

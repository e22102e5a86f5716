"""`[admin] listen` in the settings of a middleware: a thread serves it beside the application."""

from __future__ import annotations

import asyncio
import logging
import threading
import urllib.request

import pytest

from driving import Application, settings
from driving_wsgi import WsgiApplication
from hedgerow.web import wsgi
from hedgerow.web.asgi import Hedgerow
from real.servers import free_port, wait_for


def read(port: int, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return answer.read().decode()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "hedgerow-admin"]


@pytest.mark.parametrize("middleware", ["asgi", "wsgi"])
def test_a_middleware_has_its_admin_listener(tmp_path, middleware):
    port = free_port()
    own = settings(f'directory = "{tmp_path}"\n[admin]\nlisten = "127.0.0.1:{port}"\n')
    app = (
        Hedgerow(Application(), settings=own)
        if middleware == "asgi"
        else wsgi.Hedgerow(WsgiApplication(), settings=own)
    )
    site = app.site
    wait_for("the listener", lambda: site.admin is not None and site.admin._server.started)
    assert read(port, "/ready") == "well\n"
    asyncio.run(site.app.gate.decide(site.app.gate.identifier.visit(1.8e9, "192.0.2.1", "GET", "/", [])))
    assert "hedgerow_state_visitors 1.0" in read(port, "/metrics")
    assert threads()
    site.close()
    assert not threads()


def test_a_second_process_says_that_it_has_none(tmp_path, caplog):
    port = free_port()
    own = settings(f'directory = "{tmp_path}"\n[admin]\nlisten = "127.0.0.1:{port}"\n')
    first = Hedgerow(Application(), settings=own)
    with caplog.at_level(logging.WARNING, "hedgerow"):
        second = Hedgerow(Application(), settings=own)
    assert [record.getMessage() for record in caplog.records] == [
        f"no admin listener in this process: cannot listen on 127.0.0.1:{port}: Address already in use"
    ]
    assert second.site.admin is None
    second.site.close()
    first.site.close()


def test_without_the_setting_there_is_none(tmp_path):
    app = Hedgerow(Application(), settings=settings(f'directory = "{tmp_path}"\n'))
    assert not threads()
    app.site.close()

"""The examples run, with bait in their pages, and a crawler is stopped by each."""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import sys
from pathlib import Path

import httpx
import pytest

from driving import traps_in
from real.servers import PATIENCE, Running, answers, free_port, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
BROWSER = {"accept": "text/html"}


@pytest.fixture(params=["starlette_app", "fastapi_app", "django_app"])
def app(request, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))
    spec = importlib.util.spec_from_file_location(request.param, EXAMPLES / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, request.param, module)
    spec.loader.exec_module(module)
    yield module.app
    module.app.site.close()


async def browse(app, address: str) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app=app, client=(address, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://site.example", headers=BROWSER) as client:
        start = await client.get("/")
        page = await client.get("/page/1")
        traps = traps_in(start.content)
        assert traps, start.text
        fell = await client.get(traps[0])
        after = await client.get("/page/2", headers={"accept": "text/html"})
        return [start, page, fell, after]


def test_an_example_serves_pages_with_bait_and_blocks_who_takes_it(app):
    """The start page and a page are served; the hidden link ends it, and the page after it is refused."""
    start, page, fell, after = asyncio.run(browse(app, "192.0.2.1"))
    assert [start.status_code, page.status_code] == [200, 200]
    assert "Page 1" in page.text
    assert int(start.headers["content-length"]) == len(start.content)
    assert [fell.status_code, after.status_code] == [403, 403]
    assert after.headers["hedgerow-decision"].startswith("refuse; code=trap; ref=")
    assert "no person can see" in after.text


@pytest.mark.parametrize("name", ["flask_app", "django_wsgi_app"])
def test_an_example_under_wsgi_does_the_same(name, tmp_path):
    """Each in a process of its own, by gunicorn with threads, as one would run it; Django has one project a process."""
    port = free_port()
    command = [
        sys.executable, "-m", "gunicorn", "--threads", "16", "--bind", f"127.0.0.1:{port}", "--chdir", str(EXAMPLES),
        "--worker-tmp-dir", str(tmp_path), "--no-control-socket", f"{name}:app",
    ]  # fmt: skip
    log = tmp_path / "gunicorn.log"
    running = Running(command, log, cwd=tmp_path, environment={"HEDGEROW__DIRECTORY": str(tmp_path / "state")})
    try:
        wait_for(name, lambda: answers(port) or not running.alive)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=BROWSER, timeout=PATIENCE, trust_env=False
        ) as client:
            start = client.get("/")
            page = client.get("/page/1")
            traps = traps_in(start.content)
            assert traps, start.text
            fell = client.get(traps[0])
            after = client.get("/page/2", headers={"accept": "text/html"})
    finally:
        status = running.stop()
    assert [start.status_code, page.status_code, fell.status_code, after.status_code] == [200, 200, 403, 403]
    assert int(start.headers["content-length"]) == len(start.content)
    assert after.headers["hedgerow-decision"].startswith("refuse; code=trap; ref=")
    assert status == 0, running.said()
    # What waited was written at the end.
    with sqlite3.connect(tmp_path / "state" / "ledger.sqlite") as ledger:
        assert ledger.execute("SELECT count(*) FROM visits").fetchone() == (4,)


def test_accounts_behind_one_address_are_different_visitors(tmp_path, monkeypatch):
    """In the FastAPI example one account is blocked and the other, and the anonymous visitor, go on."""
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLES / "fastapi_app.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fastapi_app", module)
    spec.loader.exec_module(module)

    async def play() -> list[int]:
        transport = httpx.ASGITransport(app=module.app, client=("192.0.2.7", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://site.example", headers=BROWSER) as client:
            anna, bert = ({"cookie": f"account={module.sign(name)}"} for name in ("anna", "bert"))
            trap = traps_in((await client.get("/", headers=anna)).content)[0]
            forged = {"cookie": "account=anna.00"}
            answers = [
                await client.get(trap, headers=anna),
                await client.get("/", headers=anna),
                await client.get("/", headers=bert),
                await client.get("/"),
                await client.get("/", headers=forged),
            ]
            return [answer.status_code for answer in answers]

    assert asyncio.run(play()) == [403, 403, 200, 200, 200]
    module.app.site.close()

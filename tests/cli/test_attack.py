"""`hedgerow attack`: on, off and status, beside a running site; and `hedgerow explain /path`."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest

from driving import Application
from hedgerow.cli.main import main
from hedgerow.settings import load_settings
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.health import Health

from .said import without_place

PROGRAM = [(b"user-agent", b"curl/8.0"), (b"accept", b"*/*"), (b"host", b"a.example")]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command; gives exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    return run


@pytest.fixture
def site(run):  # noqa: ARG001 - its directory
    one = Site(load_settings(None))
    yield one
    one.close()


def status_of(site: Site) -> int:
    """Ask for a page as a program does."""
    sent: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/a", "raw_path": b"/a", "query_string": b"", "headers": PROGRAM,
        "client": ("192.0.2.7", 1), "scheme": "http",
    }  # fmt: skip
    asyncio.run(Hedgerow(Application(b"hello"), site=site)(scope, receive, send))
    return sent[0]["status"]


def eventually(condition) -> bool:
    deadline = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(found)


def test_it_is_switched_on_and_off_while_a_site_runs(run, site):
    assert status_of(site) == 200
    assert run("attack", "status")[1] == "off\n"
    status, out, _ = run("attack", "on", "--for", "30m")
    assert status == 0
    assert out.startswith("under attack until ")
    assert eventually(lambda: status_of(site) == 429)
    assert site.attack_until(time.time()) > time.time() + 1000
    assert asyncio.run(Health(site).answer("/ready"))[1].startswith(b"well, under attack")
    assert run("visitors", "show")[1] == "nobody is suspected or blocked\n"
    assert json.loads(run("attack", "status", "--json")[1])["on"] is True
    assert run("attack", "off")[1] == "no longer under attack\n"
    assert eventually(lambda: status_of(site) == 200)
    assert run("attack", "off")[1] == "it was not on\n"


def test_it_survives_a_restart_and_ends_by_itself(run, site):
    run("attack", "on", "--for", "6s")
    assert eventually(lambda: status_of(site) == 429)
    site.close()
    again = Site(load_settings(None))
    try:
        assert status_of(again) == 429
        assert eventually(lambda: status_of(again) == 200)
        assert run("attack", "status")[1] == "off\n"
    finally:
        again.close()


@pytest.mark.parametrize("time", ["", "0h", "2", "two hours", "-1h"])
def test_a_wrong_duration_is_one_line(run, site, time):  # noqa: ARG001 - a site has run
    status, _, err = run("attack", "on", f"--for={time}")
    assert status == 2
    assert "is not a duration" in err


def test_explain_shows_the_rule_for_a_path(run, tmp_path, site):  # noqa: ARG001 - a site has run
    config = tmp_path / "rules.toml"
    config.write_text(
        "[[path]]\npath = '/open/*'\nprotection = 'off'\n"
        "[[path]]\npath = '/s*'\nclearance = true\nlimits = [{ count = 5, seconds = 60 }]\nmarks = 'off'\n"
    )
    _, out, _ = run("explain", "/open/x", "--config", str(config))
    assert "rule        /open/*: protection off" in out
    _, out, _ = run("explain", "/search?q=1", "--config", str(config))
    assert "rule        /s*: limits 5 pages in 60 s, marks off, clearance needed" in out
    assert "limits      5 pages in 60 s by visitor" in out
    _, out, _ = run("explain", "/other", "--config", str(config))
    assert "rule        none of [[path]]" in out
    assert "marks       links to it: clean" in out


def test_check_warns_of_rules_that_are_never_used(run, tmp_path):
    config = tmp_path / "rules.toml"
    config.write_text("[[path]]\npath = '/a'\n[[path]]\npath = '/A'\n[[path]]\npath = '*'\n[[path]]\npath = '/b'\n")
    status, _, err = run("check", str(config))
    assert status == 0
    assert "'/A' is never used: an earlier rule is for '/A'" in err
    assert "'/b' is never used: an earlier rule is for '*'" in err

"""Several sites in one process: two upstreams, a crawler that is banned at one of them, a third site by a reload."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from certificates import write_pair

from .servers import HEDGEROW, Nginx, Protect, clean_environment, wait_for

SETTINGS = """
unknown_hosts = "{unknown}"
[identity]
trusted_proxies = ["127.0.0.1/32"]
[policy]
suspects = "refuse"
[density]
windows = [{{ count = 5, seconds = 60 }}]
[[site]]
name = "shop"
hosts = ["shop.test", "*.shop.test"]
upstream = "{shop}"
[site.responses]
contact = "help@shop.test"
[[site]]
name = "blog"
hosts = ["blog.test"]
upstream = "{blog}"
[site.density]
windows = [{{ count = 1000, seconds = 60 }}]
"""
CRAWLER, PERSON = "198.51.100.7", "198.51.100.8"


def ask(server: Protect, host: str, path: str = "/", address: str = CRAWLER, *more: str) -> tuple[int, str]:
    """Status and page of a request for *host* from *address*."""
    headers = (f"Host: {host}", f"X-Forwarded-For: {address}", "Accept: text/html", "Sec-Fetch-Mode: navigate")
    command = ["curl", "-sk", "--max-time", "20", *(word for header in headers for word in ("-H", header)),
               "-A", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Firefox/128.0", "-w", "\\n%{http_code}",
               *more, server.url + path]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=True, timeout=30)
    page, _, status = done.stdout.rpartition("\n")
    return int(status), page


def hedgerow(server: Protect, *arguments: str) -> str:
    """What a command prints about the service."""
    done = subprocess.run(
        [HEDGEROW, *arguments, "--config", server.config], capture_output=True, text=True, cwd=server.folder,
        env=clean_environment(HEDGEROW__DIRECTORY=str(server.folder / "state")), timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def upstreams(nginx: Callable[..., Nginx], tmp_path: Path) -> dict[str, Nginx]:
    """Sites that say their name and the host that they were asked for."""
    made = {}
    for name in ("shop", "blog", "wiki"):
        (tmp_path / name).mkdir()
        page = f'default_type text/html; return 200 "<title>{name}</title><p>$host <a href=/next>next</a>"'
        made[name] = nginx(tmp_path / name, more=f"location / {{ {page}; }}")
    return made


@pytest.fixture
def text(upstreams: dict[str, Nginx]) -> Callable[..., str]:
    def settings(*, unknown: str = "refuse", more: str = "") -> str:
        return SETTINGS.format(unknown=unknown, shop=upstreams["shop"].url, blog=upstreams["blog"].url) + more

    return settings


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crawler_banned_at_one_site_reads_on_at_the_other(
    workers: int, protect: Callable[..., Protect], text: Callable[..., str]
) -> None:
    server = protect("", settings=text(), options=["--workers", str(workers)])
    assert "<title>shop</title>" in ask(server, "www.shop.test:8080")[1]
    assert "<title>blog</title>" in ask(server, "BLOG.test")[1]
    for _ in range(8):
        ask(server, "shop.test")
    status, page = ask(server, "shop.test")
    assert status == 429
    assert "help@shop.test" in page
    assert ask(server, "blog.test")[0] == 200
    assert ask(server, "shop.test", address=PERSON)[0] == 200
    assert ask(server, "other.test") == (421, "This host is not served here.\n")
    # What commands and the admin listener say about each.
    rows = json.loads(hedgerow(server, "visitors", "show", "--site", "shop", "--json"))
    assert [row["visitor"] for row in rows if row["until"]] == [CRAWLER]
    assert "blocked until" in hedgerow(server, "visitors", "show", CRAWLER, "--site", "shop")
    assert "blocked until" not in hedgerow(server, "visitors", "show", CRAWLER, "--site", "blog")
    assert "site shop: refused " in server.said()
    assert json.loads(server.ask_admin("/sites/shop/blocks"))[0]["key"] == CRAWLER
    assert json.loads(server.ask_admin("/sites/blog/blocks")) == []
    assert "would be" not in server.ask_admin("/sites/shop/dashboard/visitors")
    assert CRAWLER in server.ask_admin("/sites/shop/dashboard/visitors")
    refused = re.compile(r'hedgerow_visits_total{action="refuse",site="shop"} [1-9]')
    # Workers tell their counts once a second.
    wait_for("metrics", lambda: refused.search(server.ask_admin("/metrics")))
    assert 'hedgerow_visits_total{action="refuse",site="blog"} 0.0' in server.ask_admin("/metrics")
    reference = re.search(r"\b[0-9A-F]{4}-[0-9A-F]{4}\b", page)
    assert reference is not None
    wait_for("the ledger", lambda: _explained(server, reference[0]))
    server.stop()
    for name, host in (("shop", "shop.test"), ("blog", "blog.test")):
        with sqlite3.connect(server.folder / "state" / "sites" / name / "ledger.sqlite") as ledger:
            hosts = {row[0].lower().partition(":")[0] for row in ledger.execute("SELECT host FROM visits")}
        assert all(one.endswith(host) for one in hosts), hosts


def _explained(server: Protect, reference: str) -> bool:
    done = subprocess.run(
        [HEDGEROW, "explain", reference, "--site", "shop", "--config", server.config], capture_output=True, text=True,
        cwd=server.folder, env=clean_environment(HEDGEROW__DIRECTORY=str(server.folder / "state")), check=False,
    )  # fmt: skip
    return "status 429" in done.stdout


def test_a_reload_adds_and_removes_sites_and_a_faulty_one_changes_nothing(
    protect: Callable[..., Protect], text: Callable[..., str], upstreams: dict[str, Nginx]
) -> None:
    server = protect(upstreams["blog"].url, settings=text(unknown="default"))
    third = f'[[site]]\nname = "wiki"\nhosts = ["wiki.test"]\nupstream = "{upstreams["wiki"].url}"\n'
    assert "<title>blog</title>" in ask(server, "wiki.test")[1]
    for _ in range(8):
        ask(server, "shop.test")
    server.config.write_text(text(unknown="default", more=third + "[site.markr]\n"))
    os.kill(server.pid, signal.SIGHUP)
    wait_for("the fault", lambda: "site.2.markr: is not a setting; did you mean marker?" in server.said())
    assert "<title>blog</title>" in ask(server, "wiki.test")[1]
    server.config.write_text(text(unknown="default", more=third))
    os.kill(server.pid, signal.SIGHUP)
    wait_for("the third site", lambda: "<title>wiki</title>" in ask(server, "wiki.test", address=PERSON)[1])
    # The others have kept what they know.
    assert ask(server, "shop.test")[0] == 429
    server.config.write_text(third)
    os.kill(server.pid, signal.SIGHUP)
    wait_for("one site", lambda: "removed the site shop" in server.said())
    assert "<title>blog</title>" in ask(server, "shop.test", address=PERSON)[1]
    assert "<title>wiki</title>" in ask(server, "wiki.test", address=PERSON)[1]


def test_sites_share_blocks_only_if_the_settings_say_so(
    protect: Callable[..., Protect], text: Callable[..., str]
) -> None:
    server = protect("", settings=text().replace("upstream =", "share_blocks = true\nupstream ="))
    for _ in range(8):
        ask(server, "shop.test")
    assert ask(server, "blog.test")[0] == 429


def test_entries_of_one_list_count_at_one_site_and_common_ones_at_all(
    protect: Callable[..., Protect], text: Callable[..., str]
) -> None:
    server = protect("", settings=text())
    hedgerow(server, "lists", "add", "black", CRAWLER, "--site", "shop")
    hedgerow(server, "lists", "add", "black", PERSON)
    wait_for("its own list", lambda: ask(server, "shop.test")[0] == 403)
    wait_for("the common list", lambda: ask(server, "blog.test", address=PERSON)[0] == 403)
    assert ask(server, "blog.test")[0] == 200
    hedgerow(server, "lists", "add", "white", PERSON, "--site", "blog")
    wait_for("the own entry before the common one", lambda: ask(server, "blog.test", address=PERSON)[0] == 200)


def test_each_site_has_its_certificate(
    protect: Callable[..., Protect], text: Callable[..., str], tmp_path: Path, upstreams: dict[str, Nginx]
) -> None:
    common, shop = write_pair(tmp_path, "common.test", stem="common"), write_pair(tmp_path, "shop.test", stem="shop")
    settings = text(unknown="default").replace(
        "[site.responses]", f'[site.tls]\ncertificate = "{shop[0]}"\nkey = "{shop[1]}"\n[site.responses]', 1
    )
    settings = f'{settings}\n[tls]\ncertificate = "{common[0]}"\nkey = "{common[1]}"\n'
    server = protect(upstreams["blog"].url, settings=settings)
    for name, subject in (("shop.test", "shop.test"), ("blog.test", "common.test"), ("x.test", "common.test")):
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", name], input=b"",
            capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert f"CN = {subject}" in done.stdout.decode(), name

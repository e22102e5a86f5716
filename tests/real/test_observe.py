"""
A site that only observes: every byte is the site's own, and what was found has no consequences when observing ends.

wget crawls until it would have been blocked. The same is tried with each kind of state: in one process, shared by
workers, and in Redis.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.ledger.reader import open_ledger_reader

from . import crawling
from .databases import RedisServer
from .servers import HEDGEROW, Nginx, Protect, ask, clean_environment, wait_for

LIMIT = "[density]\nwindows = [{ count = 20, seconds = 600.0 }]\n[policy]\nsuspects = 'refuse'\n"
# What any reverse proxy may change: these belong to a connection or a moment.
HOPS = frozenset({"date", "connection", "keep-alive", "transfer-encoding"})
PAGE = "sql-select.html"
OLD_ETAG = 'W/"0-0-hs"'
BROWSER = {
    "accept": "text/html",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
    "user-agent": "Mozilla/5.0",
}
# A program over a rate limit is declined and not blocked.
AS_BROWSER = [f"--header={name}: {value}" for name, value in BROWSER.items()]
REQUESTS = [
    ("GET", "/", {}),
    ("GET", "/" + PAGE, {}),
    ("GET", "/" + PAGE, BROWSER),
    ("GET", "/" + PAGE, {**BROWSER, "accept-encoding": "gzip, br, zstd, other"}),
    ("GET", "/" + PAGE, {**BROWSER, "cookie": "hedgerow=AAAA; hedgerow_clearance=AAAA"}),
    ("GET", "/" + PAGE, {"range": "bytes=10-99"}),
    ("GET", "/" + PAGE, {"range": "bytes=10-99,200-299"}),
    ("GET", "/" + PAGE, {"if-none-match": OLD_ETAG}),
    ("GET", "/" + PAGE, {"if-modified-since": "Tue, 01 Jan 2036 00:00:00 GMT"}),
    ("HEAD", "/" + PAGE, BROWSER),
    ("GET", "/stylesheet.css", {}),
    ("GET", "/stylesheet.css", {"accept-encoding": "gzip"}),
    ("GET", "/missing.html", BROWSER),
    ("POST", "/" + PAGE, BROWSER),
    ("GET", "/robots.txt", {}),
    ("HEAD", "/robots.txt", {}),
    ("GET", "/.hedgerow/answer", BROWSER),
    ("GET", "/~AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", BROWSER),
    ("GET", "/" + PAGE + "?~=own", BROWSER),
]

Answer = tuple[int, list[tuple[str, str]], bytes]


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], documentation: Path) -> Nginx:
    return nginx(documentation, more='location = /robots.txt { return 200 "User-agent: *\\nDisallow: /x\\n"; }')


@pytest.fixture(params=["one process", "workers", "redis"])
def kind(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """More settings and options: the kind of state."""
    if request.param != "redis":
        yield "", ["--workers", "2"] if request.param == "workers" else []
        return
    server = RedisServer()
    try:
        # Long: on a busy machine the default gives up now and then, and lets a visit pass uncounted.
        yield f"[state]\nurl = '{server.url}'\ntimeout = 3.0\n", []
    finally:
        server.close()


def answer(url: str, method: str, path: str, headers: dict[str, str]) -> Answer:
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    # The site must not see which way a request takes: the Host decides about redirects.
    connection.request(method, path, headers={"host": "example.org", **headers})
    got = connection.getresponse()
    found = [(name.lower(), value) for name, value in got.getheaders() if name.lower() not in HOPS]
    body = got.read()
    connection.close()
    return got.status, found, body


def check_same(site: Nginx, hedgerow: Protect) -> None:
    for method, path, headers in REQUESTS:
        direct, through = (answer(url, method, path, headers) for url in (site.url, hedgerow.url))
        if b"multipart/byteranges" in str(direct[1]).encode():
            # nginx numbers its boundaries.
            assert (direct[0], len(direct[2])) == (through[0], len(through[2]))
            continue
        assert sorted(through[1]) == sorted(direct[1]), (method, path, headers)
        assert (through[0], through[2]) == (direct[0], direct[2]), (method, path, headers)


def command(state: Path, config: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(HEDGEROW), *arguments, "--config", str(config)],
        capture_output=True, text=True, timeout=60, check=False,
        env=clean_environment(HEDGEROW__DIRECTORY=str(state), COLUMNS="200"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def told_now(hedgerow: Protect) -> dict[str, Any]:
    """What the dashboard's page *Now* shows."""
    told: dict[str, Any] = json.loads(hedgerow.ask_admin("/api/v1/now"))
    return told


def test_observing_changes_no_byte_and_has_no_consequences(
    site: Nginx,
    protect: Callable[..., Protect],
    program: Callable[[str], str],
    address: Callable[[], str],
    kind: tuple[str, list[str]],
    tmp_path: Path,
) -> None:
    settings, options = LIMIT + kind[0], kind[1]
    where = {"HEDGEROW__DIRECTORY": str(tmp_path / "state")}
    hedgerow = protect(site.url, settings=settings, options=["--observe", *options], environment=where)
    check_same(site, hedgerow)
    who = address()
    crawl = tmp_path / "crawl"
    crawl.mkdir()
    crawling.wget(program("wget"), hedgerow.url, who, crawl, "-e", "robots=off", "-l", "1", *AS_BROWSER)
    titles = crawling.titles_in(site.root)
    got = crawling.stored(crawl, titles)
    assert len(got) > 40
    assert f"would have blocked '{who}'" in hedgerow.said()
    assert " blocked '" not in hedgerow.said().replace("would have blocked '", "")
    # It gets the same bytes after it would have been blocked.
    for name in got:
        assert (crawl / hedgerow.url.removeprefix("http://") / name).read_bytes() == (site.root / name).read_bytes()
    check_same(site, hedgerow)
    wait_for("the metrics of all processes", lambda: hedgerow.metric('hedgerow_would_have_total{action="refuse"}') > 20)
    assert hedgerow.metric('hedgerow_visits_total{action="refuse"}') == 0
    assert hedgerow.metric("hedgerow_blocked_total") == 0
    assert hedgerow.metric("hedgerow_would_have_blocked_total") >= 1
    wait_for("the ledger", lambda: told_now(hedgerow)["totals"]["refuse"] > 20)
    now = told_now(hedgerow)
    assert now["observing"]
    assert now["pages_saved"] > 20
    assert who in {block["visitor"] for block in now["latest_blocks"]}
    assert who in {visit["visitor"] for visit in now["latest_stopped"]}
    assert {visit["observed"] for visit in now["latest_stopped"]} == {True}
    page = hedgerow.ask_admin("/")
    assert "Would have blocked" in page
    assert "<dt>would have been refused</dt>" in page
    assert "<dt>pages that crawlers would not have got</dt>" in page
    assert '<td class="wide">would have been refused: ' in page
    assert '<td class="wide">refused: ' not in page
    assert who in page
    assert hedgerow.blocked() == {}
    assert who in {block["key"] for block in json.loads(hedgerow.ask_admin("/would-have-blocked"))}
    hedgerow.stop()
    state, config = tmp_path / "state", hedgerow.config
    assert "would have been refused, status 200" in command(state, config, "explain", who)
    assert "would have blocked until" in command(state, config, "visitors", "show")

    enforcing = protect(site.url, settings=settings, options=options, environment=where)
    again = tmp_path / "again"
    again.mkdir()
    crawling.wget(program("wget"), enforcing.url, who, again, "-e", "robots=off", "-l", "1", "--quota=1", *AS_BROWSER)
    assert (again / enforcing.url.removeprefix("http://") / "index.html").exists()
    assert ask(enforcing) == 200
    assert enforcing.blocked() == {}
    assert enforcing.metric('hedgerow_visits_total{action="refuse"}') == 0
    # Enforcing works as ever.
    crawling.wget(program("wget"), enforcing.url, who, again, "-e", "robots=off", *AS_BROWSER)
    wait_for("a block", lambda: who in enforcing.blocked())
    enforcing.stop()
    reader = open_ledger_reader(str(state / "ledger.sqlite"))
    rows = [row for batch in reader.by_time(["visitor", "action", "observed", "status"]) for row in batch]
    reader.close()
    assert {row[2] for row in rows if row[1] == "refuse" and row[3] == 200} == {"neutral"}
    assert {row[2] for row in rows if row[3] in {403, 429}} == {""}


def test_a_reload_ends_observing_without_consequences(
    site: Nginx, protect: Callable[..., Protect], kind: tuple[str, list[str]]
) -> None:
    settings, options = LIMIT + kind[0], kind[1]
    hedgerow = protect(site.url, settings="observe = true\n" + settings, options=options)
    workers = 3 if options else 1
    assert {ask(hedgerow, f"/{name}") for name in ("index.html", PAGE) for _ in range(25)} == {200}
    wait_for("a finding", lambda: "would have blocked" in hedgerow.said())
    hedgerow.config.write_text(settings)
    hedgerow.running.process.send_signal(signal.SIGHUP)
    wait_for("the reload", lambda: hedgerow.said().count("INFO reloaded the settings") == workers)
    assert [ask(hedgerow) for _ in range(20)] == [200] * 20
    assert hedgerow.blocked() == {}
    assert ask(hedgerow) == 429
    assert list(hedgerow.blocked()) == ["127.0.0.1"]
    # Observing begins again: the block is not enforced, and still in force afterwards.
    hedgerow.config.write_text("observe = 'links'\n" + settings)
    hedgerow.running.process.send_signal(signal.SIGHUP)
    wait_for("the reload", lambda: hedgerow.said().count("INFO reloaded the settings") == 2 * workers)
    assert ask(hedgerow) == 200
    assert b"~" in answer(hedgerow.url, "GET", "/", BROWSER)[2]
    assert hedgerow.blocked() == {}
    hedgerow.config.write_text(settings)
    hedgerow.running.process.send_signal(signal.SIGHUP)
    wait_for("the reload", lambda: hedgerow.said().count("INFO reloaded the settings") == 3 * workers)
    assert ask(hedgerow) == 429


def test_with_links_pages_are_marked_and_nothing_is_enforced(
    site: Nginx,
    protect: Callable[..., Protect],
    address: Callable[[], str],
    tmp_path: Path,
) -> None:
    where = {"HEDGEROW__DIRECTORY": str(tmp_path / "state")}
    hedgerow = protect(site.url, options=["--observe=links"], environment=where, settings='[marker]\nmode = "opaque"\n')
    assert "observing only, with marked links" in hedgerow.said()
    who = address()
    crawler = crawling.Crawler(hedgerow.url, who, crawling.titles_in(site.root), most=300)
    assert len(crawler.run()) > 100
    # Hidden links lead nowhere.
    assert crawler.statuses.keys() == {200, 404}
    assert "would have blocked" in hedgerow.said()
    assert b"Disallow: /~" in answer(hedgerow.url, "GET", "/robots.txt", {})[2]
    hedgerow.stop()
    enforcing = protect(site.url, environment=where, settings='[marker]\nmode = "opaque"\n')
    assert enforcing.blocked() == {}
    # Links that were marked while observing stay valid for whoever got them.
    first = crawling.Crawler(enforcing.url, who, crawling.titles_in(site.root), most=1)
    assert first.run() == {"index.html"}
    enforcing.stop()

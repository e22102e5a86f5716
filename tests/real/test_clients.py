"""
Programs that are no browser window: feed readers, git, curl, a page's own scripts.

None of them can solve a challenge, so none is shown one: as long as their visitor is a suspect they are told with 429
to come back later, in words that they can read. While it is not, they notice nothing.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import feedparser
import httpx
import pytest
from playwright.sync_api import Browser

from . import browsing
from .crawling import BROWSER
from .servers import PATIENCE, Nginx, Protect, clean_environment, run

ENTRIES = 5
ASKS = 130
"""More often than makes a suspect of who asks for one page after the other without a marked link."""
_PAGE = (
    "<!DOCTYPE html><html lang=en><title>Hedges</title><link rel=icon href='data:,'><body><a href=/a.html>A</a></body>"
)
_FEED = """<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Hedges</title>
<id>urn:hedges</id><updated>2026-01-01T00:00:00Z</updated>{entries}</feed>"""
_ENTRY = (
    '<entry><title>{n}</title><id>urn:{n}</id><updated>2026-01-0{n}T00:00:00Z</updated><link href="/{n}.html"/></entry>'
)
_ASK_BY_SCRIPT = """async () => {
    const told = async (answer) => ({
        status: answer.status, type: answer.headers.get("content-type"), retry: answer.headers.get("retry-after"),
        text: await answer.text(),
    });
    const byXhr = () => new Promise((resolve) => {
        const xhr = new XMLHttpRequest();
        xhr.onload = () => resolve({
            status: xhr.status, type: xhr.getResponseHeader("content-type"),
            retry: xhr.getResponseHeader("retry-after"), text: xhr.responseText,
        });
        xhr.open("GET", "/data.json");
        xhr.send();
    });
    return [
        await byXhr(),
        await told(await fetch("/data.json", {headers: {accept: "application/json"}})),
        await told(await fetch("/part", {headers: {accept: "text/html"}})),
        await told(await fetch("/data.json", {
            method: "POST", body: "{}", headers: {"content-type": "application/json"},
        })),
    ];
}"""


@pytest.fixture(scope="module")
def upstream(nginx: Callable[..., Nginx], repository: Path) -> Nginx:
    """A site with pages, a feed at two addresses, data for scripts, a part of a page, and a git repository."""
    feed = _FEED.format(entries="".join(_ENTRY.format(n=n) for n in range(1, ENTRIES + 1)))
    for name, text in {
        "index.html": _PAGE,
        "a.html": _PAGE,
        "style.css": "a { color: green }",
        "data.json": '{"a": 1}',
        "part": "<p>Part</p>",
        "feed.xml": feed,
        "feed": feed,
    }.items():
        (repository / name).write_text(text)
    return nginx(
        repository,
        more="location = /feed { default_type application/atom+xml; } location = /part { default_type text/html; }"
        # nginx has no other answer to a POST for a file.
        " error_page 405 =200 $uri;",
    )


@pytest.fixture
def hedgerow(protect: Callable[..., Protect], upstream: Nginx) -> Protect:
    return protect(upstream.url)


def make_suspect(hedgerow: Protect) -> None:
    """Whoever is at 127.0.0.1 asks for changed links until it is challenged; a person there is shown a page."""
    with httpx.Client(base_url=hedgerow.url, headers=BROWSER, timeout=PATIENCE, trust_env=False) as client:
        # It keeps the cookie: without, over plain http, it could be a frame of another site.
        client.get("/")
        for n in range(20):
            answer = client.get(f"/~{n:02}{'A' * 60}")
            if answer.status_code == 403:
                break
        assert answer.status_code == 403
        page = client.get("/")
        assert (page.status_code, page.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert "challenge.js" in page.text
    assert hedgerow.blocked() == {}, "it is asked, not blocked"


@pytest.fixture(scope="module")
def suspecting(protect: Callable[..., Protect], upstream: Nginx) -> Protect:
    """One to whom everybody at 127.0.0.1 is a suspect."""
    hedgerow = protect(upstream.url)
    make_suspect(hedgerow)
    return hedgerow


def check_undisturbed(hedgerow: Protect, most: float = 0.05) -> None:
    """Everything was passed on, and next to nothing was held against anybody."""
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    visits = hedgerow.visits()
    assert visits
    assert {visit["action"] for visit in visits} == {"pass"}
    # What headers lack weighs with each visit and does not add up; the browser here is a driven one.
    found = [one for visit in visits for one in json.loads(visit["evidence"]) if one["detector"] != "headers"]
    assert sum(one["weight"] for one in found) < most


def check_declined(status: int, content_type: str, retry_after: str, text: str) -> None:
    """Told to come back, and not in HTML."""
    assert status == 429
    assert content_type.partition(";")[0] in {"application/json", "text/plain"}
    assert 0 < int(retry_after) <= 3600
    assert "<" not in text
    if text and content_type == "application/json":
        json.loads(text)


# ---- Feed readers


def read_feed(url: str, **known: str) -> feedparser.FeedParserDict:
    """As a feed reader reads it, but for proxies that the environment may name."""
    return feedparser.parse(url, handlers=[urllib.request.ProxyHandler({})], **known)


@pytest.mark.parametrize("path", ["/feed.xml", "/feed"])
def test_a_feed_reader(path: str, hedgerow: Protect) -> None:
    for _ in range(ASKS // 10):
        feed = read_feed(hedgerow.url + path)
        assert (feed.status, feed.bozo, len(feed.entries)) == (200, False, ENTRIES)
        # Where one reads it, elsewhere, nobody could open a marked link as oneself.
        assert [entry.link for entry in feed.entries] == [f"{hedgerow.url}/{n}.html" for n in range(1, ENTRIES + 1)]
    assert read_feed(hedgerow.url + path, etag=feed.etag, modified=feed.modified).status == 304
    check_undisturbed(hedgerow)


@pytest.mark.parametrize("path", ["/feed.xml", "/feed"])
def test_a_feed_reader_that_is_suspected(path: str, suspecting: Protect) -> None:
    feed = read_feed(suspecting.url + path)
    assert feed.entries == []
    check_declined(feed.status, feed.headers["content-type"], feed.headers["retry-after"], "")


# ---- git


def clone(git: str, hedgerow: Protect, folder: Path) -> subprocess.CompletedProcess[str]:
    """What git says, with every header that it gets."""
    quiet = {"HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_TRACE_CURL": "1"}
    return subprocess.run(
        [git, "clone", f"{hedgerow.url}/repository.git", "copy"],
        cwd=folder, env=clean_environment(**quiet), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_git(hedgerow: Protect, repository: Path, program: Callable[[str], str], tmp_path: Path) -> None:
    done = clone(program("git"), hedgerow, tmp_path)
    assert done.returncode == 0, done.stderr
    for path in (repository / "work").glob("*.txt"):
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()
    check_undisturbed(hedgerow)


def test_git_that_is_suspected(suspecting: Protect, program: Callable[[str], str], tmp_path: Path) -> None:
    done = clone(program("git"), suspecting, tmp_path)
    assert done.returncode != 0
    assert "error: 429" in done.stderr
    assert "retry-after:" in done.stderr.lower()
    assert "text/html" not in done.stderr


# ---- curl, and HEAD


def curl(program: Callable[[str], str], folder: Path, *options: str) -> str:
    return run([program("curl"), "-sS", "--noproxy", "*", *options], cwd=folder)


@pytest.mark.parametrize("options", [[], ["-I"]], ids=["GET", "HEAD"])
def test_a_monitor(options: list[str], hedgerow: Protect, program: Callable[[str], str], tmp_path: Path) -> None:
    """It asks for one page again and again, and for some others now and then."""
    say = ["-o", "/dev/null", "-w", r"%{http_code} %{content_type}\n"]
    # Each address needs a place of its own for what comes.
    again = [word for _ in range(ASKS) for word in ("-o", "/dev/null", hedgerow.url + "/")]
    said = curl(program, tmp_path, *options, "--rate", "25/s", "-w", r"%{http_code} %{content_type}\n", *again)
    assert said.splitlines() == ["200 text/html"] * ASKS
    assert curl(program, tmp_path, *options, *say, hedgerow.url + "/a.html") == "200 text/html\n"
    assert curl(program, tmp_path, *options, *say, hedgerow.url + "/data.json") == "200 application/json\n"
    # The other page is linked by the first one, so for once it looks as if a link was followed.
    check_undisturbed(hedgerow, 0.15)


def test_curl_that_is_suspected(suspecting: Protect, program: Callable[[str], str], tmp_path: Path) -> None:
    for accept in ("*/*", "application/json", "text/plain"):
        for options in ([], ["-I"], ["-X", "PUT", "-d", "x"], ["-H", "Range: bytes=0-9"]):
            for path in ("/", "/a.html", "/data.json", "/feed.xml"):
                answer = curl(program, tmp_path, "-i", "-H", f"Accept: {accept}", *options, suspecting.url + path)
                head, _, body = answer.replace("\r\n", "\n").partition("\n\n")
                headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:])
                status = int(head.split()[1])
                check_declined(status, headers["content-type"], headers["retry-after"], body)
                assert bool(body) == ("-I" not in options)
    # What a page brought along before it was suspected may come still.
    assert curl(program, tmp_path, suspecting.url + "/style.css") == "a { color: green }"


# ---- A page's own scripts


def test_a_script_of_a_page(browser: Browser, hedgerow: Protect) -> None:
    with browsing.tab(browser) as page:
        watch = browsing.Watch(page.context, hedgerow.url)
        page.goto(hedgerow.url + "/")
        for _ in range(8):
            answers = page.evaluate(_ASK_BY_SCRIPT)
            assert [(answer["status"], answer["type"]) for answer in answers] == [
                (200, "application/json"),
                (200, "application/json"),
                (200, "text/html"),
                (200, "application/json"),
            ]
            assert answers[2]["text"] == "<p>Part</p>"
        assert watch.decisions == watch.complaints == []
    check_undisturbed(hedgerow)


def test_a_script_of_a_page_that_is_suspected(
    browser: Browser, protect: Callable[..., Protect], upstream: Nginx
) -> None:
    # With a clearance the browser would be another visitor than its address.
    hedgerow = protect(upstream.url, settings="[challenge]\nsilent = false\n")
    with browsing.tab(browser) as page:
        page.goto(hedgerow.url + "/")
        make_suspect(hedgerow)
        for answer in page.evaluate(_ASK_BY_SCRIPT):
            check_declined(answer["status"], answer["type"], answer["retry"], answer["text"])
        # Who sits in front of it is asked at the next click, and goes on.
        page.get_by_text("A", exact=True).click()
        page.wait_for_function("() => document.title === 'Hedges'")
        page.wait_for_selector("a:text-is('A')")
        assert [answer["status"] for answer in page.evaluate(_ASK_BY_SCRIPT)] == [200] * 4

"""
The recipes of docs/recipes.md in front of the applications that they are for, enforced.

A person in Chromium reads pages and opens one that needs a clearance. Programs get what they are meant to get.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from docs.recipes import recipes

from .apps.wiki import Wiki, missing_parts
from .browsing import tab
from .conftest import missing
from .servers import Nginx, Protect, Running, answers, clean_environment, free_port, wait_for

CGIT = Path("/usr/lib/cgit/cgit.cgi")
DJANGO = """
import sys
import django
from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x" * 50, DEBUG=True, STATIC_URL="/static/",
    INSTALLED_APPS=[
        "django.contrib." + n for n in ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {
        "context_processors": [
            "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]}}],
)
django.setup()
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import call_command

def book(request, n=1):
    links = "".join(f'<li><a href="/books/{m}/">Book {m}</a></li>' for m in range(1, 21))
    return HttpResponse(f"<!doctype html><title>Book {n}</title><h1>Book {n}</h1><ul>{links}</ul>")

urlpatterns = [
    path("", book), path("books/<int:n>/", book), path("admin/", admin.site.urls),
    path("api/books/<int:n>", lambda request, n: JsonResponse({"book": n})),
]
call_command("migrate", verbosity=0)
User.objects.create_superuser("hazel", "hazel@example.org", "hazel-in-the-hedge")
call_command("runserver", "127.0.0.1:" + sys.argv[2], "--noreload", verbosity=0)
"""


def enforced(name: str) -> str:
    return recipes()[name].replace("observe = true\n", "")


def ask(url: str, *, agent: str = "an-own-program/1.0", data: bytes | None = None) -> tuple[int, str]:
    """Return status and body of what a program gets that is no browser."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data, {"User-Agent": agent, "Accept": "*/*"})
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")


def read(page: Page, url: str) -> int:
    """Open an address as a person does, who looks at the page for a moment, and return its status."""
    answer = page.goto(url)
    assert answer is not None
    page.mouse.move(200, 200, steps=5)
    page.wait_for_timeout(500)
    assert page.locator("form[action*='/.hedgerow/']").count() == 0, f"{url} shows a challenge"
    return answer.status


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wiki]:
    if lacking := missing_parts():
        missing(lacking)
    server = Wiki(tmp_path_factory.mktemp("wiki") / "site")
    yield server
    server.stop()


def test_dokuwiki(wiki: Wiki, protect: Callable[..., Protect], browser: Browser) -> None:
    server = protect(wiki.url, settings=enforced("DokuWiki"))
    page_of = f"{server.url}/doku.php?id="
    with tab(browser) as page:
        assert [read(page, page_of + name) for name in ("start", "trees:start", "trees:hazel", "birds:wren")] == [
            200
        ] * 4
        assert read(page, page_of + "trees:hazel&do=revisions") == 200
        assert "revisions" in page.content().lower()
        assert read(page, page_of + "trees:hazel&do=edit") == 200
        # The form of the editor is as the wiki wrote it.
        assert page.locator("main a[href*='~'], #dokuwiki__content a[href*='~=']").count() == 0
    assert ask(page_of + "trees:hazel&do=revisions")[0] == 429
    status, feed = ask(server.url + "/feed.php")
    assert (status, "~=" in feed) == (200, False)
    assert [ask(server.url + "/lib/exe/css.php")[0] for _ in range(50)] == [200] * 50


def test_django(protect: Callable[..., Protect], browser: Browser, tmp_path: Path) -> None:
    script, port = tmp_path / "shop.py", free_port()
    script.write_text(DJANGO)
    running = Running(
        [sys.executable, str(script), str(tmp_path / "db"), str(port)], tmp_path / "django.log", cwd=tmp_path
    )
    try:
        wait_for("Django", lambda: answers(port) or not running.alive)
        server = protect(f"http://127.0.0.1:{port}", settings=enforced("Django"))
        with tab(browser) as page:
            assert [read(page, f"{server.url}/books/{n}/") for n in range(1, 5)] == [200] * 4
            assert page.locator("a[href*='~=']").count() > 10
            assert read(page, server.url + "/admin/") == 200
            page.get_by_label("Username").fill("hazel")
            page.get_by_label("Password").fill("hazel-in-the-hedge")
            page.get_by_role("button", name="Log in").click()
            page.get_by_role("heading", name="Site administration").wait_for()
            assert read(page, server.url + "/admin/auth/user/?o=-1") == 200
            # Of the links of the administration none has a mark. "View site" leads to pages.
            marked = page.locator("a[href*='~']").evaluate_all("all => all.map((one) => one.textContent)")
            assert [text for text in marked if text not in ("Django administration", "View site")] == []
            assert any(cookie["name"] == "sessionid" for cookie in page.context.cookies())
        assert ask(server.url + "/api/books/7") == (200, '{"book": 7}')
        found = [ask(server.url + "/api/books/7")[0] for _ in range(205)]
        assert (found[:190], found[-1]) == ([200] * 190, 429)
    finally:
        running.stop()


def test_static_documentation(
    nginx: Callable[..., Nginx], documentation: Path, protect: Callable[..., Protect], browser: Browser
) -> None:
    server = protect(nginx(documentation).url, settings=enforced("Static documentation"))
    with tab(browser) as page:
        assert read(page, server.url + "/index.html") == 200
        for _ in range(12):
            page.locator("a[accesskey='n']").first.click()
            page.mouse.move(300, 250, steps=3)
            page.wait_for_timeout(700)
            assert page.locator(".titlepage, .navheader").count() > 0, page.url
    robots = ask(server.url + "/index.html", agent="Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)")
    assert robots[0] == 403


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits 40 ms between head and body.
    disable_nagle_algorithm = True

    def do_GET(self):
        kind = "application/json" if self.path.startswith("/api/") else "text/html"
        links = "".join(f'<a href="/page/{n}">{n}</a> ' for n in range(20))
        self.answer(
            kind, b'{"ok": true}' if kind != "text/html" else f"<!doctype html><title>A</title>{links}".encode()
        )

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.answer("text/plain", b"thanks")

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def api() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_api_next_to_pages(api: str, protect: Callable[..., Protect], browser: Browser) -> None:
    server = protect(api, settings=enforced("An API next to pages"))
    assert {ask(server.url + "/hooks/payment", data=b"{}")[0] for _ in range(150)} == {200}
    assert [ask(server.url + "/api/v1/export")[0] for _ in range(7)] == [200] * 5 + [429] * 2
    found = [ask(server.url + "/api/v1/books") for _ in range(620)]
    assert set(found[:590]) == {(200, '{"ok": true}')}
    assert found[-1][0] == 429
    # A person at the same address does not notice.
    with tab(browser) as page:
        assert [read(page, f"{server.url}/page/{n}") for n in range(6)] == [200] * 6


class Cgi(BaseHTTPRequestHandler):
    """Runs cgit for each request."""

    configuration = ""

    def do_GET(self):
        path, _, query = self.path.partition("?")
        environment = {
            "CGIT_CONFIG": self.configuration, "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": "/", "HTTP_HOST": self.headers["host"], "SERVER_NAME": "127.0.0.1",
            "PATH": os.environ["PATH"],
        }  # fmt: skip
        said = subprocess.run([CGIT], env=environment, capture_output=True, timeout=20, check=False).stdout
        head, _, body = said.partition(b"\n\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_cgit(protect: Callable[..., Protect], browser: Browser, program: Callable[[str], str], tmp_path: Path) -> None:
    if not CGIT.exists():
        missing("cgit")
    git, work = program("git"), tmp_path / "hedges"
    work.mkdir()
    environment = clean_environment(HOME=str(tmp_path), GIT_CONFIG_NOSYSTEM="1")

    def run(*command: str, where: Path = work) -> str:
        done = subprocess.run(
            [git, *command], cwd=where, env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    for n in range(5):
        (work / "a.txt").write_text(f"{n}\n" * 50)
        run("add", ".")
        run("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", f"Change {n}")
    configuration = tmp_path / "cgitrc"
    configuration.write_text(
        f"virtual-root=/\nenable-http-clone=1\ncache-size=0\ncss=\nlogo=\n\nrepo.url=hedges\nrepo.path={work}/.git\n"
    )
    Cgi.configuration = str(configuration)
    with ThreadingHTTPServer(("127.0.0.1", 0), Cgi) as origin:
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        server = protect(f"http://127.0.0.1:{origin.server_port}", settings=enforced("Gitea and cgit"))
        commit = run("rev-parse", "HEAD")
        with tab(browser) as page:
            paths = ("/", "/hedges/", "/hedges/log/", f"/hedges/commit/?id={commit}", f"/hedges/diff/?id={commit}")
            assert [read(page, server.url + path) for path in paths] == [200] * 5
            assert "+4" in page.content()
        assert ask(f"{server.url}/hedges/diff/?id={commit}")[0] == 429
        run("clone", "-q", f"{server.url}/hedges", str(tmp_path / "clone"), where=tmp_path)
        assert (tmp_path / "clone" / "a.txt").read_text() == "4\n" * 50
        origin.shutdown()

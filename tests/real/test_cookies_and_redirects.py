"""
Cookies with a path in Chromium, in each mode of marked links, and redirects of a real nginx.

Two applications with one cookie name stand on two paths of a site. A visitor may have logged in before there was a
Hedgerow: cookies know no ports, so that is a visit to the site's own port.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from .browsing import tab
from .servers import Nginx, Protect

MODES = ["clean", "opaque", "readable", "off"]
PAGE = """<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1><p id="who">{who}</p>
<p id="script"></p><script>document.getElementById("script").textContent = document.cookie</script>
<p><a href="/">home</a> <a href="/wiki/page">wiki</a> <a href="/shop/page">shop</a>
<a href="login">log in</a> <a href="logout">log out</a></p></body></html>"""
NAMES = {"wiki": "ann", "shop": "bob"}


class Applications(BaseHTTPRequestHandler):
    """A wiki and a shop, each with its own `sid` for its path."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        _, application, *rest = self.path.partition("?")[0].split("/")
        cookies = [SimpleCookie(pair) for pair in (self.headers.get("cookie") or "").split("; ")]
        # Of two cookies with this name the first counts, as in most frameworks.
        who = next((one["sid"].value for one in cookies if "sid" in one), "nobody")
        folder, what = f"/{application}/", rest[-1] if rest else ""
        if what == "login":
            ours = f"sid={NAMES[application]}; Path={folder}; HttpOnly", f"mode=of-{application}; Path={folder}"
            self._answer(302, location=f"{folder}page", cookies=ours)
        elif what == "logout":
            # As Django and Flask do: without HttpOnly.
            gone = f"sid=; Path={folder}; Max-Age=0", f"mode=; Path={folder}; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
            self._answer(302, location=f"{folder}page", cookies=gone)
        else:
            self._answer(200, PAGE.format(title=application or "home", who=who).encode())

    def _answer(self, status: int, body: bytes = b"", *, location: str = "", cookies: tuple[str, ...] = ()) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "text/html; charset=utf-8")
        if location:
            self.send_header("location", location)
        for cookie in cookies:
            self.send_header("set-cookie", cookie)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def applications() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Applications)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module", params=MODES)
def hedgerow(request: pytest.FixtureRequest, protect: Callable[..., Protect], applications: str) -> Protect:
    return protect(applications, settings=f'[marker]\nmode = "{request.param}"\nrules = []\n')


def click(page: Page, *names: str, who: str) -> None:
    for name in names:
        page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#who")).to_have_text(who)


def test_two_cookies_with_one_name_stay_apart_and_logging_out_logs_out(browser: Browser, hedgerow: Protect) -> None:
    with tab(browser) as page:
        page.goto(hedgerow.url)
        click(page, "wiki", who="nobody")
        click(page, "log in", who="ann")
        expect(page.locator("#script")).to_contain_text("mode=of-wiki")
        click(page, "shop", who="nobody")
        click(page, "log in", who="bob")
        click(page, "wiki", who="ann")
        click(page, "home", who="nobody")
        click(page, "wiki", who="ann")
        click(page, "log out", who="nobody")
        click(page, "shop", who="bob")
        page.goto(hedgerow.url + "/wiki/page")
        expect(page.locator("#who")).to_have_text("nobody")
        page.goto(hedgerow.url + "/shop/page")
        expect(page.locator("#who")).to_have_text("bob")
        click(page, "log out", who="nobody")
        left = {cookie["name"] for cookie in page.context.cookies()}
        assert left <= {"hedgerow", "hedgerow-clearance"}, left


def test_a_cookie_from_before_hedgerow_is_deleted(browser: Browser, hedgerow: Protect, applications: str) -> None:
    with tab(browser) as page:
        page.goto(applications + "/wiki/login")
        expect(page.locator("#who")).to_have_text("ann")
        page.goto(hedgerow.url + "/wiki/page")
        expect(page.locator("#who")).to_have_text("ann")
        page.goto(hedgerow.url)
        click(page, "wiki", "log out", who="nobody")
        page.goto(hedgerow.url + "/wiki/page")
        expect(page.locator("#who")).to_have_text("nobody")
        assert {cookie["name"] for cookie in page.context.cookies()} <= {"hedgerow", "hedgerow-clearance"}


# ---- Redirects


def get(url: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request("GET", path, headers={"accept": "text/html", **headers})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize("host", ["", "example.org", "example.org:8080", "[::1]:8080"])
@pytest.mark.parametrize("options", [[], ["--observe"]])
def test_redirects_of_nginx_stay_behind_hedgerow(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], tmp_path: Path, host: str, options: list[str]
) -> None:
    root = tmp_path / "site"
    (root / "dir").mkdir(parents=True)
    (root / "dir" / "index.html").write_text("<!DOCTYPE html><title>Dir</title><body>Dir</body>")
    (root / "files").mkdir()
    (root / "files" / "robots.txt").write_text("User-agent: *\nDisallow: /private\n")
    site = nginx(root, more="location = /robots.txt { return 302 /files/robots.txt; }")
    hedgerow = protect(site.url, options=options)
    headers = {"host": host} if host else {}
    status, direct, _ = get(site.url, "/dir", **headers)
    assert (status, f":{site.port}/dir/" in direct["location"]) == (301, True)
    status, through, _ = get(hedgerow.url, "/dir", **headers)
    assert status == 301
    assert str(site.port) not in through["location"]
    target = through["location"]
    assert target.startswith("/")
    status, _, body = get(hedgerow.url, target, **headers)
    assert (status, b"<title>Dir</title>" in body) == (200, True)
    status, _, body = get(hedgerow.url, "/robots.txt", **headers)
    if options:
        assert status == 302
    else:
        assert (status, b"Disallow: /private" in body, b"~" in body) == (200, True, True)


def test_redirects_can_be_left_alone(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], tmp_path: Path
) -> None:
    (tmp_path / "site" / "dir").mkdir(parents=True)
    site = nginx(tmp_path / "site")
    hedgerow = protect(site.url, options=["--observe"], settings="[proxy]\nrewrite_addresses = false\n")
    direct = get(site.url, "/dir", host=f"127.0.0.1:{hedgerow.port}")[1]
    assert get(hedgerow.url, "/dir")[1]["location"] == direct["location"]

"""The site's robots.txt: kept, and our links disallowed in it; made up where there is none."""

from __future__ import annotations

import pytest

from driving import PAGE, Application, Client
from driving_wsgi import WsgiApplication, WsgiClient


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_site_without_robots_gets_one(status):
    client = Client(Application(b"<h1>Not here</h1>", status=status))
    answer = client.get("/robots.txt")
    assert answer.status == 200
    assert b"Disallow: /~" in answer.body
    assert answer.header("content-type") == b"text/plain; charset=utf-8"
    assert answer.header("content-length") == b"%d" % len(answer.body)
    assert client.entries[0].status == 200


def test_robots_of_the_site_are_kept_and_ours_added():
    plain = (b"content-type", b"text/plain")
    app = Application(
        b"User-agent: *\n", b"Disallow: /private\n", headers=[plain, (b"content-length", b"34"), (b"etag", b'"x"')]
    )
    client = Client(app)
    answer = client.get(
        "/robots.txt", headers={"if-none-match": 'W/"x-hs"', "range": "bytes=0-5", "accept-encoding": "gzip"}
    )
    assert answer.status == 200
    assert answer.body == b"User-agent: *\nDisallow: /*~=\nDisallow: /~\nDisallow: /private\n"
    assert answer.header("content-length") == b"%d" % len(answer.body)
    assert answer.header("etag") == b'W/"x-hs"'
    assert {app.seen(name) for name in ("if-none-match", "range", "accept-encoding")} == {None}


def test_an_application_that_answers_everything_with_its_start_page():
    answer = Client().get("/robots.txt")
    assert answer.status == 200
    assert answer.body.startswith(b"User-agent: *")


def test_a_head_of_robots_tells_the_length_of_the_get():
    for app in (Application(b"User-agent: *\n", headers=[(b"content-type", b"text/plain")]), Application(status=404)):
        client = Client(app)
        whole, head = client.get("/robots.txt"), client.get("/robots.txt", method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers == whole.headers
        assert client.entries[1].visit.method == "HEAD"


def test_other_answers_to_robots_go_through():
    redirect = Application(b"moved", status=301, headers=[(b"location", b"https://example.org/robots.txt")])
    assert Client(redirect).get("/robots.txt").status == 301
    broken = Client(Application(b"<h1>Oh no</h1>", status=500))
    assert broken.get("/robots.txt").body == b"<h1>Oh no</h1>"
    assert broken.get("/robots.txt", method="HEAD").body == b""
    nothing = '[traps]\nenabled = false\n[marker]\nmode = "off"\nrules = []'
    assert Client(Application(status=404), nothing).get("/robots.txt").status == 404


TEXT = (b"content-type", b"text/plain")


def site(answers: dict[str, tuple[int, str, bytes]]) -> Application:
    """Answers by path and query: status, location and body. `https:` before a path is for that scheme alone."""

    def react(scope):
        target = scope["path"] + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
        status, location, body = answers.get(f"{scope['scheme']}:{target}") or answers.get(target) or (404, "", b"")
        headers = [TEXT, *([(b"location", location.encode())] if location else [])]
        return {"status": status, "headers": headers, "chunks": (body,)}

    return Application(react=react)


FILE = (200, "", b"User-agent: *\nDisallow: /private\n")
WHOLE = b"User-agent: *\nDisallow: /*~=\nDisallow: /~\nDisallow: /private\n"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location",
    ["/files/robots.txt?v=1", "files/robots.txt?v=1", "http://example.org/files/robots.txt?v=1", "//example.org/step"],
)
def test_a_redirect_on_the_host_is_followed(status, location):
    app = site({"/robots.txt": (status, location, b"moved"), "/files/robots.txt?v=1": FILE, "/step": (302, "/x", b""),
                "/x": (301, "/files/robots.txt?v=1", b"")})  # fmt: skip
    client = Client(app)
    whole, head = client.get("/robots.txt"), client.get("/robots.txt", method="HEAD")
    assert (whole.status, whole.body) == (200, WHOLE)
    assert (head.status, head.body, head.headers) == (200, b"", whole.headers)
    assert {entry.status for entry in client.entries} == {200}


def test_a_redirect_to_https_is_followed_with_that_scheme():
    app = site({"http:/robots.txt": (301, "https://example.org/robots.txt", b""), "https:/robots.txt": FILE})
    assert Client(app).get("/robots.txt").body == WHOLE
    trusted = Client(app, "[identity]\ntrusted_proxies = ['192.0.2.0/24']\n")
    assert trusted.get("/robots.txt", headers={"x-forwarded-proto": "http"}).body == WHOLE
    assert app.seen("x-forwarded-proto") == b"https"


def test_a_redirect_is_followed_under_wsgi():
    def react(environ):
        here = environ["wsgi.url_scheme"], environ["PATH_INFO"]
        if here == ("https", "/files/robots.txt"):
            return {"headers": [TEXT], "chunks": (FILE[2],)}
        return {"status": 301, "headers": [(b"location", b"https://example.org/files/robots.txt")], "chunks": (b"",)}

    answer = WsgiClient(WsgiApplication(react=react)).get("/robots.txt")
    assert (answer.status, answer.body) == (200, WHOLE)


def test_a_redirect_to_nothing_gives_our_own_robots():
    answer = Client(site({"/robots.txt": (302, "/missing", b"")})).get("/robots.txt")
    assert (answer.status, b"Disallow: /~" in answer.body) == (200, True)


@pytest.mark.parametrize(
    "answers",
    [
        {"/robots.txt": (302, "/robots.txt", b"moved")},
        {"/robots.txt": (302, "/broken", b"moved"), "/broken": (500, "", b"Oh no")},
        {"/robots.txt": (302, "/away", b"moved"), "/away": (302, "https://other.example/robots.txt", b"elsewhere")},
        {"/robots.txt": (302, "//[", b"moved")},
        {"/robots.txt": (302, "", b"moved")},
        {"/robots.txt": (302, "http://example.org:81/robots.txt", b"moved")},
        {"/robots.txt": (302, "ftp://example.org/robots.txt", b"moved")},
    ],
)
def test_a_redirect_that_leads_to_no_robots_is_passed_on(answers):
    client = Client(site(answers))
    answer, head = client.get("/robots.txt"), client.get("/robots.txt", method="HEAD")
    assert (answer.status, answer.body) == (302, b"moved")
    assert (answer.header("location") or b"").decode() == answers["/robots.txt"][1]
    assert (head.status, head.body) == (302, b"")


def test_lines_that_cannot_reach_a_crawler_are_logged_once(caplog):
    client = Client(site({"/robots.txt": (302, "https://files.example/r.txt", b"moved")}))
    for _ in range(3):
        assert client.get("/robots.txt").status == 302
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "robots.txt is redirected to 'https://files.example/r.txt', where these lines are missing: "
        "User-agent: *, Disallow: /*~=, Disallow: /~"
    )
    canonical = Client(site({"/robots.txt": (301, "https://www.example.org/robots.txt", b"")}))
    caplog.clear()
    assert canonical.get("/robots.txt").status == 301
    assert caplog.records == []


def test_a_page_at_the_end_of_a_redirect_is_no_robots():
    client = Client(site({"/robots.txt": (302, "/login", b"")}))
    client.app.react, robots = (lambda scope: None if scope["path"] == "/login" else robots(scope)), client.app.react
    answer = client.get("/robots.txt")
    assert PAGE not in answer.body
    assert answer.body.startswith(b"User-agent: *")


def test_marked_links_are_disallowed_where_there_are_no_traps():
    client = Client(Application(status=404), "[traps]\nenabled = false")
    assert client.get("/robots.txt").body == b"User-agent: *\nDisallow: /*~=\nDisallow: /~\n"


def test_robots_in_a_coding_that_was_not_asked_for_are_counted():
    client = Client(
        Application(b"\x1f\x8b...", headers=[(b"content-type", b"text/plain"), (b"content-encoding", b"gzip")])
    )
    assert client.get("/robots.txt").body == b"\x1f\x8b..."
    assert client.site.counters.skipped == {"coding": 1}


def test_endless_robots_end():
    pieces = [b"Disallow: /%d\n" % n * 1000 for n in range(100)]
    answer = Client(Application(b"User-agent: *\n", *pieces, headers=[(b"content-type", b"text/plain")])).get(
        "/robots.txt"
    )
    assert 400_000 < len(answer.body) < 600_000

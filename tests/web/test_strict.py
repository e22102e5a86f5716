"""Pages that open only by a marked link: which they are, what a visitor is told, and that no header opens them."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import msgspec
import pytest

from driving import HTML, Application, Client

BROWSER = {"accept": "text/html,*/*;q=0.8", "sec-fetch-site": "none", "sec-fetch-mode": "navigate"}
PAGE = (
    b"<!DOCTYPE html><html><head><title>t</title></head><body><a href='/article/5'>five</a>"
    b"<a href='/wiki/Node.js'>a name</a><a href='/report.pdf'>a file</a><a href='/api/x'>an API</a></body></html>"
)
MODES = ["clean", "opaque", "readable"]


def strict(mode: str = "clean", more: str = "strict = true\n", app: Application | None = None) -> Client:
    return Client(
        app or Application(PAGE), f"[marker]\nmode = '{mode}'\n{more}[responses]\ncontact = 'ann@example.org'\n"
    )


def links(client: Client) -> list[str]:
    body = client.get("/", headers=BROWSER).body.decode()
    return [unescape(link) for link in re.findall(r"<a href=[\"']([^\"']*)[\"']>\w", body)]


def codes(client: Client) -> list[str]:
    return [found.code for found in client.entries[-1].decision.evidence if found.detector != "headers"]


# ---- Which pages are closed


@pytest.mark.parametrize("mode", MODES)
def test_all_pages_but_the_entries_open_only_by_a_link(mode):
    client = strict(mode, "strict = true\nentries = ['/', '/news/*']\n")
    five, name, file, api = links(client)
    assert client.get("/news/1").status == 200
    for target in (five, name, file, api):
        assert client.get(target).status == 200
    for target in ("/article/5", "/wiki/Node.js", "/list?p=3"):
        assert client.get(target, headers=BROWSER).status == 403
        assert "closed" in codes(client)
    assert client.site.app.gate.blocked == 0


@pytest.mark.parametrize("mode", MODES)
def test_only_some_paths_are_closed(mode):
    client = strict(mode, "closed = ['/article/*', '/wiki/*']\nentries = ['/wiki/', '/article/reset?*']\n")
    for target in ("/", "/about", "/wiki/", "/article/reset?token=1"):
        assert client.get(target, headers=BROWSER).status == 200
    for target in ("/article/5", "/wiki/Node.js", "/wiki/a", "/article/reset"):
        assert client.get(target, headers=BROWSER).status == 403
    for link in links(client):
        assert client.get(link).status == 200


@pytest.mark.parametrize("mode", MODES)
def test_a_file_keeps_its_name_and_is_open(mode):
    """A closed page may be called anything, so links to files are marked, too; the files themselves open without."""
    pdf = Application(PAGE, react=lambda scope: FILE if scope["path"].endswith((".pdf", "/data")) else None)
    client = strict(mode, app=pdf)
    file = links(client)[2]
    assert file.partition("?")[0] == "/report.pdf"
    assert "~=" in file
    for target in (file, "/report.pdf", "/data"):
        assert client.get(target, headers={"sec-fetch-dest": "empty", "sec-fetch-mode": "cors"}).status == 200


FILE = {"headers": [(b"content-type", b"application/pdf")], "chunks": (b"%PDF",)}


def test_a_path_to_which_no_link_is_marked_is_open():
    assert strict().get("/api/page", headers=BROWSER).status == 200


# ---- No header opens them


@pytest.mark.parametrize(
    "headers",
    [
        {"referer": "https://example.org/"},
        {"sec-fetch-site": "same-origin", "referer": "https://example.org/"},
        {"x-requested-with": "XMLHttpRequest"},
        {"accept": "application/json"},
        {"sec-fetch-dest": "empty", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"},
        {"sec-fetch-dest": "image", "sec-fetch-mode": "no-cors", "sec-fetch-site": "same-origin"},
        {"sec-purpose": "prefetch"},
        {"purpose": "prefetch"},
        {"x-moz": "prefetch"},
        {"range": "bytes=0-"},
        {"upgrade": "websocket", "connection": "upgrade"},
        {"hx-request": "true"},
    ],
)
@pytest.mark.parametrize("body", [PAGE, b"<h1>Five</h1> <a href='/article/6'>six</a>", b"Five <a href='/x'>six</a>"])
def test_no_header_opens_a_closed_page(headers, body):
    client = strict(app=Application(body))
    answer = client.get("/article/5", headers=headers)
    assert answer.status == 403
    assert b"six" not in answer.body
    assert "closed" in codes(client)


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PROPFIND", "REPORT"])
def test_no_method_opens_a_closed_page(method):
    answer = strict().get("/article/5", method=method)
    assert (answer.status, b"five" in answer.body) == (403, False)


@pytest.mark.parametrize("target", ["/article/5;x.png", "/article/5/x.css", "/article/5.json"])
def test_no_name_opens_a_closed_page(target):
    answer = strict().get(target)
    assert (answer.status, b"five" in answer.body) == (403, False)


@pytest.mark.parametrize("mark", ["~=" + "A" * 23 + ".abcd", "~=" + "AQ" * 30])
def test_no_made_up_mark_opens_a_closed_page(mark):
    client = strict()
    assert client.get(f"/article/5?{mark}", headers=BROWSER).status == 403
    mine = links(client)[0].partition("?")[2]
    assert client.get(f"/article/6?{mine}", headers=BROWSER).status == 403


def test_xhtml_is_closed_as_well():
    app = Application(PAGE, headers=[(b"content-type", b"application/xhtml+xml")])
    assert strict(app=app).get("/article/5", headers={"accept": "application/json"}).status == 403


def test_a_websocket_handshake_does_not_get_a_page():
    """An application that knows no websockets may answer the handshake with its page."""

    async def page(scope, receive, send):  # noqa: ARG001
        await send({"type": "websocket.http.response.start", "status": 200, "headers": [HTML]})
        await send({"type": "websocket.http.response.body", "body": PAGE})

    client = Client(page, "")
    sent: list[dict] = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "websocket", "path": "/article/5", "raw_path": b"/article/5", "query_string": b"", "scheme": "ws",
        "headers": [(b"host", b"example.org")], "client": ("192.0.2.1", 5000), "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    asyncio.run(client.hedgerow(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert (sent[0]["status"], sent[1]["body"]) == (502, b"")


# ---- What a visitor is told


def test_a_visitor_is_told_the_truth():
    answer = strict().get("/reset?token=abc", headers=BROWSER)
    text = answer.body.decode()
    assert (answer.status, answer.header("retry-after")) == (403, None)
    assert "This page can only be reached from another page of this site." in text
    assert '<a href="/">Go to the start page</a>' in text
    assert "ann@example.org" in text
    for untrue in ("automatic", "come back", "mistake"):
        assert untrue not in text


def test_the_way_in_is_an_entry():
    text = (
        strict(more="strict = true\nentries = ['/news/*', '/welcome?from=\"site\"']\n").get("/x", headers=BROWSER).body
    )
    assert b'<a href="/welcome?from=&quot;site&quot;">' in text
    assert b"start page" not in strict(more="strict = true\nentries = ['/news/*']\n").get("/x", headers=BROWSER).body


def test_programs_are_told_as_well():
    client = strict()
    answer = client.get("/x", headers={"accept": "text/plain"})
    assert b"Start page: /\n" in answer.body
    assert b"automatic" not in answer.body
    told = msgspec.json.decode(client.get("/x", headers={"accept": "application/json"}).body)
    assert (told["code"], told["retry_after"]) == ("closed", None)


def test_while_observing_all_pages_are_open():
    client = Client(Application(PAGE), "observe = 'links'\n[marker]\nmode = 'clean'\nstrict = true\n")
    for headers in (BROWSER, {"accept": "application/json"}):
        assert client.get("/article/5", headers=headers).status == 200
        assert "closed" in codes(client)

"""Clean marks through the middleware: what a visitor gets, and what the application sees."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest

import driving
from driving import HTML, Answer, Application
from hedgerow.markers.clean import SCRIPT_ELEMENT, SCRIPT_HASH
from hedgerow.markers.token import page_digest, visitor_digest

ME, OTHER = "192.0.2.1", "198.51.100.7"
CLEAN = "[marker]\nmode = 'clean'\n"
HOME = (
    b"<!DOCTYPE html><html><head><title>t</title></head><body>\n"
    b"<a href='/wiki/Caf%C3%A9?a=1&amp;b=2#top'>one</a> and <a href='list?p=2'>two</a>.\n"
    b"<form action='/search?old=1'><input name=q></form>\n"
    b"<a href='manual.docx'>file</a> <a href='x' download>save</a></body></html>"
)
SAME = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "document"}
_MARK = re.compile(r"[?&]~=[\w-]{23}\.[\w-]{4}")


class Client(driving.Client):
    def __init__(self, app=None, text: str = CLEAN, **more) -> None:
        super().__init__(app, text, **more)


def links(answer: Answer, page: str) -> list[str]:
    """The targets of the visible links of a page, as a browser asks for them."""
    body = driving.without_bait(answer.body).decode("latin-1")
    found = [unescape(a or b) for a, b in re.findall(r"href=(?:\"([^\"]*)\"|'([^']*)')", body)]
    return [urljoin(page, link).partition("#")[0] for link in found]


def codes(client: Client) -> list[str]:
    return [found.code for found in client.entries[-1].decision.evidence if found.detector != "headers"]


def test_links_keep_their_path_and_query_and_the_application_sees_no_mark():
    client = Client(Application(HOME))
    page = client.get("/docs/index.html")
    one, two, file, saved = links(page, "/docs/index.html")
    assert [_MARK.sub("", link) for link in (one, two)] == ["/wiki/Caf%C3%A9?a=1&b=2", "/docs/list?p=2"]
    assert (file, saved) == ("/docs/manual.docx", "/docs/x")
    client.get(two, headers={"referer": "http://example.org/docs/index.html", **SAME})
    scope = client.app.scopes[-1]
    assert (scope["raw_path"], scope["query_string"]) == (b"/docs/list", b"p=2")
    marker = client.entries[-1].visit.marker
    assert (marker.kind, marker.issued_to) == ("page", visitor_digest(ME))
    assert marker.parent == page_digest("/docs/index.html")
    assert codes(client) == []


def test_a_link_that_was_passed_on_works_for_everybody_and_without_us():
    client = Client(Application(HOME))
    link = links(client.get("/docs/index.html"), "/docs/index.html")[1]
    assert client.get(link, peer=OTHER).status == 200
    assert codes(client) == ["minted-for-another"]
    for changed in (link[:-3], link + "&utm_source=mail", link.replace("p=2", "p=3")):
        assert client.get(changed).status == 200


def test_digest_authentication_signs_the_address_that_the_application_gets():
    """What the client signed cannot be changed: the application gets the mark as one parameter more."""
    client = Client(Application(HOME))
    link = links(client.get("/docs/index.html"), "/docs/index.html")[1]

    def asked(uri: str) -> bytes:
        client.get(link, headers={**SAME, "authorization": f'Digest username="a", uri="{uri}", response="0"'})
        scope = client.app.scopes[-1]
        return scope["raw_path"] + b"?" + scope["query_string"]

    assert asked(link) == link.encode()
    assert asked("/docs/list?p=2") == b"/docs/list?p=2"
    assert codes(client) == []


def test_the_script_hides_the_mark_where_there_is_one():
    client = Client(Application(HOME))
    page = client.get("/docs/index.html")
    assert SCRIPT_ELEMENT not in page.body
    shown = client.get(links(page, "/docs/index.html")[1], headers=SAME)
    assert b"<head>" + SCRIPT_ELEMENT in shown.body


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("default-src 'self'", "script-src 'self' %s"),
        ("script-src 'self'", "script-src 'self' %s"),
        ("script-src 'none'", "script-src %s"),
        ("script-src 'nonce-abc' 'strict-dynamic'", "script-src 'nonce-abc' 'strict-dynamic' %s"),
        ("script-src 'self' 'unsafe-inline'", "script-src 'self' 'unsafe-inline'"),
        ("img-src *", "img-src *"),
    ],
)
def test_the_sites_policy_allows_the_script_and_loses_nothing(policy, expected):
    client = Client(Application(HOME, headers=[HTML, (b"content-security-policy", policy.encode())]))
    link = links(client.get("/docs/index.html"), "/docs/index.html")[1]
    shown = client.get(link, headers=SAME)
    assert SCRIPT_ELEMENT in shown.body
    found = shown.header("content-security-policy").decode()
    assert (expected % SCRIPT_HASH.decode() if "%s" in expected else expected) in found


def test_a_sandbox_without_scripts_gets_none():
    client = Client(Application(HOME, headers=[HTML, (b"content-security-policy", b"sandbox allow-forms")]))
    link = links(client.get("/docs/index.html"), "/docs/index.html")[1]
    assert SCRIPT_ELEMENT not in client.get(link, headers=SAME).body


def test_cookies_keep_their_paths_and_what_was_created_keeps_its_address():
    headers = [HTML, (b"set-cookie", b"sid=1; Path=/app/"), (b"location", b"/created/7")]
    answer = Client(Application(HOME, headers=headers, status=201)).get("/app/new")
    assert (b"set-cookie", b"sid=1; Path=/app/") in answer.headers
    assert answer.header("location") == b"/created/7"


def test_a_redirect_is_marked_and_a_redirect_to_https_is_not():
    def located(location: bytes) -> bytes:
        return Client(Application(b"", headers=[(b"location", location)], status=302)).get("/a").header("location")

    assert _MARK.sub("", located(b"/b?x=1#top").decode()) == "/b?x=1#top"
    assert _MARK.search(located(b"/b?x=1#top").decode())
    assert located(b"https://example.org/a") == b"https://example.org/a"


def test_a_hidden_link_of_ones_own_is_a_trap():
    client = Client(Application(HOME))
    hidden = driving.traps_in(client.get("/docs/index.html").body)
    assert hidden
    assert client.get(hidden[0], headers=SAME).status == 403
    assert codes(client) == ["trap"]


def test_robots_txt_keeps_polite_crawlers_from_marked_links():
    answer = Client(Application(b"User-agent: *\nDisallow: /x\n", headers=[(b"content-type", b"text/plain")])).get(
        "/robots.txt"
    )
    assert b"Disallow: /*~=\n" in answer.body


ABSOLUTE = HOME.replace(b"'list?p=2'", b"'https://example.org/docs/list?p=2'")
FRONT = CLEAN + "[identity]\ntrusted_proxies = ['192.0.2.1']\n"


@pytest.mark.parametrize("mode", ["clean", "opaque", "readable"])
@pytest.mark.parametrize(("forwarded", "is_marked"), [("https", True), ("http", False), ("ftp", True), (None, True)])
def test_behind_a_proxy_that_speaks_tls_absolute_links_are_marked(mode, forwarded, is_marked):
    """WordPress writes all its links so. Pages for http and for https do not share what is remembered of links."""
    client = Client(Application(ABSOLUTE), FRONT.replace("clean", mode))
    for scheme in ("http", "https", forwarded):
        headers = {"x-forwarded-for": OTHER} | ({"x-forwarded-proto": scheme} if scheme else {})
        page = client.get("/docs/index.html", headers=headers)
    assert (b"'https://example.org/docs/list?p=2'" in page.body) != is_marked


def test_who_goes_back_or_loads_a_page_again_gives_no_evidence():
    client = Client()
    link = driving.marked_links_in(client.get("/", headers=SAME).body)[0]
    assert client.get(link, headers=SAME).status == 200
    for _ in range(3):
        client.get("/one", headers=SAME)
        assert codes(client) == []
    client.get("/two", headers=SAME)
    assert codes(client) == ["unmarked"]
    client.get("/one", headers=SAME, peer=OTHER)
    assert codes(client) == ["unmarked"]

"""Hidden links with text: only in pages that a browser with style sheets shows."""

from __future__ import annotations

import pytest

from driving import OFF, Application, Client, texts_in, traps_in

PAGE = (
    b"<!DOCTYPE html><html><head><title>t</title></head><body>"
    b"<p><a href='/one'>Plant hedges</a> and <a href='/two'>cut trees</a> and <a href='/three'>see birds</a>.</p>"
    b"</body></html>"
)
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.1 Mobile/15E148 Safari/604.1"
)
BROWSER = {"user-agent": CHROME, "accept": ACCEPT, "accept-language": "en"}
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none"}


def texts(headers: dict[str, str], text: str = "", **options) -> list[str]:
    """The texts of hidden links in the page that a client gets. Every page has hidden links."""
    answer = Client(Application(PAGE), text).get("/", headers=headers, **options)
    assert traps_in(answer.body)
    return texts_in(answer.body)


@pytest.mark.parametrize("agent", [CHROME, FIREFOX, IPHONE])
@pytest.mark.parametrize("more", [{}, NAVIGATION, {**NAVIGATION, "sec-purpose": "prefetch"}])
@pytest.mark.parametrize("settings", ["", OFF, "[marker]\nmode = 'opaque'\n", "[marker]\nmode = 'readable'\n"])
def test_a_browser_gets_hidden_links_with_text(agent, more, settings):
    assert texts({**BROWSER, "user-agent": agent, **more}, settings)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(
            {"user-agent": "Lynx/2.9.2 libwww-FM/2.14", "accept": "text/html, text/plain, text/sgml, */*;q=0.01"},
            id="lynx",
        ),
        pytest.param({"user-agent": CHROME, "accept": "text/html, text/plain, text/sgml, */*;q=0.01"}, id="disguised"),
        pytest.param({"user-agent": "w3m/0.5.3", "accept": "text/html, text/*;q=0.5, image/*"}, id="w3m"),
        pytest.param({"user-agent": "ELinks/0.16 (textmode)", "accept": "*/*", "accept-language": "en"}, id="elinks"),
        pytest.param({"user-agent": "Links (2.29; Linux)", "accept": "*/*", "accept-language": "en"}, id="links"),
        pytest.param({"user-agent": "Mozilla/4.0 (compatible; Dillo 3.0)", "accept": ACCEPT}, id="dillo"),
        pytest.param({"user-agent": "Mozilla/5.0 (compatible; x/1.0; +http://x.org)", "accept": ACCEPT}, id="bot"),
        pytest.param(
            {"user-agent": CHROME.replace("(X11", "(compatible; Xbot/2.1; X11"), "accept": ACCEPT}, id="bot as Chrome"
        ),
        pytest.param({"accept": ACCEPT}, id="no name"),
        pytest.param({**BROWSER, "sec-fetch-dest": "empty", "sec-fetch-mode": "cors"}, id="fetch"),
        pytest.param({**BROWSER, "x-requested-with": "XMLHttpRequest"}, id="XMLHttpRequest"),
        pytest.param({**BROWSER, "accept": "text/html, application/xhtml+xml"}, id="Turbo, plain http"),
    ],
)
def test_a_client_that_may_show_the_page_without_our_style_gets_none(headers):
    assert texts({"accept-language": "en", **headers}) == []


def test_texts_can_be_switched_off():
    assert texts(BROWSER, "[traps]\ntext = false\n") == []


def test_a_hidden_link_with_text_is_a_trap():
    client = Client(Application(PAGE))
    page = client.get("/", headers=BROWSER).body
    assert len(texts_in(page)) == len(traps_in(page))
    assert client.get(traps_in(page)[0], headers=BROWSER).status == 403
    assert next(found.code for found in client.entries[-1].decision.evidence) == "trap"


def test_the_style_of_both_kinds_is_allowed_by_a_policy():
    policy = (b"content-security-policy", b"default-src 'self'")
    app = Application(PAGE, headers=[(b"content-type", b"text/html; charset=utf-8"), policy])
    allowed = {Client(app).get("/", headers=headers).header("content-security-policy") for headers in (BROWSER, {})}
    assert len(allowed) == 2
    assert all(value.count(b"style-src 'self' 'sha256-") == 1 for value in allowed)


def test_a_page_in_the_cache_of_a_browser_keeps_the_policy_that_it_came_with():
    """A 304 would replace it by the site's own, which does not allow our style."""
    policy = (b"content-security-policy", b"default-src 'self'")
    headers = [(b"content-type", b"text/html"), (b"etag", b'"v1"'), policy]
    app = Application(PAGE, headers=headers, react=lambda asked: _not_modified(dict(asked["headers"])))
    client = Client(app)
    etag = client.get("/", headers=BROWSER).header("etag")
    assert etag is not None
    again = client.get("/", headers={**BROWSER, "if-none-match": etag})
    assert (again.status, again.header("content-security-policy")) == (304, None)
    other = client.get("/", headers={**BROWSER, "if-none-match": b'"v1"'})
    assert (other.status, other.header("content-security-policy")) == (304, policy[1])


def _not_modified(headers: dict[bytes, bytes]) -> dict | None:
    return {"status": 304, "chunks": (b"",)} if b'"v1"' in headers.get(b"if-none-match", b"") else None

"""Marked links through the middleware: what a visitor gets, what the application sees, what is held against whom."""

from __future__ import annotations

import re
from html import unescape

import pytest

import driving
from driving import HTML, KEY, PAGE, Answer, Application, traps_in, without_bait
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs.reader import LogReader
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.web.app import Site
from hedgerow.web.gate import build_gate
from hedgerow.web.key_file import rotate


def marked(text: str) -> str:
    """Settings with links marked, as opaque ones where *text* does not say."""
    return text if "[marker]" in text else text + "\n[marker]\nmode = 'opaque'\n"


def settings(text: str = ""):
    return driving.settings(marked(text))


class Client(driving.Client):
    def __init__(self, app=None, text: str = "", **more) -> None:
        super().__init__(app, marked(text), **more)


ME, OTHER, BOT = "192.0.2.1", "198.51.100.7", "203.0.113.9"
HOME = (
    b"<!DOCTYPE html><html><head><title>t</title></head><body>\n"
    b"<a href='/wiki/Caf%C3%A9?a=1&amp;b=2#top'>one</a> and <a href='list?p=2'>two</a>.\n"
    b"<form action='/search?old=1'><input name=q></form>\n"
    b"<form method=post action='/post?id=7'></form>\n"
    b"<img src=picture.png><a href=https://other.example/>other</a></body></html>"
)
READABLE = "[marker]\nmode = 'readable'\n"
BOTS = "[[identity.bots]]\nname = 'search'\nnetworks = ['203.0.113.0/24']\n"
ACCOUNTS = "[identity]\naccount_cookie = 'sid'\n"
QUIET = "[traps]\nenabled = false\n"
SEALS = TokenCodecs([Key(1, KEY, 0.0)])
SEAL = SEALS.of("example.org")
SAME = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "document"}
TOKEN = re.compile(r"/~([\w-]{40,})")


def links(answer: Answer, attribute: str = "href") -> list[str]:
    """The addresses on a page, as a browser reads them, less the hidden ones."""
    body = without_bait(answer.body).decode("latin-1")
    return [unescape(a or b or c) for a, b, c in re.findall(attribute + r"=(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", body)]


def path_of(link: str) -> str:
    return link.partition("#")[0]


def token_of(target: str, *, who: str = ME, parent: str = "/", kind: str = "page", host: str = "example.org") -> str:
    sealed = SEALS.of(host).seal(kind, visitor_digest(who), page_digest(parent), target.encode("latin-1"))
    return "/~" + sealed.decode()


def asked_for(client: Client) -> tuple[str, bytes, bytes]:
    scope = client.app.scopes[-1]
    return scope["path"], scope["raw_path"], scope["query_string"]


def codes(client: Client, at: int = -1) -> list[str]:
    """What was found about a visit; not about its headers, as these tests send hardly any."""
    return [found.code for found in client.entries[at].decision.evidence if found.detector != "headers"]


def cookie_of(answer: Answer) -> str:
    """Our cookie as a browser sends it back, or ""."""
    ours = [value for name, value in answer.headers if name == b"set-cookie" and value.startswith(b"hedgerow=")]
    return ours[0].partition(b";")[0].decode() if ours else ""


# ---- In and out


@pytest.mark.parametrize("text", ["", READABLE])
def test_a_click_leads_to_the_page_and_the_application_sees_nothing_of_the_marker(text):
    client = Client(Application(HOME), text)
    page = client.get("/docs/index.html?x=1")
    one, two, *_ = links(page)
    referrer = "http://example.org/docs/index.html?x=1"
    assert one.endswith("#top")
    answer = client.get(path_of(one), headers={"referer": referrer, **SAME})
    assert answer.status == 200
    assert asked_for(client) == ("/wiki/Café", b"/wiki/Caf%C3%A9", b"a=1&b=2")
    client.get(two, headers={"referer": "http://example.org" + path_of(one), **SAME})
    assert asked_for(client) == ("/docs/list", b"/docs/list", b"p=2")
    assert client.app.seen("referer") == b"http://example.org/wiki/Caf%C3%A9?a=1&b=2"
    assert [codes(client, at) for at in (1, 2)] == [[], []]
    visit = client.entries[1].visit
    assert (visit.target, visit.raw_target) == ("/wiki/Caf%C3%A9?a=1&b=2", path_of(one))
    assert (visit.marker.kind, visit.marker.parent) == ("page", page_digest("/docs/index.html?x=1"))
    assert visit.marker.issued_to == visitor_digest(ME)


def test_an_opaque_page_shows_nothing_of_its_paths():
    client = Client(Application(HOME))
    body = client.get("/docs/index.html").body
    for told in (b"wiki", b"list", b"search", b"old", b"post?", b"id="):
        assert told not in body
    assert b"src=picture.png" in body
    assert b"https://other.example/" in body


def test_a_deep_page_behind_a_marked_link_gets_a_base_and_resolves_as_its_author_meant():
    client = Client(Application(HOME))
    answer = client.get(token_of("/docs/deep/page.html"))
    assert b'<base href="/docs/deep/page.html">' in answer.body
    client.get(links(answer)[2])
    assert asked_for(client)[1] == b"/docs/deep/list"
    assert b"<base" not in client.get("/docs/deep/page.html").body
    assert b"<base" not in client.get(token_of("/page.html")).body


def test_a_policy_lets_our_base_through_where_there_is_one():
    policy = b"script-src 'nonce-1'; base-uri 'none'"
    client = Client(Application(HOME, headers=[HTML, (b"content-security-policy", policy)]))
    answer = client.get(token_of("/docs/page.html"))
    assert answer.header("content-security-policy") == policy.replace(b"'none'", b"'self'")
    for target in ("/docs/page.html", token_of("/page.html")):
        assert client.get(target).header("content-security-policy") == policy


@pytest.mark.parametrize("spelling", ["/%7E", "/%7e", "/~"])
def test_a_link_with_its_tilde_escaped_is_the_same_and_its_query_stays(spelling):
    client = Client()
    client.get(token_of("/a?b=1").replace("/~", spelling))
    assert asked_for(client)[1:] == (b"/a", b"b=1")
    client.get(token_of("/a?b=1").replace("/~", spelling) + "?q=1%262&r=%2B")
    assert asked_for(client)[1:] == (b"/a", b"b=1&q=1%262&r=%2B")
    client.get(token_of("/a").replace("/~", spelling) + "?utm_source=mail")
    assert asked_for(client)[1:] == (b"/a", b"utm_source=mail")


def test_a_form_without_an_address_replaces_the_query_of_its_page():
    """Also where the browser shows an opaque address, to whose query anything else would be added."""
    client = Client(Application(b"<!DOCTYPE html><form><input name=q></form>"))
    action = links(client.get(token_of("/list?page=2")), "action")[0]
    client.get(action.partition("?")[0] + "?q=hedges", headers=SAME)
    assert asked_for(client)[1:] == (b"/list", b"q=hedges")
    assert codes(client) == []


def test_a_form_that_asks_gets_its_query():
    for text in ("", READABLE):
        client = Client(Application(HOME), text)
        page = client.get("/")
        action = links(page, "action")[0]
        fields = "&".join(
            f"~={value}" for value in re.findall(r'name="~" value="([^"]*)"', page.body.decode("latin-1"))
        )
        sent = action.partition("?")[0] + "?" + "&".join(filter(None, [fields, "q=hedges"]))
        assert client.get(sent, headers=SAME).status == 200
        assert asked_for(client)[1:] == (b"/search", b"q=hedges")
        assert client.entries[-1].visit.marker.kind == "form"
        assert codes(client) == []


@pytest.mark.parametrize("text", ["", READABLE])
def test_a_form_without_an_address_goes_to_its_page(text):
    """On a page that was entered its address would be unmarked; on one that was asked for by a link it is not."""
    client = Client(Application(b"<!DOCTYPE html><form method=post></form>"), text)
    entered = client.get("/wall?p=2")
    action = links(entered, "action")[0]
    for _ in range(2):
        sent = client.get(action, method="POST", body=b"text=x", headers=SAME)
        assert sent.status == 200
        assert asked_for(client)[1:] == (b"/wall", b"p=2")
        assert client.entries[-1].visit.marker.parent == page_digest("/wall?p=2")
        assert codes(client) == []
        action = (links(sent, "action") or [action])[0]


@pytest.mark.parametrize("text", ["", READABLE])
def test_a_form_that_posts(text):
    bodies = []

    async def app(scope, receive, send):
        message = await receive()
        bodies.append((scope["method"], scope["raw_path"], scope["query_string"], message["body"]))

        async def received():
            return message

        await Application(HOME)(scope, received, send)

    client = Client(app, text)
    action = links(client.get("/"), "action")[1]
    assert client.get(action, method="POST", body=b"text=x", headers=SAME).status == 200
    assert bodies[1] == ("POST", b"/post", b"id=7", b"text=x")
    assert client.entries[-1].visit.marker.kind in {"form", "page"}
    assert codes(client) == []


@pytest.mark.parametrize("text", ["", READABLE])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_marked_and_leads_on(text, status):
    where = [(b"location", b"../next?a=1#top")]
    client = Client(Application(b"", status=status, headers=where), text)
    answer = client.get("/docs/a/b")
    location = answer.header("location").decode()
    assert location.endswith("#top")
    assert location != "../next?a=1#top"
    client.get(path_of(location), headers=SAME)
    assert asked_for(client)[1:] == (b"/docs/next", b"a=1")
    assert codes(client) == []
    assert client.entries[-1].visit.marker.parent == page_digest("/docs/a/b")


@pytest.mark.parametrize(
    "where", [b"https://other.example/", b"//other.example/x", b"/picture.png", b"/api/x", b"mailto:x@y"]
)
def test_a_redirect_elsewhere_stays(where):
    client = Client(Application(b"", status=302, headers=[(b"location", where)]))
    assert client.get().header("location") == where


FRAGMENT = (
    b"<ul><li><a href='/wiki/a?b=1'>a</a> <a href='?p=2'>2</a> <a href='c'>c</a> <a href='#d'>d</a></li></ul>"
    b"<form action='/find'></form><form><iframe src=//example.org/f></iframe></form>"
)
CALL = {"sec-fetch-dest": "empty", "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("text", ["", READABLE])
def test_a_fragment_for_a_script_is_marked_for_the_page_into_which_it_goes(text, method):
    """No bait, no base, and what is relative stays: it is relative to a page of which we know only the referrer."""
    client = Client(Application(FRAGMENT[:9], FRAGMENT[9:]), text)
    came_from = {"referer": "http://example.org" + token_of("/page?x=1"), **CALL}
    answer = client.get(token_of("/deep/ajax"), method=method, headers=came_from)
    assert client.entries[-1].visit.kind == "call"
    assert traps_in(answer.body) == []
    assert b"<base" not in answer.body
    assert b"<style" not in answer.body
    assert answer.body.count(b'name="~"') == (1 if text else 0)
    first, *others = links(answer)
    assert others == ["?p=2", "c", "#d"]
    assert answer.header("cache-control") == b"private"
    assert answer.header("content-length") in {None, b"%d" % len(answer.body)}
    client.get(first, headers=SAME)
    assert asked_for(client)[1:] == (b"/wiki/a", b"b=1")
    assert client.entries[-1].visit.marker.parent == page_digest("/page?x=1")
    assert codes(client) == []
    client.get(links(answer, "src")[0], headers=SAME)
    assert asked_for(client)[1] == b"/f"


@pytest.mark.parametrize(
    "body", [b'{"html": "<a href=/x>x</a>"}', b'["<a href=/x>"]', b'"<a href=/x>"', b"<a href='x'>"]
)
def test_what_a_script_gets_stays_where_nothing_in_it_can_be_marked(body):
    client = Client(Application(body))
    assert client.get("/ajax", headers=CALL).body == body


def test_a_fragment_that_came_before_is_not_mixed_up_with_a_page():
    body = b"<p><a href='next'>next</a> <a href='/x'>x</a></p>"
    client = Client(Application(body), QUIET)
    as_page, as_fragment = client.get("/a/b"), client.get("/a/b", headers=CALL)
    again = client.get("/a/b")
    assert as_page.body == again.body
    assert links(as_page)[0].startswith("/~")
    assert links(as_fragment)[0] == "next"


def test_links_that_known_scripts_take_apart_stay_readable():
    scripted = [
        "/doku.php?id=start&idx=birds",
        "/start?idx=birds",
        "/w/doku.php?ns=a&do=media",
        "/lib/exe/mediamanager.php?ns=",
    ]
    page = "".join(f"<a href='{target}'>x</a>" for target in [*scripted, "/doku.php?id=start", "/?a=idx"]).encode()
    *readable, one, two = links(Client(Application(page)).get("/"))
    assert [link.partition("&~=")[0] for link in readable] == scripted
    assert (one[:2], two[:2]) == ("/~", "/~")
    off = Client(Application(page), "[marker]\nmode = 'off'\n" + QUIET)
    assert off.get("/").body == page
    own = "[marker]\nmode = 'opaque'\n[[marker.rules]]\npath = '*'\nmode = 'opaque'\n"
    assert all(link.startswith("/~") for link in links(Client(Application(page), own).get("/")))


SCRIPTED = [
    b'<!DOCTYPE html><head></head><body><div id="root"></div>%b</body>',
    b"<!DOCTYPE html><head></head><body><div id=app class=x>%b</div></body>",
    b"<!DOCTYPE html><head></head><body><app-root>%b</app-root></body>",
    b"<!DOCTYPE html><head><script src='/_next/static/a.js'></script></head><body><div>%b</div></body>",
    b"<!DOCTYPE html><head></head><body><div id='__nuxt'>%b</div></body>",
]


@pytest.mark.parametrize("page", SCRIPTED)
def test_a_page_of_a_script_is_shown_at_its_own_address(page):
    """Its script looks there to tell which page it is."""
    body = page % b"<a href='/next?p=1'>next</a><form action=/find></form>"
    client = Client(Application(body, headers=[HTML, (b"set-cookie", b"a=1; Path=/")]))
    elsewhere = client.get(token_of("/app/a?x=1", parent="/home"), headers=SAME)
    assert elsewhere.status == 302
    assert elsewhere.body == b""
    assert (b"set-cookie", b"a=1; Path=/") in elsewhere.headers
    assert elsewhere.header("cache-control") == b"no-store"
    location = elsewhere.header("location").decode()
    assert location.startswith("/app/a?x=1&~=")
    answer = client.get(location, headers=SAME)
    assert (answer.status, codes(client)) == (200, [])
    assert asked_for(client)[1:] == (b"/app/a", b"x=1")
    assert client.entries[-1].visit.marker.parent == page_digest("/home")
    assert [entry.status for entry in client.entries] == [302, 200]
    (link,) = links(answer)
    assert link.startswith("/next?p=1&~=")
    assert answer.body.count(b'name="~"') == 1
    assert all(trap.startswith("/next?p=1&") for trap in traps_in(answer.body) if "~=" in trap)


@pytest.mark.parametrize("page", SCRIPTED)
def test_a_page_of_a_script_that_was_entered_or_posted_stays(page):
    body = page % b"<a href='/next'>next</a>"
    client = Client(Application(body))
    assert links(client.get("/app"))[0].startswith("/next?~=")
    assert client.get(token_of("/app"), method="POST").status == 200
    assert Client(Application(body, status=404)).get(token_of("/app")).status == 404
    readable = Client(Application(body), READABLE)
    assert links(readable.get("/app"))[0].startswith("/next?~=")


def test_other_pages_stay():
    for start in (b"<div id=apple>", b"<div id=rooted>", b"<div class=app>", b"<app-rooted>", b"<p id=root>", b"<app>"):
        client = Client(Application(b"<!DOCTYPE html><head></head><body>" + start + b"<a href=/next>next</a>"))
        answer = client.get(token_of("/a"))
        assert answer.status == 200
        assert links(answer)[0].startswith("/~")


def test_headers_of_a_page():
    headers = [
        HTML,
        (b"link", b"</two>; rel=next, </s.css>; rel=preload"),
        (b"refresh", b"5; url=/x"),
        (b"referrer-policy", b"unsafe-url"),
        (b"set-cookie", b"sid=1; Path=/docs; HttpOnly"),
        (b"cache-control", b"public, max-age=60"),
        (b"content-location", b"/y"),
    ]
    client = Client(Application(headers=headers))
    answer = client.get("/docs/")
    assert TOKEN.search(answer.header("link").decode())
    assert b"</s.css>; rel=preload" in answer.header("link")
    assert SEAL.unseal(TOKEN.search(answer.header("refresh").decode())[1]).target == "/x"
    assert answer.header("referrer-policy") == b"strict-origin-when-cross-origin"
    assert answer.header("cache-control") == b"private, max-age=60"
    cookies = [value for name, value in answer.headers if name == b"set-cookie"]
    assert cookies[:2] == [b"sid=1; Path=/docs; HttpOnly", b"hedgerow-path.L2RvY3M.sid=h1; Path=/; HttpOnly"]
    assert re.fullmatch(rb"hedgerow=[\w-]{40,}; Path=/; Max-Age=\d+; HttpOnly; SameSite=Lax", cookies[2])


def test_our_cookie_is_secure_over_https_and_one_without_its_prefix_does_not_count():
    client = Client()
    before = cookie_of(client.get())
    page = client.get(scheme="https", headers={"cookie": before})
    assert client.entries[-1].visit.linked == ()
    (cookie,) = [value for name, value in page.headers if name == b"set-cookie"]
    assert re.fullmatch(rb"__Host-hedgerow=[\w-]{40,}; Path=/; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure", cookie)
    # From another address, with the new cookie only or with both.
    new = cookie.partition(b";")[0].decode()
    for sent in (new, f"{before}; {new}; a=1"):
        client.get(links(page)[1], peer=OTHER, scheme="https", headers={"cookie": sent})
        assert client.entries[-1].visit.linked == (visitor_digest(ME),)
        assert [e.code for e in client.entries[-1].decision.evidence if e.code == "minted-for-another"] == []
    assert client.app.seen("cookie") == b"a=1"
    again = client.get(scheme="https", headers={"cookie": new})
    assert again.header("set-cookie") is None


def test_our_cookie_is_secure_behind_a_proxy_that_speaks_tls():
    client = Client(text="[identity]\ntrusted_proxies = ['192.0.2.0/24']\n")
    for proto, start in (("https", b"__Host-hedgerow="), ("http", b"hedgerow=")):
        headers = {"x-forwarded-proto": proto, "x-forwarded-for": OTHER}
        cookie = client.get(headers=headers).header("set-cookie")
        assert cookie.startswith(start)
        assert cookie.endswith(b"; Secure") == (proto == "https")


def test_copies_of_cookies_from_an_earlier_mode_are_deleted_with_the_cookie():
    gone = b"sid=; Path=/docs/; Max-Age=0"
    client = driving.Client(Application(headers=[HTML, (b"set-cookie", gone)]), "[marker]\nmode = 'clean'\n")
    answer = client.get("/docs/", headers={"cookie": "sid=1"})
    cookies = [value for name, value in answer.headers if name == b"set-cookie"]
    assert cookies[0] == gone
    assert len(cookies) == 2
    copy = "hedgerow-path.L2RvY3Mv.sid"
    cookies = [
        v for n, v in client.get("/docs/", headers={"cookie": f"sid=1; {copy}=h1"}).headers if n == b"set-cookie"
    ]
    assert cookies[:2] == [gone, copy.encode() + b"=h; Path=/; Max-Age=0"]


def test_cookies_with_a_path_reach_opaque_addresses_and_name_the_account():
    headers = [HTML, (b"set-cookie", b"sid=ann; Path=/docs/; HttpOnly")]
    client = Client(Application(headers=headers), ACCOUNTS)
    page = client.get("/docs/login", headers={"cookie": "sid=old"})
    copy = next(v for _, v in page.headers if v.startswith(b"hedgerow-path.")).partition(b";")[0].decode()
    inside, outside = (
        "/~" + SEAL.seal("page", visitor_digest(ME), page_digest("/"), target).decode()
        for target in (b"/docs/a", b"/b")
    )
    client.get(inside, headers={"cookie": f"a=1; {copy}"})
    assert client.app.seen("cookie") == b"sid=ann; a=1"
    account = client.entries[-1].visit.account
    client.get("/docs/plain", headers={"cookie": f"sid=ann; {copy}"})
    assert client.app.seen("cookie") == b"sid=ann"
    assert client.entries[-1].visit.account == account != ""
    client.get(outside, headers={"cookie": f"a=1; {copy}"})
    assert client.app.seen("cookie") == b"a=1"
    assert client.entries[-1].visit.account == ""


def test_an_image_is_passed_as_it_is():
    headers = [(b"content-type", b"image/png"), (b"cache-control", b"public"), (b"etag", b'"x"')]
    answer = Client(Application(b"png", headers=headers)).get("/picture.png")
    assert (answer.headers, answer.body) == (headers, b"png")


# ---- Tampered


@pytest.mark.parametrize(
    "target",
    [
        token_of("/x")[:-1] + "-",
        token_of("/x") + "A",
        token_of("/x", host="other.example"),
        token_of("/x", kind="visitor"),
        token_of("x"),
        token_of("http://evil.example/"),
        "/~" + "A" * 60,
        "/%7E" + "A" * 60,
        "/~" + "A" * 60 + "?q=1",
    ],
)
def test_a_changed_link_is_not_found_and_evidence(target):
    client = Client()
    answer = client.get(target, headers=SAME)
    assert answer.status == 404
    assert client.app.scopes == []
    assert codes(client) == ["tampered"]
    assert client.entries[0].visit.tampered
    assert client.get().status == 200


@pytest.mark.parametrize(
    "mark",
    ["~=" + "AQ" * 30, "%7E=" + "AQ" * 30, "~=" + "AQ" * 12, token_of("/x", kind="visitor").replace("/~", "~=")],
)
def test_a_changed_mark_in_a_query_costs_nobody_the_page_and_is_a_little_evidence(mark):
    client = Client()
    assert client.get(f"/a?b=1&{mark}", headers=SAME).status == 200
    assert asked_for(client)[1:] == (b"/a", b"b=1")
    assert codes(client) == ["damaged"]
    assert client.entries[0].decision.evidence[0].weight < 0.05


def test_every_kind_of_changed_link_gets_the_same_answer():
    client = Client()
    bad = [token_of("/x")[:-1] + "-", token_of("/x", host="other.example"), "/~" + "A" * 60, "/~" + "_" * 41]
    assert len({client.get(target).body for target in bad}) == 1


def test_changing_links_blocks_nobody_by_itself():
    client = Client()
    for number in range(20):
        client.clock.now += 600
        assert client.get(f"/~{number:060}").status == 404
    assert client.site.app.gate.blocked == 0


def test_a_readable_address_that_a_person_changed_is_an_entry():
    """The number in the address, with the token left where it was: people do that."""
    client = Client(Application(HOME), READABLE)
    link = links(client.get("/"))[1]
    assert client.get(link.replace("p=2", "p=3"), headers={"sec-fetch-site": "none"}).status == 200
    assert asked_for(client)[1:] == (b"/list", b"p=3")
    assert codes(client) == ["entry"]
    assert client.entries[-1].decision.evidence[0].weight == 0.0
    assert client.entries[-1].visit.marker is None


def test_a_readable_address_outlives_its_key():
    """An opaque one cannot."""
    client = Client(Application(HOME), READABLE)
    old = TokenCodecs([Key(7, KEY, 0.0)]).of("example.org")
    token = old.seal("page", visitor_digest(ME), page_digest("/"), page_digest("/list?p=2")).decode()
    assert client.get(f"/list?p=2&~={token}", headers={"sec-fetch-site": "none"}).status == 200
    assert asked_for(client)[1:] == (b"/list", b"p=2")
    assert codes(client) == ["entry"]
    assert client.get(f"/list?p=2&~={token_of('/x')[2:-3]}AAA").status == 200
    assert codes(client) == ["damaged"]
    assert Client().get("/~" + token).status == 404


# ---- Minted for another


@pytest.mark.parametrize("text", ["", READABLE])
def test_a_link_of_another_is_served_with_evidence_of_whose_it_is(text):
    client = Client(Application(HOME), text)
    link = links(client.get("/start", peer=OTHER))[1]
    answer = client.get(link, peer=ME)
    assert answer.status == 200
    found = client.entries[-1].decision.evidence[0]
    assert (found.code, found.details) == ("minted-for-another", visitor_digest(OTHER).hex())
    assert found.text == "Used a link of the page /start that another visitor was given."
    assert client.entries[-1].decision.action == "pass"


def test_links_of_another_block_nobody_by_themselves():
    client = Client(Application(HOME))
    shared = links(client.get("/start", peer=OTHER))[1]
    for _ in range(29):
        client.clock.now += 1000
        assert client.get(shared, peer=ME).status == 200
    assert client.site.app.gate.blocked == 0


def test_links_of_another_one_after_the_other_make_a_suspect():
    client = Client(Application(HOME), "[headers]\nenabled = false\n")
    shared = links(client.get("/start", peer=OTHER))[1]
    statuses = [client.get(shared, peer=ME, headers=SAME).status for _ in range(12)]
    assert statuses[:9] == [200] * 9
    assert 200 not in statuses[10:]
    assert client.entries[-1].decision.action == "challenge"


def test_who_logs_in_or_out_is_not_accused():
    client = Client(Application(HOME), ACCOUNTS)
    page = client.get("/")
    ours = cookie_of(page)
    assert ours
    answer = client.get(links(page)[1], headers={"cookie": f"{ours}; sid=ann"})
    assert (answer.status, codes(client)) == (200, [])
    both = cookie_of(answer)
    assert both
    assert both != ours
    after = client.get(links(answer)[1], headers={"cookie": f"a=b; {both}"})
    assert (after.status, codes(client)) == (200, [])
    assert cookie_of(after) == ""
    client.get(links(page)[1], headers={"cookie": "sid=ann"})
    assert codes(client) == ["minted-for-another"]


def test_who_roams_is_not_accused():
    client = Client(Application(HOME))
    page = client.get("/", peer=ME)
    ours = cookie_of(page)
    for peer in ("192.0.2.50", "2001:db8::1", "192.0.2.51", "192.0.2.52", "192.0.2.53"):
        page = client.get(links(page)[1], peer=peer, headers={"cookie": ours})
        assert codes(client) == []
        ours = cookie_of(page) or ours
    assert len(client.entries[-1].visit.linked) <= 4


def test_anothers_cookie_or_a_forged_one_links_nobody():
    client = Client(Application(HOME))
    link = links(client.get("/", peer=OTHER))[1]
    forged = "hedgerow=" + SEAL.seal("page", visitor_digest(OTHER), bytes(6), visitor_digest(OTHER)).decode()
    for cookie in (forged, "hedgerow=" + "A" * 60, "hedgerow=", "hedgerow"):
        assert client.get(link, headers={"cookie": cookie}).status == 200
        assert codes(client) == ["minted-for-another"]


def test_a_cookie_that_we_did_not_make_is_noted_and_an_outdated_one_is_not():
    client = Client(Application(HOME))
    ours = cookie_of(client.get("/", peer=ME))
    changed = ours[:-1] + ("A" if ours[-1] != "A" else "B")
    forged = "hedgerow=" + SEAL.seal("page", visitor_digest(ME), bytes(6), visitor_digest(ME)).decode()
    for cookie, is_wrong in ((ours, False), (changed, True), (forged, True), ("hedgerow=" + "_" * 60, False)):
        client.get("/", peer=ME, headers={"cookie": cookie})
        assert ("wrong-cookie" in client.entries[-1].visit.anomalies) == is_wrong, cookie


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("hedgerow=x", None),
        ("hedgerow=x; a=1", b"a=1"),
        ("a=1; hedgerow=x", b"a=1"),
        ("a=1; hedgerow=x; b=2", b"a=1; b=2"),
        ("hedgerow_sid=1; hedgerow=x", b"hedgerow_sid=1"),
        ("a=hedgerow", b"a=hedgerow"),
        ("a=1", b"a=1"),
    ],
)
def test_our_cookie_never_reaches_the_application(sent, seen):
    client = Client()
    client.get(headers={"cookie": sent})
    assert client.app.seen("cookie") == seen


# ---- Bots


def test_a_verified_bot_gets_clean_pages_and_is_told_the_pages_own_address():
    client = Client(Application(HOME), BOTS)
    answer = client.get("/docs/", peer=BOT)
    assert answer.body == HOME
    assert answer.headers == [HTML]
    for link in (links(client.get("/docs/"))[0], path_of(links(client.get("/docs/"))[0])):
        moved = client.get(path_of(link), peer=BOT)
        assert (moved.status, moved.header("location")) == (301, b"/wiki/Caf%C3%A9?a=1&b=2")
    readable = Client(Application(HOME), BOTS + READABLE)
    moved = readable.get(links(readable.get("/"))[1], peer=BOT)
    assert (moved.status, moved.header("location")) == (301, b"/list?p=2")


def test_a_bot_is_never_sent_to_another_site():
    """An address that would name a host, had somebody a token for it, even."""
    client = Client(text=BOTS)
    moved = client.get(token_of("//evil.example/"), peer=BOT)
    assert not (moved.header("location") or b"").startswith(b"//")


# ---- Traps among links


def test_traps_look_like_links_of_the_page():
    """As long as links are, in the same form, and no token says by itself which is which."""
    page = b"".join(b"<p><a href='/%s'>x</a> y</p>" % (b"p" * (n % 40 + 1)) for n in range(200))
    client = Client(Application(b"<!DOCTYPE html><body>" + page), "[traps]\nplacement = 'links'\nevery = 1\n")
    body = client.get().body
    traps = traps_in(body)
    own = links(client.get())
    assert len(traps) == len(own) + 1
    shape = re.compile(r"/~[A-Za-z0-9_-]+")
    assert all(shape.fullmatch(link) for link in traps + own)
    assert sorted(map(len, traps[:-1])) == sorted(map(len, own))
    assert not set(traps) & set(own)


def test_readable_traps_look_like_links_of_the_page():
    client = Client(Application(HOME), READABLE + "[traps]\nplacement = 'links'\nevery = 1\n")
    answer = client.get()
    traps, own = traps_in(answer.body), links(answer)
    shapes = {re.sub(r"~=[\w-]+", "~", path_of(link)) for link in own if "~=" in link}
    assert traps
    for trap in traps:
        assert re.sub(r"~=[\w-]+", "~", trap) in shapes or trap.startswith("/~")
    lengths = {len(re.search(r"~=([\w-]+)", link)[1]) for link in own + traps if "~=" in link}
    assert len(lengths) == 1


@pytest.mark.parametrize("text", ["", READABLE])
def test_a_trap_still_blocks(text):
    client = Client(Application(HOME), text)
    trap = traps_in(client.get("/docs/").body)[0]
    assert client.get(trap, peer=OTHER).status == 404
    assert codes(client) == ["trap-of-another"]
    answer = client.get(trap)
    assert answer.status == 403
    assert codes(client)[0] == "trap"
    assert client.entries[-1].decision.evidence[0].text == "Followed a link of the page /docs/ that no person can see."
    assert client.get().status == 403
    assert len(client.app.scopes) == 1


def test_a_crawler_that_follows_every_link_is_caught_on_its_first_page():
    client = Client(Application(HOME))
    page = client.get()
    asked = 0
    for link in re.findall(r'href="(/~[\w-]+)', page.body.decode("latin-1")):
        asked += 1
        if client.get(link).status == 403:
            break
    assert client.get().status == 403
    assert asked <= 3


# ---- Settings


def test_other_rules_hold_from_the_next_page_on():
    """Pages are prepared once, and those of before must not come back."""
    client = Client(Application(HOME), QUIET)
    modes = ["readable", "off", "opaque", "readable", "opaque", "off"]
    for mode in modes:
        client.site.reload(settings(QUIET + f"[marker]\nmode = '{mode}'\nrules = []\n"))
        link = links(client.get("/"))[1]
        assert {"readable": "~=" in link, "off": link == "list?p=2", "opaque": link.startswith("/~")}[mode], mode
    client.site.reload(settings(QUIET + "[marker]\nmode = 'opaque'\nprefix = '/go/'\n"))
    link = links(client.get("/"))[1]
    assert link.startswith("/go/")
    client.get(link)
    assert asked_for(client)[1:] == (b"/list", b"p=2")


def test_strict_closes_the_site_but_for_its_entries():
    text = "[marker]\nmode = 'opaque'\nstrict = true\nentries = ['/', '/news/*']\n"
    client = Client(Application(HOME), text)
    start = client.get("/")
    assert start.status == 200
    assert client.get("/news/1", peer=OTHER).status == 200
    assert client.get(links(start)[1]).status == 200
    assert client.get("/list?p=3", headers={"sec-fetch-site": "none"}).status in {403, 404}
    assert codes(client)[0] == "closed"
    assert client.get("/").status == 200
    assert client.site.app.gate.blocked == 0


def test_off_leaves_everything():
    headers = [HTML, (b"set-cookie", b"a=1; Path=/x"), (b"location", b"/y")]
    client = Client(Application(PAGE, headers=headers), QUIET + "[marker]\nmode = 'off'\nrules = []\n")
    answer = client.get()
    assert (answer.body, answer.headers) == (PAGE, headers)


# ---- The ledger


def traffic(client: Client) -> None:
    """A person, a crawler that shares links, one that changes them, one that falls into a trap."""
    page = client.get("/", peer=ME)
    ours = cookie_of(page)
    for n in range(3):
        client.clock.now += 5
        page = client.get(links(page)[1 if n else 0].partition("#")[0], peer=ME, headers={"cookie": ours, **SAME})
    client.clock.now += 1
    client.get(links(page)[1], peer="192.0.2.77", headers={"cookie": f"{ours}; sid=ann"})
    for link in links(page)[:2]:
        client.get(path_of(link), peer=OTHER)
    client.get("/~" + "A" * 50, peer=OTHER)
    client.get("/list?p=9", peer=OTHER, headers=SAME)
    client.get("/list?p=9", peer=OTHER)
    trapped = client.get("/", peer="192.0.2.9")
    client.get(traps_in(trapped.body)[0], peer="192.0.2.9")
    client.get("/", peer="192.0.2.9")
    for n in range(60):
        client.clock.now += 0.001
        client.get(f"/{n}", peer="192.0.2.10")


@pytest.mark.parametrize("text", [ACCOUNTS, ACCOUNTS + READABLE])
def test_the_ledger_has_parent_and_whose_and_a_replay_decides_the_same(tmp_path, text):
    path = tmp_path / "ledger.sqlite"
    entries = []

    class Both(SqliteLedger):
        def append(self, entry):
            entries.append(entry)
            super().append(entry)

    ledger = Both(path)
    client = Client(Application(HOME), text, ledger=ledger)
    traffic(client)
    ledger.close()
    visits = list(LogReader([str(path)]))
    assert len(visits) == len(entries) > 60
    second = visits[1]
    assert second.marker.parent == page_digest("/")
    assert second.marker.issued_to == visitor_digest(ME)
    assert second.target == "/wiki/Caf%C3%A9?a=1&b=2"
    gate = build_gate(settings(text).without_clearances(), tokens=SEALS, ledger=NoLedger())
    for visit, entry in zip(visits, entries, strict=True):
        decision = run_now(gate.decide(visit))
        gate.settle(decision)
        live = [(found.code, found.weight, found.details) for found in entry.decision.evidence]
        assert decision.action == entry.decision.action, visit
        assert [(found.code, found.weight, found.details) for found in decision.evidence] == live, visit
    seen = {found.code for entry in entries for found in entry.decision.evidence}
    assert {"trap", "tampered", "minted-for-another", "unmarked", "density-visitor"} <= seen


def test_a_site_of_two_names_has_links_for_each():
    client = Client(Application(HOME))
    link = links(client.get("/"))[1]
    unmark = client.site.app.gate.identifier.unmark
    assert unmark(link, "EXAMPLE.org:8080")[::2] == ("/list?p=2", False)
    assert unmark(link, "other.example")[::2] == (link, True)


def test_new_keys_are_taken_while_it_runs(tmp_path):
    config = settings(f"directory = '{tmp_path}'\n[ledger]\nenabled = false\n")
    site = Site(config)
    before = site.app.tokens.of("example.org").seal("page", bytes(6), bytes(6), b"/x").decode()
    rotate(tmp_path / "hedgerow.key", 2e9, 1e9)
    site.reload(config)
    after = site.app.tokens.of("example.org").seal("page", bytes(6), bytes(6), b"/x").decode()
    assert after != before
    for token in (before, after):
        assert site.app.gate.identifier.unmark("/~" + token, "example.org")[0] == "/x"

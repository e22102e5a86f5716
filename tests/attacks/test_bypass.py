"""Bypass: headers, methods, names and identities by which a crawler tries to get more pages than its budget allows."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from driving import HTML, Application, Client, traps_in
from hedgerow.core.state import CLEARANCE, StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.containment import ContainmentDetector

from .browsers import CHROME, FAST, HOST, ME, Browser, page_at, site, word

K1, K2 = 20, 300
SCRIPT = {
    "sec-fetch-dest": "empty", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin", "sec-fetch-user": None,
    "accept": "*/*",
}  # fmt: skip
CLAIMS = {
    "none": {},
    "xhr": {"x-requested-with": "XMLHttpRequest"},
    "json": {"accept": "application/json"},
    "script": SCRIPT,
    "only dest": {"sec-fetch-dest": "empty"},
    "image": {"sec-fetch-dest": "image", "sec-fetch-mode": "no-cors", "sec-fetch-site": "same-origin"},
    "prefetch": {"sec-purpose": "prefetch"},
    "old prefetch": {"purpose": "prefetch"},
    "firefox prefetch": {"x-moz": "prefetch"},
    "range": {"range": "bytes=0-"},
    "upgrade": {"upgrade": "websocket", "connection": "upgrade"},
    "htmx": {"hx-request": "true"},
    "webdav": {"depth": "1"},
    "translate": {"translate": "f"},
    "forged address": {"x-forwarded-for": "203.0.113.{n}"},
    "forged real ip": {"x-real-ip": "203.0.113.{n}"},
    "other agent": {"user-agent": "Mozilla/5.0 (X11; rv:{n}.0) Gecko/20100101 Firefox/{n}.0"},
}


def crawl(
    crawler: Browser, pages: int, *, method: str = "GET", suffix: str = "", seconds: float = 60, **headers
) -> int:
    """Ask for so many pages, slowly and in no order of numbers; return how many came."""
    got = 0
    for number in range(pages):
        crawler.client.clock.now += seconds
        target = word(number * 37 % 1000) + suffix
        own = {name: value.format(n=number % 250) if value else value for name, value in headers.items()}
        body = crawler.send(target, method=method, headers=own).body.replace(b"\0", b"")  # as UTF-16 has them
        got += b"<title>" + target.encode() + b"<" in body
    return got


@pytest.mark.parametrize("claim", CLAIMS)
def test_one_header_does_not_extend_the_budget_of_an_address(claim):
    """Our own; GO-2026-5641 hides a body alike. Each of these removed a request from the rules for pages."""
    got = crawl(Browser(site(), scripts=False), 200, **CLAIMS[claim])
    assert got <= 2 * K1


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "REPORT", "SEARCH", "OPTIONS"])
@pytest.mark.parametrize("base", [CHROME, {**CHROME, **SCRIPT}], ids=["browser", "script"])
def test_another_method_does_not_extend_the_budget_of_an_address(method, base):
    """Our own: where a site answers any method with its page, as many do for POST."""
    crawler = Browser(site(), scripts=False, headers={k: v for k, v in base.items() if v})
    got = crawl(crawler, 200, method=method)
    assert got <= 2 * K1


@pytest.mark.parametrize("suffix", [";x.png", "/x.css", "/x.json", ".pdf", "/feed", "?x=.png", "%2epng", "/.git"])
def test_another_name_does_not_extend_the_budget_of_an_address(suffix):
    """CVE-2025-71399, CVE-2025-29914: the path that rules see is not the one that the site serves."""
    got = crawl(Browser(site(), scripts=False), 200, suffix=suffix)
    assert got <= 2 * K1


@pytest.mark.parametrize("suffix", ["/", "//", "/./", "/../x", "%2f", "?", "&a"])
def test_many_spellings_of_a_path_are_many_pages(suffix):
    """CVE-2025-71399: slashes that made a rate limiter see another path each time."""
    client = site()
    crawler = Browser(client, scripts=False)
    got = 0
    for number in range(200):
        client.clock.now += 60
        got += crawler.send("/one" + suffix * (number % 60)).status == 200
    assert got <= K1


@pytest.mark.parametrize("claim", ["xhr", "json", "script", "prefetch", "upgrade"])
def test_the_holder_of_a_clearance_that_calls_itself_a_script_is_stopped(claim):
    """Our own: neither the watch nor k2 looked at it, so one clearance was enough for every page."""
    client = site("[containment]\nk2 = 30\n")
    crawler = Browser(client)
    crawler.read("/")
    crawler.read("/start")
    got = crawl(crawler, 200, seconds=20, **CLAIMS[claim])
    assert client.entries[-1].visit.visitor.startswith(CLEARANCE)
    assert got == (30 if claim == "prefetch" else 5 * 30)
    assert client.entries[-1].decision.code == "k2-scripts"
    assert crawler.read("/plain").status == 200, "what it opens itself is still shown"


def test_an_application_whose_scripts_fetch_pages_is_not_disturbed():
    """The other side: Turbo fetches each page, and four more under the pointer; a day of 290 pages."""
    client = site()
    reader = Browser(client)
    reader.read("/")
    reader.read("/start")
    for number in range(290 * 5):
        client.clock.now += 20
        here = HOST + word(number // 5)
        assert reader.send(word(number % 1000), headers={**SCRIPT, "referer": here}).status == 200
    assert reader.is_undisturbed()


def test_an_application_of_fragments_is_not_disturbed():
    """The other side: htmx fetches parts of pages, three in a second, all day long."""
    app = Application(react=lambda scope: {"chunks": (b"<tr><td>A row</td></tr>",)} if scope["path"] != "/" else None)
    client = Client(app, FAST + "[watch]\nenabled = false\n", silent=True)
    reader = Browser(client)
    reader.read("/")
    reader.read("/")
    for number in range(3000):
        client.clock.now += 0.3
        headers = {**SCRIPT, "hx-request": "true", "referer": HOST + "/"}
        assert reader.send(f"/rows/{number}", headers=headers).status == 200


def test_forms_of_people_are_not_disturbed():
    """The other side: a hundred forms that redirect, and ten that show a page, without JavaScript."""
    redirect = {"status": 303, "headers": [(b"location", b"/done")], "chunks": (b"",)}
    app = Application(react=lambda scope: redirect if scope["path"].startswith("/save") else None)
    client = Client(app, FAST + "[watch]\nenabled = false\n", silent=True)
    reader = Browser(client, scripts=False)
    form = {"sec-fetch-site": "same-origin", "origin": HOST, "referer": HOST + "/"}
    for number in range(100):
        client.clock.now += 60
        assert reader.send(f"/save/{number}", method="POST", headers=form, body=b"a=1").status == 303
    for number in range(10):
        client.clock.now += 60
        assert reader.send(f"/preview/{number}", method="POST", headers=form, body=b"a=1").status == 200


# ---- Identities that a client can invent


def test_invented_accounts_share_the_budget_of_their_address():
    """Our own: a random session cookie with every request. 440 pages came, and 140 traps were followed."""
    client = site("[identity]\naccount_cookie = 'sid'\n")
    crawler = Browser(client, scripts=False)
    got = 0
    for number in range(200):
        client.clock.now += 30
        crawler.cookies = {"sid": f"s{number}"}
        got += crawler.send(word(number)).status == 200
    assert got == K1


def test_invented_accounts_share_the_budget_of_their_clearance():
    """Our own: one clearance and a random session cookie with every request."""
    client = site("[identity]\naccount_cookie = 'sid'\n[containment]\nk2 = 40\n")
    crawler = Browser(client)
    crawler.read("/")
    crawler.read("/start")
    crawler.scripts = False
    statuses = []
    for number in range(200):
        client.clock.now += 30
        crawler.cookies["sid"] = f"s{number}"
        statuses.append(crawler.send(word(number)).status)
    assert client.entries[-1].visit.reader.startswith(CLEARANCE)
    assert any(entry.decision.code == "k2" for entry in client.entries)


def test_people_with_accounts_obtain_a_clearance_as_others_do():
    """The other side: thirty people of a school, each with a session cookie, read fifty pages each."""
    client = site("[identity]\naccount_cookie = 'sid'\n")
    people = [Browser(client) for _ in range(30)]
    for number, person in enumerate(people):
        person.cookies["sid"] = f"person{number}"
    for page in range(50):
        for number, person in enumerate(people):
            client.clock.now += 1
            assert person.read(word((page * 31 + number * 17) % 1000)).status == 200


def test_an_account_that_the_site_vouches_for_is_not_contained():
    """The other side: a callable of the site checks the session. Its accounts cannot be invented."""
    client = site(account_of=lambda headers: headers.get("cookie", "").removeprefix("sid="))
    reader = Browser(client, scripts=False)
    reader.cookies["sid"] = "checked"
    for number in range(100):
        client.clock.now += 60
        assert reader.send(word(number * 37 % 1000), headers={"sec-fetch-site": "none"}).status == 200


def test_addresses_of_one_ipv6_network_share_a_budget():
    """Our own; fail2ban#3960, crowdsec#402: one customer has 65,536 prefixes of 64 bits."""
    client = site()
    got = 0
    for number in range(600):
        client.clock.now += 30
        got += Browser(client, f"2001:db8:1:{number:x}::1", scripts=False).send(word(number)).status == 200
    assert got == 10 * K1
    assert Browser(client, "2001:db8:2::1", scripts=False).send("/one").status == 200


def test_people_of_one_ipv6_network_do_not_use_up_its_budget():
    """The other side: a mobile network. Who obtains a clearance does not count."""
    client = site()
    for number in range(400):
        client.clock.now += 5
        reader = Browser(client, f"2001:db8:1:{number:x}::1")
        assert reader.read(word(number)).status == 200
        assert reader.read(word(number + 1)).status == 200


def test_a_clearance_for_each_address_of_an_ipv6_network_costs_more_and_more():
    """Our own: solve at each address, read forty pages, go on to the next."""
    client = site()
    solved = 0
    for number in range(300):
        crawler = Browser(client, f"2001:db8:1:{number:x}::1")
        crawler.read("/")
        crawler.scripts = False
        if "hedgerow-clearance" not in crawler.cookies:
            break
        solved += 1
        for page in range(40):
            crawler.send(word(page))
    assert 60 <= solved <= 160


@pytest.mark.parametrize(
    ("visitor", "today", "hides_marks", "code"),
    [
        (ME, 41, True, "k1-scripts"),
        ("clearance:ab", 301, True, "k2-scripts"),
        ("clearance:ab", 1501, False, "k2-scripts"),
    ],
)
def test_what_a_prefetch_may_have(visitor, today, hides_marks, code):
    """Our own: a prefetch was bounded by the minute, and not by the day."""
    visit = Visit(1.8e9, ME, visitor, ME, "GET", "/", kind="prefetch", prefetch=True)
    detector = ContainmentDetector(K1, K2, hides_marks=hides_marks)
    assert [one.code for one in detector(visit, StateReply(None, (), today=today))] == [code]
    assert not sum(one.weight for one in detector(visit, StateReply(None, (), today=today - 1)))
    account = msgspec.structs.replace(visit, visitor="account:ann", account="ann")
    assert detector(account, StateReply(None, (), today=10_000)) == ()


@pytest.mark.parametrize("claim", CLAIMS)
def test_who_has_used_up_its_pages_gets_none_by_another_claim(claim):
    """Our own: prefetches had a budget of their own after that."""
    crawler = Browser(site(), scripts=False)
    assert crawl(crawler, 40) == K1
    assert crawl(crawler, 40, suffix="/more", **CLAIMS[claim]) == 0


def test_prefetches_use_up_nothing_that_is_read():
    """The other side: without JavaScript, four pages are loaded in advance for each that is read."""
    reader = Browser(site(), scripts=False)
    for number in range(K1):
        assert reader.read(word(number)).status == 200
        if number < 10:
            assert crawl(reader, 4, seconds=1, suffix=word(number), **CLAIMS["prefetch"]) == 4


def test_who_holds_a_clearance_prefetches_where_others_have_used_up_the_pages():
    """The other side: two people behind one address, of whom one has no JavaScript."""
    client = site()
    holder = Browser(client)
    holder.read("/start")
    holder.read("/other")
    assert crawl(Browser(client, scripts=False), 40) == K1
    assert crawl(holder, 20, **CLAIMS["prefetch"]) == 20


def test_in_a_class_prefetches_without_a_clearance_are_served_as_pages_are():
    """The other side: the address of ten who hold clearances may have ten times as many pages without one."""
    client = site()
    pupils = [Browser(client) for _ in range(10)]
    for number in range(6):
        for pupil in pupils:
            pupil.read(word(number))
    newcomer = Browser(client, scripts=False)
    assert crawl(newcomer, 3 * K1, seconds=1) == 3 * K1
    assert crawl(newcomer, 10, seconds=1, suffix="/more", **CLAIMS["prefetch"]) == 10


# ---- Responses are judged and rewritten, whatever the request says


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_page_has_hidden_links_whatever_the_request_says_it_is_for(claim):
    """Our own; CVE-2022-39958, CVE-2022-39957: a range or another header made the response escape inspection."""
    client = site()
    crawler = Browser(client, scripts=False)
    headers = {name: value.format(n=1) if value else value for name, value in CLAIMS[claim].items()}
    crawler.send("/first", headers=headers)
    assert traps_in(crawler.send("/second", headers=headers).body)


@pytest.mark.parametrize("given", ["bytes=0-", "bytes=5-", "bytes=-50", "bytes=0-10,20-30", "bytes=0-0,-1"])
def test_a_range_of_a_page_is_the_whole_page(given):
    """CVE-2022-39958: small ranges, one after the other, evade the inspection of responses."""

    def react(scope):
        asked = dict(scope["headers"]).get(b"range")
        if asked is None:
            return None
        return {"status": 206, "headers": [HTML, (b"content-range", b"bytes 0-9/100")], "chunks": (b"<!DOCTYPE ",)}

    client = Client(Application(react=react), FAST, silent=True)
    answer = Browser(client, scripts=False).send("/", headers={"range": given})
    assert answer.status == 200
    assert traps_in(answer.body)


@pytest.mark.parametrize("charset", ["utf-16", "utf-7", "x-user-defined", "utf-8; charset=utf-16", '"utf-8"', ""])
@pytest.mark.parametrize("coding", ["", "gzip, gzip", "x-unknown", "identity"])
def test_a_page_counts_even_if_it_cannot_be_rewritten(charset, coding):
    """CVE-2022-39957, safeline#1222: a charset or coding that the inspector cannot read. The budget holds anyway."""
    headers = [(b"content-type", f"text/html; charset={charset}".encode()), (b"content-encoding", coding.encode())]
    client = Client(Application(headers=headers[: 2 if coding else 1]), FAST, silent=True)
    crawler = Browser(client, scripts=False)
    got = 0
    for number in range(60):
        client.clock.now += 60
        got += crawler.send(word(number)).status == 200
    assert got <= K1


UNCHANGED = {
    "xhtml": [(b"content-type", b"application/xhtml+xml")],
    "coding": [HTML, (b"content-encoding", b"compress")],
    "damaged": [HTML, (b"content-encoding", b"gzip")],
    "charset": [(b"content-type", b"text/html; charset=utf-16")],
    "large": [HTML],
}
"""Pages that are passed on as they are."""


@pytest.mark.parametrize("claim", ["none", "xhr", "json", "script", "image", "range", "upgrade", "prefetch"])
@pytest.mark.parametrize("page", UNCHANGED)
def test_a_page_that_cannot_be_rewritten_counts_whatever_the_request_says_it_is_for(page, claim):
    """CVE-2022-39957, safeline#1222: what the inspector cannot read, asked for as an image. 120 of 120 pages came."""

    def react(scope):
        body = page_at(scope["raw_path"].decode())
        body = body.decode().encode("utf-16-le") + b"\x00\xd8" if page == "charset" else body
        return {"chunks": (body,), "headers": UNCHANGED[page]}

    app = Application(react=react)
    limit = "[marker]\npage_bytes = 1000\n" if page == "large" else ""
    client = Client(app, FAST + "[watch]\nenabled = false\n" + limit, silent=True)
    assert 0 < crawl(Browser(client, scripts=False), 120, **CLAIMS[claim]) <= 2 * K1


def test_a_reader_of_books_is_not_disturbed():
    """The other side: a script fetches the chapters of a book, which are XHTML."""
    xhtml = {"headers": UNCHANGED["xhtml"]}
    app = Application(react=lambda scope: xhtml if "chapter" in scope["path"] else None)
    client = Client(app, FAST + "[watch]\nenabled = false\n", silent=True)
    reader = Browser(client)
    reader.read("/")
    reader.read("/start")
    for number in range(80):
        client.clock.now += 0.3
        headers = {**SCRIPT, "referer": HOST + "/start"}
        assert reader.send(f"/book/chapter-{number}.xhtml", headers=headers).status == 200
    assert reader.is_undisturbed()


def test_a_handshake_that_the_site_answers_with_a_page_gets_no_page():
    """Our own: an Upgrade header made the proxy relay whatever came, unmarked and uncounted."""

    async def app(scope, receive, send):  # noqa: ARG001
        await send({"type": "websocket.http.response.start", "status": 200, "headers": [HTML]})
        await send({"type": "websocket.http.response.body", "body": page_at("/secret")})

    client, sent = Client(app, FAST, silent=True), []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "websocket", "path": "/x", "raw_path": b"/x", "query_string": b"", "scheme": "ws",
        "headers": [(b"host", b"example.org")], "client": (ME, 5000), "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    asyncio.run(client.hedgerow(scope, receive, send))
    assert [message.get("status") for message in sent[:1]] == [502]
    assert not any(b"secret" in message.get("body", b"") for message in sent)

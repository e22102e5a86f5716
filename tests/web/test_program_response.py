"""Programs get what the application sends, byte for byte. Crawlers that look like programs get no more than others."""

from __future__ import annotations

import gzip
from itertools import count

import pytest

import driving
from driving import HTML, PAGE, Application, traps_in, without_bait

CLEAN = "[marker]\nmode = 'clean'\n"
CURL = {"accept": "*/*", "user-agent": "curl/8.0"}
BROWSER = {"accept": "text/html", "accept-language": "en"}
LISTING = (
    b"<html><head><title>Index of /files/</title></head><body><h1>Index of /files/</h1><hr><pre>"
    b'<a href="../">../</a>\n<a href="a.html">a.html</a>\n<a href="sub/">sub/</a>\n</pre></body></html>'
)
MODES = [CLEAN, "[marker]\nmode = 'opaque'\n", "[marker]\nmode = 'readable'\n", driving.OFF]


class Client(driving.Client):
    def __init__(self, app=None, text: str = CLEAN, **more) -> None:
        super().__init__(app, text, **more)


def is_changed(answer) -> bool:
    return bool(traps_in(answer.body))


@pytest.mark.parametrize("text", MODES)
def test_the_first_page_is_what_the_application_sends(text):
    headers = [HTML, (b"etag", b'"1"'), (b"content-length", b"%d" % len(PAGE)), (b"link", b"</b>; rel=next")]
    client = Client(Application(PAGE[:50], PAGE[50:], headers=headers), text)
    for _ in range(3):
        answer = client.get("/a", headers=CURL)
        assert (answer.body, answer.headers) == (PAGE, headers)
    head = client.get("/a", headers=CURL, method="HEAD")
    assert head.headers == headers
    assert is_changed(client.get("/a", headers=BROWSER))


def test_a_compressed_page_is_what_the_application_sends():
    body = gzip.compress(PAGE)
    client = Client(Application(body[:20], body[20:], headers=[HTML, (b"content-encoding", b"gzip")]))
    assert client.get("/", headers=CURL).body == body
    # Its links are known all the same.
    codes = [client.get(path, headers=CURL) and client.entries[-1].decision.code for path in ("/one", "/two")]
    assert codes == ["program-follows", "program-hasty"]


def test_a_redirect_is_left_alone_and_does_not_count():
    def react(scope):
        return {"status": 302, "headers": [HTML, (b"location", b"/new")]} if scope["path"] == "/old" else None

    client = Client(Application(react=react))
    assert client.get("/old", headers=CURL).header("location") == b"/new"
    assert client.get("/new", headers=CURL).body == PAGE


def test_another_page_has_traps_and_marks_for_an_hour():
    client = Client()
    client.get("/a", headers=CURL)
    other = client.get("/b", headers=CURL)
    assert is_changed(other)
    assert b"/one?~=" in other.body
    assert is_changed(client.get("/b", headers=CURL))
    assert client.get("/a", headers=CURL).body == PAGE
    client.clock.now += 3601
    assert client.get("/b", headers=CURL).body == PAGE


def test_a_crawler_gets_two_pages_and_is_blocked():
    """It follows the links of the page that it was given unchanged, and ignores that it is declined."""
    client = Client(Application(b"<!DOCTYPE html><body>" + b"".join(b"<a href=/%d>x</a>" % n for n in range(50))))
    answers = [client.get(path, headers=CURL) for path in ("/", *(f"/{n}" for n in range(14)))]
    assert [answer.status for answer in answers] == [200] * 2 + [429] * 9 + [403] * 4
    assert not is_changed(answers[0])
    assert is_changed(answers[1])
    assert answers[2].header("retry-after") == b"10"
    assert [block.evidence.code for block in client.site.stores.state.blocks(client.clock.now)] == ["program-crawls"]


def test_a_program_that_takes_its_time_is_declined_nothing():
    client = Client()
    for path in ("/", "/one", "/two", "/three"):
        client.clock.now += 10
        assert client.get(path, headers=CURL).status == 200


@pytest.mark.parametrize("pace", [11, 60, 120])
def test_a_slow_crawler_gets_ten_pages(pace):
    """It follows the links of its first page more slowly than anybody would call fast, for hours."""
    names = [f"/{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]
    client = Client(Application(b"<!DOCTYPE html><body>" + "".join(f"<a href={name}>x</a>" for name in names).encode()))
    statuses = []
    for path in ("/", *names):
        client.clock.now += pace
        statuses.append(client.get(path, headers=CURL).status)
    assert statuses[:9] == [200] * 9
    assert statuses.count(200) <= 10


def test_a_preview_bot_gets_every_page_that_people_send():
    """Pages that do not link each other, one a second."""
    client = Client()
    for number in range(40):
        client.clock.now += 1
        assert client.get(f"/shared/{number * 7}", headers={"accept": "*/*"}).status == 200
    assert client.site.stores.state.blocks(client.clock.now) == []


def test_what_left_before_the_end_of_its_first_page_has_had_it():
    """Otherwise a crawler would get all pages unchanged, but for their last byte."""
    client = Client()

    class LeftError(Exception):
        pass

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [HTML]})
        await send({"type": "http.response.body", "body": PAGE, "more_body": True})
        raise LeftError

    client.hedgerow.app = app
    with pytest.raises(LeftError):
        client.get("/a", headers=CURL)
    client.hedgerow.app = client.app
    assert is_changed(client.get("/b", headers=CURL))


def test_a_client_that_wants_json_and_gets_a_page_has_had_a_page():
    client = Client()
    answers = [client.get(path, headers={"accept": "application/json"}) for path in ("/a", "/b")]
    assert [is_changed(answer) for answer in answers] == [False, True]
    assert {entry.visit.kind for entry in client.entries} == {"page"}


def test_while_observing_it_is_counted_alike_and_changed_never():
    client = Client(text="observe = true\n" + CLEAN)
    answers = [client.get(path, headers={"accept": "application/json"}) for path in ("/a", "/b")]
    assert [answer.body for answer in answers] == [PAGE] * 2
    assert {entry.visit.kind for entry in client.entries} == {"page"}


def test_json_with_the_type_of_a_page_is_no_page():
    """Many APIs send no better type. Each call has another address, and none is a page."""
    client = Client(Application(b'{"a": "<a href=/b>"}'))
    assert {client.get(f"/call/{n}", headers=CURL).body for n in range(150)} == {b'{"a": "<a href=/b>"}'}
    assert {entry.visit.kind for entry in client.entries} == {"asset"}


@pytest.mark.parametrize("headers", [CURL, BROWSER])
def test_an_attachment_is_a_file_for_everybody(headers):
    more = [HTML, (b"content-disposition", b'Attachment; filename="a.html"'), (b"etag", b'"1"')]
    client = Client(Application(headers=more))
    for path in ("/a", "/b"):
        answer = client.get(path, headers=headers)
        assert (answer.body, answer.headers) == (PAGE, more)


# ---- Lists of files


def listing(scope):
    return {"chunks": (LISTING[:30], LISTING[30:])} if scope["path"].endswith("/") else None


def test_no_trap_stands_in_a_list_of_files():
    client = Client(Application(react=listing))
    assert without_bait(client.get("/files/", headers=BROWSER).body).count(b"href") == LISTING.count(b"href")
    assert traps_in(client.get("/files/", headers=BROWSER).body) == []
    assert is_changed(client.get("/files/a.html", headers=BROWSER))


def test_a_program_gets_the_list_and_all_files_below_it():
    """200 pages of it, at any speed below the limits: it is a file server."""
    client = Client(Application(react=listing))
    assert client.get("/files/", headers=CURL).body == LISTING
    for n in range(200):
        client.clock.now += 0.1
        assert client.get(f"/files/sub/{n}.html", headers=CURL).body == PAGE
    assert client.get("/", headers=CURL).body == LISTING
    assert client.get("/elsewhere", headers=CURL).body == PAGE


def test_folders_may_have_numbers():
    """A package manager goes through the indexes of many packages; some sites number their folders."""
    client = Client(Application(react=listing))
    assert {client.get(f"/simple/p{n}/", headers=CURL).status for n in range(30)} == {200}


def test_files_elsewhere_are_pages_as_before():
    client = Client(Application(react=lambda scope: listing(scope) if scope["path"] == "/files/" else None))
    assert client.get("/files/", headers=CURL).body == LISTING
    assert [is_changed(client.get(path, headers=CURL)) for path in ("/a", "/b")] == [False, True]


def test_webdav_lists_files_too():
    def react(scope):
        return {"status": 207, "headers": [(b"content-type", b"text/xml")]} if scope["method"] == "PROPFIND" else None

    client = Client(Application(react=react))
    depth = {"depth": "1"}
    assert client.get("/dav/", method="PROPFIND", headers=depth).status == 207
    assert [client.get(f"/dav/{name}.html", headers={"accept": ""}).body for name in "abc"] == [PAGE] * 3
    # Where WebDAV is not offered, asking for it helps nobody.
    client = Client(Application(react=lambda scope: {"status": 405} if scope["method"] == "PROPFIND" else None))
    client.get("/dav/", method="PROPFIND", headers=depth)
    assert is_changed([client.get(f"/dav/{name}.html", headers={"accept": ""}) for name in "abc"][-1])


@pytest.mark.parametrize("signed", [{"authorization": "AWS4-HMAC-SHA256 Credential=a"}, {}])
@pytest.mark.parametrize("answer", [[(b"x-amz-request-id", b"1")], []])
def test_files_from_s3_are_files_where_s3_has_checked_a_signature(signed, answer):
    client = Client(Application(headers=[HTML, *answer]))
    answers = [client.get(f"/bucket/{n}.html", headers={**CURL, **signed}) for n in range(60)]
    assert is_changed(answers[1]) is not bool(signed and answer)
    if signed and answer:
        assert {(answer.status, answer.body) for answer in answers} == {(200, PAGE)}
        assert {entry.visit.kind for entry in client.entries} == {"asset"}


# ---- Ranges


def test_a_part_of_the_first_page_is_a_part():
    def react(scope):
        if b"range" not in dict(scope["headers"]):
            return None
        return {"status": 206, "headers": [HTML, (b"content-range", b"bytes 0-149/168")], "chunks": (PAGE[:150],)}

    client = Client(Application(react=react))
    part = client.get("/", headers={**CURL, "range": "bytes=0-149"})
    assert (part.status, part.body) == (206, PAGE[:150])
    whole = client.get("/other", headers={**CURL, "range": "bytes=0-149"})
    assert whole.status == 200
    assert is_changed(whole)
    # The links in the part are known.
    assert [client.get(path, headers=CURL).status for path in ("/one", "/two")] == [200, 429]


# ---- robots.txt


def test_a_crawler_that_reads_robots_txt_first_gets_marked_links():
    client = Client()
    client.get("/robots.txt", headers=CURL)
    assert is_changed(client.get("/a", headers=CURL))


def test_a_crawler_that_reads_robots_txt_after_its_first_page_is_told_to_stop():
    client = Client(Application(react=lambda scope: {"status": 404} if scope["path"] == "/robots.txt" else None))
    client.get("/a", headers=CURL)
    assert client.get("/robots.txt", headers=CURL).body == b"User-agent: *\nDisallow: /\n"
    client.clock.now += 11
    assert b"Disallow: /\n" not in client.get("/robots.txt", headers=CURL).body
    assert b"Disallow: /\n" not in client.get("/robots.txt", headers=BROWSER).body


# ---- Rate limits


def test_a_program_over_a_limit_waits_a_moment_and_is_not_blocked():
    client = Client(Application(b"{}", headers=[(b"content-type", b"application/json")]))
    numbers = count()
    statuses = [client.get(f"/api/{next(numbers)}.json", headers=CURL) for _ in range(430)]
    assert [answer.status for answer in statuses] == [200] * 400 + [429] * 30
    assert statuses[-1].header("retry-after") == b"3"
    assert client.site.stores.state.blocks(client.clock.now) == []
    client.clock.now += 3.1
    assert client.get("/api/again.json", headers=CURL).status == 200


def test_a_browser_over_a_limit_is_challenged_and_blocked_only_the_third_time_of_a_day():
    client = Client(text=driving.OFF)
    outcomes = []
    for _ in range(3):
        for number in range(60):
            status = client.get(f"/page/{number}", headers=BROWSER).status
        outcomes.append((status, client.entries[-1].decision.action))
        client.site.stores.state.update_score(client.site.app.gate.engine.policy.cleared("192.0.2.1", client.clock.now))
        client.clock.now += 10
    assert outcomes == [(403, "challenge"), (403, "challenge"), (429, "refuse")]
    assert [block.evidence.code for block in client.site.stores.state.blocks(client.clock.now)] == ["density-visitor"]


def test_a_browser_that_was_challenged_for_its_speed_stays_so_until_it_solves_it():
    client = Client(text=driving.OFF)
    for number in range(60):
        client.get(f"/page/{number}", headers=BROWSER)
    client.clock.now += 600
    assert client.get("/", headers=BROWSER).status == 403
    assert client.entries[-1].decision.action == "challenge"


def test_calls_of_a_script_over_a_limit_are_declined_and_the_page_goes_on():
    client = Client(Application(b"{}", headers=[(b"content-type", b"application/json")]))
    script = {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "accept": "*/*"}
    statuses = [client.get(f"/api/{n}", headers=script).status for n in range(430)]
    assert statuses == [200] * 400 + [429] * 30
    client.clock.now += 3.1
    assert client.get("/", headers=BROWSER).status == 200


# ---- The pages of a day

PAGES_OF_A_DAY = "[containment]\nenabled = true\nk1 = 3\nk2 = 8\n"


def plain_page(scope):
    """Pages without links: a program that fetches a list of addresses follows none."""
    if scope["path"].endswith(".txt"):
        return {"headers": [(b"content-type", b"text/plain")], "chunks": (b"Notes",)}
    body = b"<!DOCTYPE html><html><head><title>%b</title></head><body>Text</body></html>" % scope["path"].encode()
    return {"chunks": (body,)}


def list_of_addresses(client: Client, number: int, below: str = "/page-", end: str = "", **more) -> list[int]:
    found = []
    for n in range(number):
        client.clock.now += 30
        found.append(client.get(f"{below}{'abcdefghijklmnop'[n]}{end}", headers=CURL, **more).status)
    return found


def test_a_program_with_a_list_of_addresses_gets_twice_the_pages_of_a_browser_without_a_clearance():
    client = Client(Application(react=plain_page), CLEAN + PAGES_OF_A_DAY)
    assert list_of_addresses(client, 9) == [200] * 6 + [429] * 3
    answer = client.get("/page-q", headers=CURL)
    assert (answer.status, answer.header("retry-after")) == (429, b"3600")
    assert client.entries[-1].decision.code == "k1-programs"
    assert list_of_addresses(client, 2, peer="192.0.2.77") == [200] * 2
    assert client.get("/page-r", headers=BROWSER).status == 200, "people at the same address have their own pages"
    client.clock.now += 86_400
    assert list_of_addresses(client, 2) == [200] * 2


def test_a_program_is_never_blocked_for_pages_and_gets_known_ones_again():
    client = Client(Application(react=plain_page), CLEAN + PAGES_OF_A_DAY)
    for _ in range(40):
        client.clock.now += 60
        assert {client.get(page, headers=CURL).status for page in ("/", "/health", "/page-a")} == {200}
    assert list_of_addresses(client, 9)[-1] == 429
    for _ in range(60):
        client.clock.now += 1
        client.get("/page-z", headers=CURL)
    assert client.site.app.gate.blocked == 0
    assert client.get("/notes.txt", headers=CURL).status == 200


@pytest.mark.parametrize(
    "kind",
    ["listing", "json", "text", "attachment", "missing", "redirect", "head", "post", "propfind"],
)
def test_what_is_no_page_does_not_count(kind):
    def react(_):
        if kind == "listing":
            return {"chunks": (LISTING,)}
        if kind == "attachment":
            return {"headers": [HTML, (b"content-disposition", b"attachment")]}
        if kind in {"json", "text"}:
            body = b'{"a": "<p>"}' if kind == "json" else b"just text"
            return {"headers": [(b"content-type", b"application/json") if kind == "json" else HTML], "chunks": (body,)}
        if kind == "missing":
            return {"status": 404}
        if kind == "redirect":
            return {"status": 302, "headers": [HTML, (b"location", b"/x")]}
        return {"status": 207} if kind == "propfind" else None

    client = Client(Application(react=react), CLEAN + PAGES_OF_A_DAY)
    method = kind.upper() if kind in {"head", "post", "propfind"} else "GET"
    below, end = ("/files/", "/") if kind == "listing" else ("/page-", "")
    assert 429 not in list_of_addresses(client, 12, below, end, method=method)


def test_a_call_that_is_answered_with_a_page_counts_once():
    client = Client(Application(react=plain_page), CLEAN + PAGES_OF_A_DAY)
    calls = {**CURL, "accept": "application/json"}
    for _ in range(20):
        client.clock.now += 60
        assert client.get("/page-a", headers=calls).status == 200
    assert [client.get(f"/page-{n}", headers=calls).status for n in "bcdefgh"] == [200] * 5 + [429] * 2


def test_listed_programs_and_those_with_an_account_have_no_such_limit():
    client = Client(
        Application(react=plain_page), CLEAN + PAGES_OF_A_DAY + "[identity]\naccount_header = 'x-user'\n"
        "trusted_proxies = ['192.0.2.1/32']\n",
    )  # fmt: skip
    found = [
        client.get(f"/{'abcdefghij'[n]}", headers={**CURL, "x-user": "ann"}, peer="192.0.2.1").status for n in range(9)
    ]
    assert set(found) == {200}

"""The middleware: who passes, who is turned away and how, and that nothing in a request breaks it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import HTML, KEY, OFF, PAGE, START, Application, Client, traps_in, without_bait
from hedgerow.errors import UpstreamError
from hedgerow.markers.token import Key, TokenCodecs, visitor_digest
from hedgerow.web.asgi import Hedgerow
from property_tests import examples

SMALL = """
[policy]
suspects = "refuse"
[density]
windows = [{ count = 3, seconds = 10.0 }]
block_for = 60.0
"""
BOTS = """
[[identity.bots]]
name = "search"
networks = ["203.0.113.0/24"]
"""
ME, OTHER = "192.0.2.1", "198.51.100.7"
IMAGE = {"sec-fetch-dest": "image", "sec-fetch-site": "same-origin"}


# ---- Density


def test_the_count_passes_and_one_more_is_refused():
    client = Client(text=SMALL)
    answers = [client.get() for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[3].header("retry-after") == b"60"
    assert answers[3].header("cache-control") == b"no-store"
    assert answers[3].header("hedgerow-decision").startswith(b"refuse; code=density-visitor; ref=")
    assert client.get(peer=OTHER).status == 200
    assert len(client.app.scopes) == 4


def test_a_visit_during_a_block_starts_it_again_and_after_it_the_visitor_returns_to_the_timetable():
    client = Client(text=SMALL)
    for _ in range(4):
        client.get()
    client.clock.now += 59.0
    assert client.get().status == 429
    client.clock.now += 59.0
    assert client.get().status == 429
    client.clock.now += 60.0
    assert [client.get().status for _ in range(4)] == [200, 200, 200, 429]


def test_without_renewal_a_block_ends_when_it_ends():
    client = Client(text=SMALL + "renew = false\n")
    for _ in range(4):
        client.get()
    for _ in range(6):
        client.clock.now += 9.9
        assert client.get().status == 429
    client.clock.now += 0.6
    assert client.get().status == 200


def test_a_burst_of_200_across_any_boundary_is_caught():
    """A hundred in three seconds: 100 late in one interval and 100 early in the next."""
    text = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 100, seconds = 3.0, of = 'requests' }]"
    for shift in (0.0, 1.5, 2.4, 2.9):
        client = Client(text=text)
        client.get()
        client.clock.now += shift
        statuses = []
        for _ in range(200):
            statuses.append(client.get().status)
            client.clock.now += 0.005
        assert statuses.count(200) <= 100
        assert statuses[-1] == 429


def test_images_and_calls_are_not_counted_as_pages():
    client = Client(Application(b"\x89PNG", headers=[(b"content-type", b"image/png")]), SMALL)
    assert {client.get("/a.png").status for _ in range(50)} == {200}
    assert {client.get("/x", headers=IMAGE).status for _ in range(50)} == {200}
    assert {client.get("/x", method="POST").status for _ in range(50)} == {200}


def test_ipv6_visitors_are_64s():
    client = Client(text=SMALL)
    statuses = [client.get(peer=f"2001:db8::{n:x}").status for n in range(1, 6)]
    assert statuses == [200, 200, 200, 429, 429]
    assert client.get(peer="2001:db8:0:1::1").status == 200


def test_an_ipv4_peer_is_the_same_on_a_dual_socket():
    client = Client(text=SMALL)
    for _ in range(4):
        client.get(peer=f"::ffff:{ME}")
    assert client.get(peer=ME).status == 429


def test_a_server_that_tells_no_address_blocks_nobody():
    client = Client(text=SMALL)
    answers = [client.get(peer=None) for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert client.get(traps_in(answers[0].body)[0], peer=None).status == 404
    assert client.get(peer=None).status == 200


# ---- Behind proxies, and accounts


def test_the_client_is_found_behind_a_trusted_proxy_alone():
    client = Client(text=SMALL + "[identity]\ntrusted_proxies = ['10.0.0.0/8']")
    for n in range(10):
        assert client.get(peer="10.0.0.1", headers={"x-forwarded-for": f"198.51.100.{n}"}).status == 200
    assert client.entries[-1].visit.address == "198.51.100.9"
    statuses = [client.get(peer=ME, headers={"x-forwarded-for": f"198.51.100.{n}"}).status for n in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    mapped = client.get(peer="::ffff:10.0.0.1", headers={"x-forwarded-for": OTHER})
    assert mapped.status == 200
    assert client.entries[-1].visit.address == OTHER


def test_several_header_lines_are_one_list():
    client = Client(text="[identity]\ntrusted_proxies = ['10.0.0.0/8']")
    client.get(peer="10.0.0.1", headers=[(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", OTHER.encode())])
    assert client.entries[-1].visit.address == OTHER


def test_people_behind_one_address_with_accounts_are_different_visitors():
    client = Client(text=SMALL + "[identity]\naccount_cookie = 'sid'")
    for person in ("ann", "bob"):
        for _ in range(3):
            assert client.get(headers={"cookie": f"sid={person}"}).status == 200
    assert [client.get().status for _ in range(4)] == [200, 200, 200, 429]
    assert client.get(headers={"cookie": "sid=ann"}).status == 429
    assert client.get(headers={"cookie": "sid=eve"}).status == 200


def test_all_accounts_of_an_address_add_up_with_who_has_none():
    window = "[density]\nwindows = [{ count = 4, seconds = 10, by = 'prefix' }]\n"
    text = f"[policy]\nsuspects = 'refuse'\n{window}[identity]\naccount_cookie = 'sid'"
    client = Client(text=text)
    statuses = [client.get(headers={"cookie": f"sid={n}"} if n else {}).status for n in range(6)]
    assert statuses == [200, 200, 200, 200, 429, 429]
    assert client.get().status == 429
    assert client.get(peer=OTHER).status == 200


def test_the_third_blocked_account_blocks_the_address():
    client = Client(text=SMALL + "[identity]\naccount_cookie = 'sid'\nstrikes = 3")
    for person in ("a", "b"):
        for _ in range(4):
            client.get(headers={"cookie": f"sid={person}"})
    assert client.get().status == 200
    for _ in range(4):
        client.get(headers={"cookie": "sid=c"})
    assert client.get().status == 429
    assert client.get(headers={"cookie": "sid=d"}).status == 429
    assert client.get(headers={"cookie": "sid=a"}, peer=OTHER).status == 429
    assert client.get(headers={"cookie": "sid=d"}, peer=OTHER).status == 200


def test_the_sites_own_code_may_name_the_account():
    client = Client(text=SMALL, account_of=lambda headers: headers.get("x-user"))
    for _ in range(4):
        client.get(headers={"X-User": "ann"})
    assert client.get(headers={"X-User": "ann"}, peer=OTHER).status == 429
    assert client.get().status == 200


# ---- Traps


def test_a_page_has_bait_and_is_otherwise_the_page():
    client = Client(text=OFF)
    answer = client.get()
    assert len(traps_in(answer.body)) == 2
    assert without_bait(answer.body) == PAGE
    assert answer.header("content-length") == b"%d" % len(answer.body)


@pytest.mark.parametrize("spelling", ["/~{}", "/%7E{}", "/%7e{}", "/~{}?utm=1", "/~{}?"])
def test_who_follows_its_own_opaque_hidden_link_is_blocked(spelling):
    client = Client(text='[marker]\nmode = "opaque"\n')
    token = traps_in(client.get().body)[0].removeprefix("/~")
    answer = client.get(spelling.format(token))
    _refused_for_the_trap(client, answer)


@pytest.mark.parametrize("spelling", ["{}", "{}&utm=1", "{}&"])
def test_who_follows_its_own_hidden_link_is_blocked(spelling):
    client = Client()
    _refused_for_the_trap(client, client.get(spelling.format(traps_in(client.get().body)[0])))


def _refused_for_the_trap(client, answer):
    assert answer.status == 403
    assert answer.header("hedgerow-decision").startswith(b"refuse; code=trap; ref=")
    assert client.get().status == 403
    assert client.get(peer=OTHER).status == 200
    assert client.entries[1].decision.evidence[0].text == "Followed a link of the page / that no person can see."


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-dest": "image", "sec-fetch-site": "cross-site"},
        {"sec-fetch-dest": "document", "sec-fetch-site": "cross-site"},
        {"sec-fetch-dest": "document", "sec-fetch-site": "none"},
        {"sec-fetch-dest": "document", "sec-fetch-site": "same-origin", "referer": "http://example.org/forum"},
        {"referer": "http://evil.example/"},
        {"sec-purpose": "prefetch"},
        {},
    ],
)
def test_nobody_can_be_framed(headers):
    """Embedded elsewhere, sent in a chat, posted on the site, fetched ahead: another's link blocks neither of them."""
    client = Client()
    trap = traps_in(client.get(peer=OTHER).body)[0]
    answer = client.get(trap, headers=headers)
    assert answer.status == 404
    assert traps_in(answer.body) == []
    assert client.get().status == 200
    assert client.get(peer=OTHER).status == 200
    assert client.site.app.gate.blocked == 0
    assert len(client.app.scopes) == 3


def test_a_browser_that_fetches_ahead_is_not_blocked():
    client = Client()
    trap = traps_in(client.get().body)[0]
    for headers in ({"sec-purpose": "prefetch;prerender"}, {"purpose": "prefetch"}, {"x-moz": "prefetch"}):
        assert client.get(trap, headers=headers).status == 404
    assert client.get().status == 200


def sealed_trap(secret: bytes, host: str = "example.org") -> str:
    """A trap for this client, as a site with this key and name makes them."""
    return (
        "/~"
        + TokenCodecs([Key(1, secret, 0.0)]).of(host).seal("trap", visitor_digest(ME), bytes(6), bytes(15)).decode()
    )


@pytest.mark.parametrize("text", ['[marker]\nmode = "opaque"\n', OFF])
def test_a_link_of_another_site_or_with_a_changed_bit_leads_nowhere(text):
    client = Client(text=text)
    trap = traps_in(client.get().body)[0]
    changed = trap[:-1] + ("A" if trap[-1] != "A" else "B")
    foreign = (sealed_trap(bytes(64)), sealed_trap(KEY, "other.example"))
    for target in (*foreign, changed, trap + "x", trap[:-1]):
        assert client.get(target).status == 404
    assert len(client.app.scopes) == 1
    assert client.site.app.gate.blocked == 0
    assert client.get(sealed_trap(KEY)).status == 403


@pytest.mark.parametrize(
    "target", ["/~ann/", "/~ann", "/~" + "a" * 39, "/~" + "a" * 60 + "/x", "/~" + "a" * 60 + ".html"]
)
def test_what_has_not_the_form_of_a_token_is_a_page_of_the_site(target):
    client = Client()
    assert client.get(target).status == 200
    assert client.app.scopes[0]["raw_path"] == target.encode()


def test_a_link_somewhere_else_than_at_the_start_is_a_page_of_the_site():
    client = Client(text='[marker]\nmode = "opaque"\n')
    target = "/x" + traps_in(client.get().body)[0]
    assert client.get(target).status == 200
    assert client.app.scopes[1]["raw_path"] == target.encode()


def test_accounts_have_links_of_their_own():
    client = Client(text="[identity]\naccount_cookie = 'sid'")
    ann, bob = {"cookie": "sid=ann"}, {"cookie": "sid=bob"}
    trap = traps_in(client.get(headers=ann).body)[0]
    assert client.get(trap).status == 404
    assert client.get(trap, headers=bob).status == 404
    assert client.get(trap, headers=ann, peer=OTHER).status == 403
    assert client.get(headers=bob).status == 200


def test_traps_can_be_off():
    client = Client(text=OFF + "[traps]\nenabled = false")
    answer = client.get()
    assert answer.body == PAGE
    assert client.get(sealed_trap(KEY)).status == 404
    marked = Client(text="[marker]\nmode = 'opaque'\n[traps]\nenabled = false").get()
    assert traps_in(marked.body) == []
    assert marked.body.count(b'href="/~') == PAGE.count(b"href=")


def test_observe_with_links_decides_and_enforces_nothing():
    client = Client(text="observe = 'links'\n" + SMALL)
    answers = [client.get() for _ in range(6)]
    assert {answer.status for answer in answers} == {200}
    assert [entry.decision.action for entry in client.entries] == ["pass"] * 3 + ["refuse"] * 3
    trap = traps_in(answers[-1].body)[0]
    assert client.get(trap).status == 404
    assert client.get(trap, peer=OTHER).status == 404
    assert client.get().status == 200
    assert len(client.app.scopes) == 7


def test_a_verified_bot_gets_clean_pages_and_no_limits():
    client = Client(text=BOTS + SMALL)
    answers = [client.get(peer="203.0.113.9") for _ in range(50)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.body for answer in answers} == {PAGE}
    trap = traps_in(client.get().body)[0]
    assert client.get(trap, peer="203.0.113.9").status == 404
    assert client.get(peer="203.0.113.9").status == 200
    assert len(client.site.stores.state) == 1


# ---- Who claims an image and gets a page


@pytest.mark.parametrize(
    ("headers", "traps"),
    [
        (IMAGE, True),
        ({"sec-fetch-dest": "empty"}, True),
        ({"x-requested-with": "XMLHttpRequest"}, True),
        ({"range": "bytes=0-"}, True),
        # Without traps no page is read: an image that is none is seen by its type, and a call stays a call.
        (IMAGE, False),
        ({"range": "bytes=0-"}, False),
    ],
)
def test_a_liar_is_counted_as_what_it_gets(headers, traps):
    if not traps and "sec-fetch-dest" not in headers:
        pytest.skip("without traps no page is read, and a call stays a call")
    if not traps:
        headers = IMAGE
    client = Client(text=SMALL + OFF + f"[traps]\nenabled = {str(traps).lower()}")
    answers = [client.get(headers=headers) for _ in range(6)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429, 429]
    assert [entry.visit.kind for entry in client.entries[:4]] == ["page"] * 4
    assert [entry.decision.action for entry in client.entries] == ["pass"] * 3 + ["refuse"] * 3
    assert client.site.counters.decided["pass"] == client.site.counters.decided["refuse"] == 3


@pytest.mark.parametrize("headers", [{}, IMAGE, {"range": "bytes=0-"}, {"sec-fetch-dest": "empty"}])
@pytest.mark.parametrize("target", ["/", "/page.php/x.png"])
def test_who_calls_everything_a_prefetch_gets_no_further_whatever_else_it_says(headers, target):
    client = Client(text="[density]\nwindows = [{ count = 3, seconds = 10.0, of = 'prefetches' }]")
    statuses = [client.get(target, headers={**headers, "sec-purpose": "prefetch"}).status for _ in range(6)]
    assert statuses == [200, 200, 200, 503, 503, 503]
    assert client.get().status == 200


def test_a_liar_gets_bait_like_anybody():
    client = Client()
    trap = traps_in(client.get(headers=IMAGE).body)[0]
    assert client.get(trap, headers=IMAGE).status == 403


def test_one_visit_counts_once_whatever_it_claimed():
    client = Client(text="[density]\nwindows = [{ count = 3, seconds = 10, of = 'everything' }]")
    assert [client.get(headers=IMAGE).status for _ in range(4)] == [200, 200, 200, 429]


def test_a_person_whose_images_are_missing_is_not_a_crawler():
    """Each missing image is answered with a page that says so."""
    client = Client(Application(PAGE, status=404), SMALL)
    assert {client.get(f"/{n}.png", headers=IMAGE).status for n in range(50)} == {404}
    assert client.get().status == 404


def test_what_was_carried_out_gets_its_answer():
    client = Client(text=SMALL)
    statuses = [client.get(method="POST").status for _ in range(4)]
    assert statuses == [200] * 4
    assert client.get(method="POST").status == 429


def test_an_observed_liar_is_left_alone():
    client = Client(text="observe = true\n" + SMALL)
    assert {client.get(headers=IMAGE).status for _ in range(8)} == {200}
    assert [entry.decision.action for entry in client.entries] == ["pass"] * 3 + ["refuse"] * 5


def test_a_fragment_stays_a_call():
    fragment = b"<div><a href='/x'>x</a></div>"
    client = Client(Application(fragment), SMALL + OFF)
    answers = [client.get(headers={"sec-fetch-dest": "empty"}) for _ in range(20)]
    assert {answer.body for answer in answers} == {fragment}
    assert {entry.visit.kind for entry in client.entries} == {"call"}
    assert client.site.counters.skipped == {}


# ---- Detaining


def test_a_detained_crawler_gets_a_maze_slowly_and_past_the_budget_a_refusal():
    text = "[traps]\nresponse = 'detain'\n[detain]\nseconds = 0.05\nconnections = 1"
    client = Client(text=text)
    trap = traps_in(client.get().body)[0]
    answer = client.get(trap)
    assert answer.status == 200
    assert len(answer.messages) > 10
    link = traps_in_maze(answer.body)[0]
    assert client.get(link).status == 200

    async def two() -> list[int]:
        return sorted(a.status for a in await asyncio.gather(client.ask("/a"), client.ask("/b")))

    assert asyncio.run(two()) == [200, 403]
    assert client.site.app.tarpit.inside == 0
    assert client.get(method="HEAD").status == 403
    assert [entry.decision.action for entry in client.entries] == ["pass"] + ["detain"] * 5
    assert len(client.app.scopes) == 1


def traps_in_maze(body: bytes) -> list[str]:
    return [part.split(b'"')[0].decode() for part in body.split(b'href="')[1:] if part.startswith(b"/~")]


def test_a_detained_client_that_leaves_is_let_go():
    client = Client(text="[traps]\nresponse = 'detain'\n[detain]\nseconds = 60")
    trap = traps_in(client.get().body)[0]
    scope = {
        "type": "http", "method": "GET", "path": trap, "raw_path": trap.encode(), "query_string": b"", "headers": [],
        "client": (ME, 1),
    }  # fmt: skip

    async def leave() -> int:
        sent = []
        waiting = [{"type": "http.disconnect"}, {"type": "http.request"}]

        async def receive():
            return waiting.pop()

        async def send(message):
            sent.append(message)

        await asyncio.wait_for(client.hedgerow(scope, receive, send), 120)
        return len(sent)

    assert asyncio.run(leave()) < 10
    assert client.site.app.tarpit.inside == 0


# ---- What the application sees


def test_the_application_sees_the_request_as_it_came():
    client = Client()
    client.get("/a%2Fb?x=%ff", headers={"accept-encoding": "gzip, dcb, *", "cookie": "a=1"})
    scope = client.app.scopes[0]
    assert (scope["raw_path"], scope["query_string"]) == (b"/a%2Fb", b"x=%ff")
    assert client.app.seen("accept-encoding") == b"gzip"
    assert client.app.seen("cookie") == b"a=1"


def test_ways_to_send_a_file_past_us_are_not_offered():
    client = Client()
    asyncio.run(client.ask(extensions={"http.response.pathsend": {}, "http.response.trailers": {}, "tls": {}}))
    assert set(client.app.scopes[0]["extensions"]) == {"http.response.trailers", "tls"}
    asyncio.run(client.ask(extensions=None))


def test_a_body_is_passed_in():
    got = []

    async def app(_scope, receive, send):
        got.append(await receive())
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    assert Client(app).get(method="POST", body=b"hello").status == 204
    assert got[0]["body"] == b"hello"


def test_what_the_application_raises_goes_through_and_is_recorded_as_500():
    async def app(_scope, _receive, _send):
        raise RuntimeError("broken")

    client = Client(app)
    with pytest.raises(RuntimeError, match="broken"):
        client.get()
    assert client.entries[0].status == 500


@pytest.mark.parametrize(("kind", "status"), [("connect", 502), ("timeout", 504), ("busy", 503), ("broken", 502)])
def test_an_upstream_that_fails_gets_a_page_that_says_so(kind, status):
    async def app(_scope, _receive, _send):
        raise UpstreamError(kind, "it is down")

    client = Client(app)
    answer = client.get(headers={"accept": "text/html"})
    assert answer.status == status
    assert answer.body.startswith(b"<!DOCTYPE html>")
    assert client.entries[0].status == status
    assert client.site.counters.upstream_errors == {kind: 1}


def test_an_upstream_that_fails_midway_cuts_the_connection():
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [HTML]})
        await send({"type": "http.response.body", "body": PAGE, "more_body": True})
        raise UpstreamError("broken", "it broke off")

    client = Client(app)
    with pytest.raises(UpstreamError):
        client.get()
    assert len(client.entries) == 1


def test_an_upstream_that_fails_before_its_first_piece_gets_a_page_that_says_so():
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [HTML]})
        raise UpstreamError("broken", "it broke off")

    assert Client(app).get().status == 502


# ---- Websockets and lifespan


def websocket(client: Client, **scope) -> list[dict]:
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/live", "headers": [(b"upgrade", b"websocket")], "client": (ME, 1), **scope}
    asyncio.run(client.hedgerow(scope, receive, send))
    return sent


def test_a_websocket_passes_or_is_refused():
    async def app(_scope, _receive, send):
        await send({"type": "websocket.accept"})

    client = Client(app, SMALL)
    for _ in range(10):
        assert websocket(client) == [{"type": "websocket.accept"}]
    assert {entry.visit.kind for entry in client.entries} == {"call"}
    trap = sealed_trap(KEY, "")
    websocket(client, path=trap, raw_path=trap.encode())
    assert websocket(client) == [{"type": "websocket.close", "code": 1008}]
    start, body = websocket(client, extensions={"websocket.http.response": {}})
    assert start["type"] == "websocket.http.response.start"
    assert start["status"] == 403
    assert body["body"]
    assert client.site.counters.decided["trap"] == 3


def test_the_ledger_is_closed_when_the_server_stops():
    async def app(_scope, receive, send):
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": message["type"] + ".complete"})
        await send({"type": "lifespan.shutdown.complete"})

    client = Client(app)
    client.entries.append("something")
    waiting = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]
    sent = []

    async def receive():
        return waiting.pop()

    async def send(message):
        sent.append((message["type"], len(client.entries)))

    asyncio.run(client.hedgerow({"type": "lifespan"}, receive, send))
    assert sent == [("lifespan.startup.complete", 1), ("lifespan.shutdown.complete", 0)]


def test_the_middleware_makes_its_own_site_from_a_file(tmp_path):
    config = tmp_path / "hedgerow.toml"
    config.write_text(f"directory = '{tmp_path}'\nobserve = true\n")
    hedgerow = Hedgerow(Application(), config=config)
    assert hedgerow.site.app.settings.observe
    hedgerow.site.close()
    assert (tmp_path / "hedgerow.key").exists()
    assert (tmp_path / "ledger.sqlite").exists()


# ---- Anything at all


BYTES = st.binary(max_size=60)
NAMES = st.sampled_from([
    b"host", b"cookie", b"referer", b"user-agent", b"x-forwarded-for", b"forwarded", b"sec-fetch-dest",
    b"sec-fetch-site", b"sec-purpose", b"accept", b"accept-encoding", b"range", b"if-none-match", b"if-match",
    b"x-requested-with", b"x-user", b"upgrade",
])  # fmt: skip


@given(
    path=st.one_of(BYTES, BYTES.map(lambda b: b"/~" + b), BYTES.map(lambda b: b"/%7E%" + b)),
    query=BYTES,
    headers=st.lists(st.tuples(st.one_of(NAMES, BYTES), BYTES), max_size=8),
    method=st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "", "\xff"]),
    peer=st.sampled_from(["10.0.0.1", ME, "", "testclient", "fe80::1%eth0", "::ffff:10.0.0.1", None]),
    answer=st.lists(
        st.tuples(st.sampled_from([b"content-type", b"etag", b"content-encoding", b"content-security-policy"]), BYTES)
    ),
    html=st.booleans(),
)
@examples(150)
def test_no_bytes_in_a_request_or_an_answer_break_anything(path, query, headers, method, peer, answer, html):
    forwarded = "[identity]\ntrusted_proxies = ['10.0.0.0/8']\nforwarded_header = 'forwarded'\naccount_cookie = 'sid'\n"
    client = Client(Application(headers=[HTML, *answer] if html else answer), forwarded + "account_header = 'x-user'")
    found = client.get(path + b"?" + query if query else path, headers=headers, method=method, peer=peer)
    assert found.status in {200, 404}
    assert len(client.entries) == 1
    client.get(headers=headers, method=method, peer=peer, path="\ud800/x", raw_path=b"")


def test_very_long_things():
    client = Client()
    assert client.get("/" + "a" * 65_536 + "?" + "b" * 65_536).status == 200
    assert client.get("/~" + "A" * 65_536).status == 404
    assert client.get("/%7E" + "%41" * 20_000).status == 404
    assert client.get("/?~=" + "AQ" * 32_768).status == 200
    assert client.get("/?" + "~=&" * 20_000).status == 200
    flood = [(b"x-%d" % n, b"y" * 50) for n in range(5_000)]
    assert client.get(headers=flood).status == 200
    assert client.entries[0].visit.at == START

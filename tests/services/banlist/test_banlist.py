"""The ban-list client and its server: lists come by themselves, visits go up, and nobody waits for either."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import urllib.error
import urllib.request

import msgspec
import pytest

from driving import PAGE, Application, Clock
from driving_wsgi import WsgiApplication, ask, environ_for
from hedgerow.client import AsgiClient, Client, WsgiClient
from hedgerow.core.decision import Block, Evidence
from hedgerow.errors import HedgerowError, StoreAwayError
from hedgerow.lists.model import Listing
from hedgerow.lists.sqlite_store import SqliteLists
from hedgerow.services.banlist.change_feed import ChangeFeed
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import ListMessage, VisitMessage
from serving_clients import TOKEN, following, served, wait_for

SMALL = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 3, seconds = 60.0 }]\n"
ME, OTHER = "192.0.2.1", "198.51.100.7"
TRAP = Evidence("trap", "trap", 1.0, "It followed a link that no person can see.")


def block(key: str, until: float = 100.0, **more) -> Block:
    return Block(key, key, 0.0, until, more.pop("action", "refuse"), TRAP, **more)


def asgi_get(app, target: str = "/", peer: str = ME, headers=(), kind: str = "http") -> list[dict]:
    sent = []

    async def receive():
        return {"type": f"{kind}.connect" if kind == "websocket" else "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind, "method": "GET", "path": target, "raw_path": target.encode(), "query_string": b"",
        "headers": [(b"host", b"example.org"), *headers], "client": (peer, 1), "scheme": "http",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return sent


# ---- The local lists


def test_who_is_on_no_list_passes():
    local = LocalLists()
    assert local.check(0.0, ME).action == "pass"
    local.take([ListMessage(start=True), ListMessage(put=Listing("black", OTHER)), ListMessage(at="a-1")])
    assert local.check(0.0, ME).action == "pass"
    assert local.version == "a-1"


def test_the_most_specific_entry_counts_and_a_list_goes_before_a_block():
    local = LocalLists()
    local.take([
        ListMessage(put=Listing("black", "192.0.2.0/24")), ListMessage(put=Listing("white", ME)),
        ListMessage(put=Listing("black", "account:eve")), ListMessage(put=Listing("black", "agent:*Bot*")),
        ListMessage(block=block(ME)), ListMessage(at="a-1"),
    ])  # fmt: skip
    assert local.check(0.0, ME).action == "pass"
    assert local.check(0.0, "192.0.2.9").code == "list-black"
    assert local.check(0.0, OTHER, account="eve").action == "refuse"
    assert local.check(0.0, OTHER, user_agent="BadBot/1").action == "refuse"
    assert local.check(0.0, OTHER).action == "pass"


def test_blocks_of_visitors_of_everyone_at_an_address_and_of_networks():
    local = LocalLists()
    local.take([
        ListMessage(block=block("2001:db8::/64")), ListMessage(block=block("account:eve")),
        ListMessage(block=block(f"{OTHER}/*")),
        ListMessage(block=block("203.0.113.0/24")), ListMessage(block=block("2001:db8:1::/64/*")),
        ListMessage(block=block("2001:db8:2::/48")), ListMessage(at="a-1"),
    ])  # fmt: skip
    assert local.check(0.0, "2001:db8::7").code == "trap"
    assert local.check(0.0, ME, account="eve").code == "trap"
    assert local.check(0.0, ME).action == "pass"
    assert local.check(0.0, OTHER, account="ann").code == "trap"
    assert local.check(0.0, "203.0.113.77").code == "trap"
    assert local.check(100.0, "203.0.113.77").action == "pass", "it has ended"
    assert local.check(0.0, "2001:db8:1::7", account="ann").code == "trap"
    assert local.check(0.0, "2001:DB8:2:9:0::7").code == "trap"
    assert local.check(0.0, "2001:db8:1:1::7").action == "pass"
    assert local.check(0.0, "host:name").action == "pass", "no address at all"


def test_what_is_found_counts_until_it_ends_or_something_changes():
    local = LocalLists()
    local.take([
        ListMessage(put=Listing("white", ME, until=10.0)),
        ListMessage(put=Listing("black", "192.0.2.0/24", until=20.0)),
        ListMessage(block=block(ME, 30.0)), ListMessage(at="a-1"),
    ])  # fmt: skip
    codes = [local.check(at, ME).code for at in (1.0, 2.0, 10.0, 11.0, 20.0, 21.0, 30.0, 31.0)]
    assert codes == ["list-white"] * 2 + ["list-black"] * 2 + ["trap"] * 2 + [""] * 2
    local.take([ListMessage(put=Listing("black", ME)), ListMessage(at="a-2")])
    assert local.check(32.0, ME).code == "list-black"
    local.take([ListMessage(drop=("black", ME)), ListMessage(at="a-3")])
    assert local.check(32.0, ME).action == "pass"


def test_everything_anew_takes_the_place_of_everything():
    local = LocalLists()
    local.take([ListMessage(put=Listing("black", ME)), ListMessage(block=block(OTHER)), ListMessage(at="a-1")])
    local.take([ListMessage(start=True), ListMessage(put=Listing("black", "192.0.2.5")), ListMessage(at="b-1")])
    assert [local.check(0.0, address).action for address in (ME, OTHER, "192.0.2.5")] == ["pass", "pass", "refuse"]


# ---- What has changed


def test_a_feed_tells_changes_by_version_and_everything_where_they_are_not_known(tmp_path):
    store, blocks = SqliteLists(tmp_path / "lists.sqlite"), []
    store.put([Listing("black", ME)])
    feed = ChangeFeed(store, lambda _: list(blocks), Clock(10.0))
    feed.start()
    try:
        first, lines = feed.snapshot()
        assert [json.loads(line) for line in lines][1]["put"]["subject"] == ME
        assert feed.since(first) == (first, [])
        blocks.append(block(OTHER))
        store.remove("black", ME)
        wait_for("two changes", lambda: len(feed.since(first)[1]) == 2)
        told = [json.loads(line) for line in feed.since(first)[1]]
        assert told[0] == {"drop": ["black", ME]}
        assert told[1]["block"]["key"] == OTHER
        newest = feed.since(first)[0]
        blocks.clear()
        wait_for("the block's end", lambda: feed.since(newest)[1])
        assert json.loads(feed.since(newest)[1][0]) == {"free": OTHER}
        for unknown in ("", "other-0", "x", first + "9"):
            assert feed.since(unknown) is None
    finally:
        feed.close()


def test_a_feed_that_starts_while_its_store_is_away_tells_nothing_until_it_is_back(tmp_path, monkeypatch):
    store = SqliteLists(tmp_path / "lists.sqlite")
    store.put([Listing("black", ME)])
    away, follow = [True], store.follow

    def follow_or_not():
        if away:
            raise StoreAwayError("away")
        return follow()

    monkeypatch.setattr(store, "follow", follow_or_not)
    feed = ChangeFeed(store, lambda _: [block(OTHER)], Clock(10.0))
    feed.start()
    try:
        version, _ = feed.snapshot()
        assert feed.failing
        away.clear()
        wait_for("the store", lambda: feed.since(version)[1] and not feed.failing)
        # The list itself is no change: who is told everything finds it there.
        assert [json.loads(line)["block"]["key"] for line in feed.since(version)[1]] == [OTHER]
    finally:
        feed.close()


def test_a_block_that_each_visit_makes_a_little_longer_is_told_now_and_then(tmp_path):
    blocks = [block(ME, 100.0)]
    feed = ChangeFeed(SqliteLists(tmp_path / "lists.sqlite"), lambda _: blocks, Clock(10.0))
    feed._update()
    for until, told in ((101.0, 1), (109.0, 1), (111.0, 2), (50.0, 3)):
        blocks[0] = block(ME, until)
        feed._update()
        assert feed._number == told
    feed.close()


# ---- Both sides


def test_lists_come_at_first_contact_and_a_change_within_two_seconds(tmp_path):
    with served(tmp_path) as service:
        service.store.put([Listing("black", ME)])
        with following(service) as client:
            wait_for("the entry", lambda: client.local.check(time.time(), ME).action == "refuse")
            begun = time.monotonic()
            service.store.put([Listing("black", OTHER)])
            wait_for("the change", lambda: client.local.check(time.time(), OTHER).action == "refuse")
            logging.getLogger("tests").info("a change took %.2f s", time.monotonic() - begun)
            service.store.remove("black", ME)
            wait_for("the removal", lambda: client.local.check(time.time(), ME).action == "pass")


def test_a_crawler_is_caught_by_the_visits_that_are_sent_and_kept_out_by_the_client(tmp_path):
    with served(tmp_path, SMALL) as service, following(service) as client:
        app = AsgiClient(Application(), client)
        for n in range(4):
            assert asgi_get(app, f"/{n}")[0]["status"] == 200
        wait_for("the block", lambda: client.local.check(time.time(), ME).action == "refuse")
        refused = asgi_get(app, "/5", headers=[(b"accept", b"text/html")])
        assert refused[0]["status"] == 429
        told = dict(refused[0]["headers"])
        assert told[b"hedgerow-decision"].startswith(b"refuse; code=density-visitor; ref=")
        assert told[b"cache-control"] == b"no-store"
        assert asgi_get(app, peer=OTHER)[0]["status"] == 200
        wait_for("all visits", lambda: len(service.entries) == 6)
        assert [entry.status for entry in service.entries] == [200] * 4 + [429, 200]
        service.site.stores.state.forgive(ME)
        wait_for("forgiveness", lambda: client.local.check(time.time(), ME).action == "pass")


def test_under_wsgi_the_same(tmp_path):
    with served(tmp_path, SMALL) as service, following(service) as client:
        app = WsgiClient(WsgiApplication(), client)
        for n in range(4):
            answer = ask(app, environ_for(f"/{n}", ME, "GET", {}, b""))
            assert (answer.status, answer.body) == (200, PAGE)
        wait_for("the block", lambda: client.local.check(time.time(), ME).action == "refuse")
        assert ask(app, environ_for("/", ME, "GET", {}, b"")).status == 429
        assert ask(app, environ_for("/", OTHER, "GET", {}, b"")).status == 200
        wait_for("all visits", lambda: len(service.entries) == 6)
        assert service.entries[0].visit.host == "example.org"


def test_a_websocket_of_who_is_kept_out_is_closed(tmp_path):
    with served(tmp_path) as service:
        service.store.put([Listing("black", ME)])
        with following(service) as client:
            sent = asgi_get(AsgiClient(Application(), client), kind="websocket")
            assert sent == [{"type": "websocket.close", "code": 1008}]


def test_an_image_that_was_answered_with_a_page_counts_as_one(tmp_path):
    with served(tmp_path) as service, following(service) as client:
        app = AsgiClient(Application(), client)
        asgi_get(app, "/a.png", headers=[(b"sec-fetch-dest", b"image")])
        plain = AsgiClient(Application(b"{}", headers=[(b"content-type", b"application/json")]), client)
        asgi_get(plain, "/data")
        wait_for("both visits", lambda: len(service.entries) == 2)
        assert [entry.visit.kind for entry in service.entries] == ["page", "asset"]


def test_secrets_and_other_cookies_stay_at_the_site_and_the_address_is_told_apart_there(tmp_path):
    text = "[identity]\naccount_cookie = 'sid'\n"
    with (
        served(tmp_path, text) as service,
        following(service, trusted_proxies=["10.0.0.0/8"], account_cookie="sid") as client,
    ):
        taken = []
        add, client.link.add = client.link.add, lambda seen: (taken.append(seen), add(seen))
        headers = [
            (b"authorization", b"Basic c2VjcmV0"), (b"x-forwarded-for", OTHER.encode()),
            (b"cookie", b"theme=dark; sid=secret; cart=7"), (b"user-agent", b"Mozilla/5.0"),
        ]  # fmt: skip
        asgi_get(AsgiClient(Application(), client), peer="10.0.0.1", headers=headers)
        names = dict(taken[0].headers)
        assert names == {"host": "example.org", "cookie": "sid=secret", "user-agent": "Mozilla/5.0"}
        wait_for("the visit", lambda: service.entries)
        visit = service.entries[0].visit
        assert visit.address == OTHER
        assert visit.visitor == f"account:{visit.account}" == f"account:{taken[0].account}"


def test_a_broken_application_is_a_500(tmp_path):
    def broken(*_):
        raise LookupError("broken")

    with served(tmp_path) as service, following(service) as client:
        with pytest.raises(LookupError):
            WsgiClient(broken, client)(environ_for("/", ME, "GET", {}, b""), lambda *_: None)
        wait_for("the visit", lambda: service.entries)
        assert service.entries[0].status == 500


def test_in_observe_mode_nobody_is_refused(tmp_path):
    with served(tmp_path) as service:
        service.store.put([Listing("black", ME)])
        with following(service, observe=True) as client:
            assert asgi_get(AsgiClient(Application(), client))[0]["status"] == 200


def test_a_server_that_observes_gives_clients_nothing_to_enforce(tmp_path):
    with served(tmp_path) as service:
        service.store.put([Listing("black", ME), Listing("white", OTHER)])
        now = time.time()
        block = Block("192.0.2.77", "192.0.2.77", now, now + 600, "refuse", Evidence("trap", "trap", 1.0, "Why."))
        service.site.stores.state.commit(block)
        observing = msgspec.structs.replace(service.site.app.settings, observe=True)
        with following(service) as client:
            wait_for("the block", lambda: len(client.local) == 3)
            service.site.reload(observing)
            wait_for("the end of enforcing", lambda: len(client.local) == 1)
            assert asgi_get(AsgiClient(Application(), client))[0]["status"] == 200
            service.site.stores.state.commit(block)
            service.store.put([Listing("black", "192.0.2.78"), Listing("white", "192.0.2.79")])
            wait_for("a white entry", lambda: len(client.local) == 2)
            service.site.reload(msgspec.structs.replace(observing, observe=False))
            wait_for("enforcing", lambda: len(client.local) == 5)
            assert asgi_get(AsgiClient(Application(), client))[0]["status"] == 403


def test_the_server_may_be_away_lists_stay_and_the_newest_visits_are_kept(tmp_path):
    """Five fit into the queue: of twelve made while the server is away the last five arrive, and seven are counted."""
    with served(tmp_path) as service:
        service.store.put([Listing("black", ME)])
        with following(service, queue=5) as client:
            app = AsgiClient(Application(), client)
            before = client.local.version
            service.stop()
            for n in range(12):
                assert asgi_get(app, f"/{n}", peer=OTHER)[0]["status"] == 200
            assert asgi_get(app)[0]["status"] == 403
            wait_for("the drops", lambda: client.link.dropped == 8)
            service.start()
            wait_for("what was kept", lambda: len(service.entries) == 5)
            assert [entry.visit.target for entry in service.entries] == ["/8", "/9", "/10", "/11", "/"]
            service.store.put([Listing("black", OTHER)])
            wait_for("the lists go on", lambda: client.local.check(time.time(), OTHER).action == "refuse")
            assert client.local.version.rpartition("-")[0] != before.rpartition("-")[0], "another run, another name"
            assert client.link.dropped == 8


def test_fewer_visits_than_the_queue_holds_all_arrive_after_an_outage(tmp_path):
    with served(tmp_path) as service, following(service) as client:
        app = AsgiClient(Application(), client)
        service.stop()
        for n in range(3):
            asgi_get(app, f"/{n}", peer=OTHER)
        wait_for("a failed attempt", lambda: "visits" in client.link._failing)
        service.start()
        wait_for("all visits", lambda: len(service.entries) == 3 or client.link.dropped)
        assert [entry.visit.target for entry in service.entries] == ["/0", "/1", "/2"]
        assert client.link.dropped == 0


def test_a_line_that_breaks_goes_on_from_its_version(tmp_path):
    with served(tmp_path) as service, following(service) as client:
        service.store.put([Listing("black", ME)])
        wait_for("the entry", lambda: client.local.check(time.time(), ME).action == "refuse")
        starts = []
        take = client.local.take

        def taking(lines):
            starts.extend(line for line in lines if line.start)
            take(lines)

        client.local.take = taking
        client.link._following.sock.shutdown(2)
        service.store.put([Listing("black", OTHER)])
        wait_for("the change", lambda: client.local.check(time.time(), OTHER).action == "refuse")
        assert not starts


@pytest.mark.parametrize("token", ["", "wrong-token-of-it", TOKEN + "x"])
def test_without_its_token_a_client_gets_nothing(tmp_path, token):
    with served(tmp_path) as service:
        for path, body in (("/client/lists", None), ("/client/visits", b"[]")):
            request = urllib.request.Request(
                service.url + path, data=body, headers={"authorization": f"Bearer {token}"}
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=120)
            refused.value.close()
            assert refused.value.code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b'[{"at": 1}]', 400), (b"[" + b",".join([b'[1,"","GET","/","http",[]]'] * 501) + b"]", 413)],
)
def test_what_is_no_batch_is_not_taken(tmp_path, body, status):
    with served(tmp_path) as service:
        request = urllib.request.Request(
            service.url + "/client/visits", data=body, headers={"authorization": f"Bearer {TOKEN}"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=120)
        refused.value.close()
        assert refused.value.code == status
        assert not service.entries


def test_a_client_with_a_wrong_clock_neither_lives_in_the_future_nor_long_ago(tmp_path):
    with served(tmp_path) as service, following(service) as client:
        for at in (0.0, time.time() + 9999):
            client.link.add(VisitMessage(at, ME, "GET", "/", "http", []))
        wait_for("both", lambda: len(service.entries) == 2)
        assert all(abs(entry.visit.at - time.time()) < 700 for entry in service.entries)


def test_many_threads_leave_visits_and_none_is_lost(tmp_path):
    with served(tmp_path) as service, following(service) as client:
        app = WsgiClient(WsgiApplication(), client)

        def visit(n: int) -> None:
            for m in range(50):
                ask(app, environ_for(f"/{m}", f"10.1.{n}.{m}", "GET", {}, b""))

        threads = [threading.Thread(target=visit, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_for("all visits", lambda: client.link.sent == 800)
        assert len(service.entries) == 800
        assert client.link.dropped == 0


@pytest.mark.parametrize("address", ["", "hedgerow.example", "ftp://x", "http://", "http://x/path"])
def test_an_address_that_is_none_is_told_at_once(address):
    with pytest.raises(HedgerowError, match="is not the address of a server"):
        Client(address, TOKEN)

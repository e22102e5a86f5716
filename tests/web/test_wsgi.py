"""The WSGI middleware: the same answers as under ASGI, in pieces as they come, and exact under many threads."""

from __future__ import annotations

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

from challenge.solver import answers_of
from driving import OFF, PAGE, Client, marked_links_in, settings, traps_in, without_bait
from driving_wsgi import WsgiApplication, WsgiClient, ask, environ_for
from hedgerow.core.gate import run_now
from hedgerow.errors import SettingsError
from hedgerow.state.memory.state import MemoryState
from hedgerow.wsgi import Hedgerow

SMALL = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 100, seconds = 60.0, of = 'requests' }]\n"
BROWSER = {
    "accept": "text/html,*/*;q=0.8",
    "accept-language": "en",
    "accept-encoding": "gzip",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
    "sec-fetch-site": "none",
}
CHALLENGED = "[policy]\nsuspect_at = 0.005\n[challenge]\nstore = 'memory'\ndifficulty = 50\nhardest = 100\n"


def test_a_page_is_the_same_as_under_asgi():
    ours, theirs = WsgiClient().get(headers=BROWSER), Client().get(headers=BROWSER)
    # Bait is drawn anew for each page.
    assert without_bait(ours.body) == without_bait(theirs.body)
    assert ours.status == theirs.status == 200
    told = [(name, value) for name, value in ours.headers if name != b"set-cookie"]
    assert told == [(name, value) for name, value in theirs.headers if name not in {b"set-cookie", b"content-length"}]


def test_a_page_whose_length_is_told_is_one_piece_with_its_new_length():
    headers = [(b"content-type", b"text/html"), (b"content-length", str(len(PAGE)).encode())]
    answer = WsgiClient(WsgiApplication(PAGE, headers=headers)).get()
    assert answer.header("content-length") == str(len(answer.body)).encode()
    assert len(answer.body) > len(PAGE)


def test_a_trap_ends_it_and_the_application_sees_nothing_of_markers():
    client = WsgiClient()
    start = client.get(headers=BROWSER)
    assert client.get(marked_links_in(start.body)[0], headers=BROWSER).status == 200
    seen = client.app.environs[-1]
    assert (seen["PATH_INFO"], seen["RAW_URI"], seen["QUERY_STRING"]) == ("/one", "/one", "")
    assert seen["hedgerow"]["visit"].marker.kind == "page"
    assert client.get(traps_in(start.body)[0]).status == 403
    refused = client.get(headers=BROWSER)
    assert refused.status == 403
    assert refused.header("hedgerow-decision").startswith(b"refuse; code=trap; ref=")
    assert len(client.app.environs) == client.app.closed == 2


def test_our_cookies_and_etags_stay_ours():
    client = WsgiClient()
    cookie = client.get(headers=BROWSER).header("set-cookie").partition(b";")[0].decode()
    client.get(headers={"cookie": f"{cookie}; sid=1", "if-none-match": 'W/"a-hs"'})
    seen = client.app.environs[-1]
    assert (seen["HTTP_COOKIE"], seen["HTTP_IF_NONE_MATCH"]) == ("sid=1", '"a"')


def test_an_application_below_a_path_keeps_it():
    client = WsgiClient(text=OFF)
    environ = environ_for("/blog/caf%C3%A9?x=1", "192.0.2.1", "GET", {}, b"")
    environ |= {"SCRIPT_NAME": "/blog", "PATH_INFO": environ["PATH_INFO"].removeprefix("/blog")}
    ask(client.hedgerow, environ)
    seen = client.app.environs[-1]
    assert (seen["SCRIPT_NAME"], seen["PATH_INFO"], seen["QUERY_STRING"]) == ("/blog", "/caf\xc3\xa9", "x=1")
    assert client.entries[-1].visit.target == "/blog/caf%C3%A9?x=1"


def test_a_path_that_somebody_changed_on_the_way_counts_as_it_is_now():
    client = WsgiClient(text=OFF)
    ask(client.hedgerow, environ_for("/a b", "192.0.2.1", "GET", {}, b"") | {"RAW_URI": "/something/else"})
    assert client.entries[-1].visit.target == "/a%20b"


def test_what_the_application_streams_is_streamed():
    """The second piece is not made before the first is out."""
    made = []

    def pieces():
        for number in range(3):
            made.append(number)
            yield b"%d" % number

    app = WsgiApplication(headers=[(b"content-type", b"text/plain")], react=lambda _: {"chunks": pieces()})
    client = WsgiClient(app)
    said = []
    result = client.hedgerow(environ_for("/x", "192.0.2.1", "GET", {}, b""), lambda *start: said.append(start))
    body = iter(result)
    assert (next(body), made) == (b"0", [0])
    assert (next(body), made) == (b"1", [0, 1])
    result.close()
    assert app.closed == 1
    assert client.entries[-1].status == 200
    assert made == [0, 1]


def test_what_is_written_the_old_way_comes_first():
    def app(_, start_response):
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"first, ")
        return [b"then"]

    assert WsgiClient(app).get("/x.txt").body == b"first, then"


def test_an_application_that_breaks_breaks_for_its_server_and_is_written_down():
    def app(*_):
        raise LookupError("broken")

    client = WsgiClient(app)
    with pytest.raises(LookupError):
        client.get()
    assert client.entries[-1].status == 500
    assert run_now(client.site.app.gate.decide(client.entries[-1].visit)).action == "pass"


def test_an_application_may_think_better_of_its_answer_until_it_is_out():
    def app(_, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        fault = LookupError("broken")
        start_response("500 Broken", [("Content-Type", "text/plain")], (LookupError, fault, None))
        return [b"sorry"]

    answer = WsgiClient(app).get("/x.txt")
    assert (answer.status, answer.body) == (500, b"sorry")


def test_an_application_that_never_begins_is_told_so():
    client = WsgiClient(lambda *_: [b"x"])
    with pytest.raises(RuntimeError, match="start_response"):
        client.hedgerow(environ_for("/", "192.0.2.1", "GET", {}, b""), lambda *_: None)


def test_a_form_that_was_challenged_is_sent_on_when_the_challenge_is_solved():
    """A POST by a suspect: its body is read in the application's place, and comes back in the page."""
    client = WsgiClient(text=CHALLENGED)
    client.get("/?~=" + "A" * 23 + ".AAAA", headers={**BROWSER, "sec-fetch-site": "same-origin"})
    sent = {**BROWSER, "origin": "http://example.org", "content-type": "application/x-www-form-urlencoded",
            "sec-fetch-site": "same-origin"}  # fmt: skip
    asked = client.get("/one", method="POST", headers=sent, body=b"text=hello")
    assert asked.status == 403
    assert asked.header("hedgerow-decision").startswith(b"challenge; code=")
    client.clock.now += 1.0
    body = urlencode(answers_of(asked.body)).encode()
    solved = client.get("/.hedgerow/answer", method="POST", headers=sent, body=body)
    assert b'value="hello"' in solved.body
    assert any(b"hedgerow" in value for name, value in solved.headers if name == b"set-cookie")


def test_a_crawler_is_detained_piece_by_piece_and_its_place_is_free_when_it_leaves():
    client = WsgiClient(text="[traps]\nresponse = 'detain'\n[detain]\nseconds = 0.2\n")
    trap = traps_in(client.get().body)[0]
    client.get(trap)
    result = client.hedgerow(environ_for("/two", "192.0.2.1", "GET", {}, b""), lambda *_: None)
    body = iter(result)
    assert next(body)
    assert client.site.app.tarpit.inside == 1
    result.close()
    assert client.site.app.tarpit.inside == 0
    whole = client.get("/two")
    assert whole.status == 200
    assert b"</html>" in whole.body


def test_dropped_responses_that_are_collected_during_a_request_do_not_stop_the_site():
    """
    Some servers and test clients drop a response without `close()`. The garbage collector then finds it at any moment:
    here while a request of the same thread is identified, and so holds the lock.
    """
    collects = threading.Event()

    def collect(_: Any) -> None:
        if collects.is_set():
            gc.collect()

    client = WsgiClient(WsgiApplication(b"1", b"2", headers=[(b"content-type", b"text/plain")]), account_of=collect)
    gc.disable()
    try:
        for n in range(3):
            result = client.hedgerow(environ_for(f"/{n}.txt", "192.0.2.1", "GET", {}, b""), lambda *_: None)
            # A cycle, so that only the garbage collector ends it.
            result.itself = result
        del result
        collects.set()
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(client.get("/next.txt").status), daemon=True)
        thread.start()
        thread.join(10)
        assert statuses == [200]
    finally:
        gc.enable()
    assert sorted(entry.visit.target for entry in client.entries) == ["/0.txt", "/1.txt", "/2.txt", "/next.txt"]
    assert {entry.status for entry in client.entries} == {200}


def test_sixteen_threads_count_exactly():
    """A hundred are free: of 1,600 by sixteen threads at once a hundred pass, and every one is written down."""
    client = WsgiClient(text=OFF + SMALL)
    begin = threading.Barrier(16)

    def crawl(_: int) -> list[int]:
        begin.wait(120)
        return [client.get("/").status for _ in range(100)]

    with ThreadPoolExecutor(16) as threads:
        statuses = [status for each in threads.map(crawl, range(16)) for status in each]
    assert (statuses.count(200), statuses.count(429)) == (100, 1500)
    assert len(client.entries) == 1600
    assert len(client.app.environs) == client.app.closed == 100
    assert client.site.counters.decided["refuse"] == 1500


def test_while_one_application_thinks_others_are_answered():
    """The lock is not held while an application works."""
    inside, go_on = threading.Event(), threading.Event()

    def react(environ):
        if environ["PATH_INFO"] == "/slow":
            inside.set()
            assert go_on.wait(120)

    client = WsgiClient(WsgiApplication(react=react), OFF)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(client.get, "/slow")
        assert inside.wait(120)
        assert client.get("/quick", peer="192.0.2.2").status == 200
        assert not slow.done()
        go_on.set()
        assert slow.result().status == 200


def test_it_opens_at_the_first_request_in_the_process_that_answers(tmp_path, monkeypatch):
    """A server may load the application, divide into processes, and only then ask: each opens what it needs itself."""
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))
    app = Hedgerow(WsgiApplication(), settings=settings(f"directory = '{tmp_path}'"))
    assert not list(tmp_path.iterdir())
    assert ask(app, environ_for("/", "192.0.2.1", "GET", {}, b"")).status == 200
    first = app.site
    assert isinstance(first.stores.state, MemoryState)
    assert app.site is first
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    second = app.site
    assert second is not first
    app.close()
    first.close()


def test_wrong_settings_stop_the_start(tmp_path):
    (tmp_path / "hedgerow.toml").write_text("[density]\nblock_for = -1\n")
    with pytest.raises(SettingsError):
        Hedgerow(WsgiApplication(), config=tmp_path / "hedgerow.toml")


def test_the_robots_txt_is_learned_beside_the_visit_of_a_bot():
    text = "[bots]\ndns = false\n"
    robots = {
        "status": 200,
        "headers": [(b"content-type", b"text/plain")],
        "chunks": (b"User-agent: *\nDisallow: /x\n",),
    }
    app = WsgiApplication(react=lambda environ: robots if environ["PATH_INFO"] == "/robots.txt" else None)
    client = WsgiClient(app, text)
    client.get(headers={"user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"})
    end = time.monotonic() + 30
    robots_compliance = client.site.app.gate.identifier.bot_verifier.robots_compliance
    while not any(environ["PATH_INFO"] == "/robots.txt" for environ in app.environs):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert not robots_compliance.due("example.org", client.clock.now)

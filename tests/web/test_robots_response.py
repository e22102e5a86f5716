"""The site's robots.txt: kept, and our links disallowed in it; made up where there is none."""

from __future__ import annotations

import pytest

from driving import Application, Client


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
    assert answer.body == b"User-agent: *\nDisallow: /~\nDisallow: /private\n"
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


def test_marked_links_are_disallowed_where_there_are_no_traps():
    client = Client(Application(status=404), "[traps]\nenabled = false")
    assert client.get("/robots.txt").body == b"User-agent: *\nDisallow: /~\n"


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

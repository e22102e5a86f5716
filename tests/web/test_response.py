"""Answers on their way out: what their headers must say, and what is not touched."""

from __future__ import annotations

import asyncio
import gzip
import logging

import pytest

from driving import HTML, OFF, PAGE, Application, traps_in, without_bait
from driving import Client as AnyClient
from hedgerow.markers.html.content_coding import BrokenCoding

PNG = (b"content-type", b"image/png")


def Client(app: object = None, text: str = "") -> AnyClient:  # noqa: N802 - stands for it
    """A client of a site whose links are not marked: these tests are about bait alone."""
    return AnyClient(app, OFF + text)


def pairs(**headers: bytes) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value) for name, value in headers.items()]


def test_a_whole_page_has_its_length_and_a_page_in_pieces_has_none():
    length = pairs(content_length=b"%d" % len(PAGE))
    whole = Client(Application(PAGE, headers=[HTML, *length])).get()
    assert whole.header("content-length") == b"%d" % len(whole.body)
    pieces = Client(Application(PAGE[:100], PAGE[100:], headers=[HTML, *length])).get()
    assert pieces.header("content-length") is None
    assert pieces.body == whole.body


def test_pieces_are_passed_on_as_they_come():
    answer = Client(Application(*(PAGE[n : n + 20] for n in range(0, len(PAGE), 20)))).get()
    assert len([message for message in answer.messages if message.get("body")]) > 5
    assert without_bait(answer.body) == PAGE


@pytest.mark.parametrize(
    "content_type", [b"text/plain", b"application/xhtml+xml", b"application/json", b"image/svg+xml", b""]
)
def test_what_is_not_html_is_passed_on_message_by_message(content_type):
    headers = pairs(content_type=content_type, content_length=b"9", etag=b'"x"', accept_ranges=b"bytes", digest=b"d")
    answer = Client(Application(b"<a>", b"</a>", b"<p", headers=headers)).get()
    assert answer.headers == headers
    assert [m.get("body") for m in answer.messages[1:]] == [b"<a>", b"</a>", b"<p"]


def test_a_head_has_the_headers_of_the_page_and_no_length():
    app = Application(b"", headers=[HTML, *pairs(content_length=b"500", etag=b'"x"', accept_ranges=b"bytes")])
    answer = Client(app).get(method="HEAD")
    assert answer.headers == [HTML, (b"etag", b'W/"x-hs"')]
    assert answer.body == b""


@pytest.mark.parametrize("status", [204, 205])
def test_answers_without_a_body(status):
    answer = Client(Application(b"", status=status)).get()
    assert (answer.status, answer.body) == (status, b"")


def test_error_pages_are_pages():
    answer = Client(Application(PAGE, status=404)).get()
    assert answer.status == 404
    assert traps_in(answer.body)


def test_the_etag_comes_back_to_the_application_as_its_own():
    def react(scope):
        known = dict(scope["headers"]).get(b"if-none-match", b"")
        return {"status": 304, "chunks": (b"",)} if b'"v1"' in known.split(b", ") else None

    app = Application(headers=[HTML, (b"etag", b'"v1"')], react=react)
    client = Client(app)
    etag = client.get().header("etag")
    assert etag == b'W/"v1-hs"'
    again = client.get(headers={"if-none-match": etag})
    assert again.status == 304
    assert again.header("etag") == etag
    assert app.seen("if-none-match") == b'"v1"'
    client.get(headers={"if-match": b'W/"v1-hs", "other"'})
    assert app.seen("if-match") == b'"v1", "other"'
    # Who has the page without bait, from before or as a bot, keeps it.
    assert client.get(headers={"if-none-match": b'"v1"'}).header("etag") == b'"v1"'


def test_a_304_of_an_image_keeps_its_etag():
    app = Application(b"", status=304, headers=[(b"etag", b'"v1"')])
    assert Client(app).get("/a.png", headers={"if-none-match": b'"v1"'}).header("etag") == b'"v1"'


# ---- Ranges


def ranges(content_type: bytes, body: bytes = PAGE):
    """An application that gives parts, and wants to read the request before it answers."""

    def react(scope):
        asked = dict(scope["headers"]).get(b"range")
        scope["path_params"] = {"seen": True}
        scope["root_path"] = scope.get("root_path", "") + "/mounted"
        if asked is None:
            return None
        return {
            "status": 206,
            "headers": [(b"content-type", content_type), (b"content-range", b"bytes 0-9/%d" % len(body))],
            "chunks": (body[:5], body[5:10]),
        }

    return Application(body, headers=[(b"content-type", content_type)], react=react)


def several_ranges(part_type: bytes):
    """An application that gives several parts at once, the head of the first in two pieces."""
    head = b"\r\n--x\r\nContent-Type: " + part_type + b"\r\nContent-Range: bytes 0-4/99\r\n\r\n"
    parts = (head[:20], head[20:] + PAGE[:5], b"\r\n--x--\r\n")

    def react(scope):
        headers = [(b"content-type", b"Multipart/ByteRanges; boundary=x")]
        asked = dict(scope["headers"]).get(b"range")
        return None if asked is None else {"status": 206, "headers": headers, "chunks": parts}

    return Application(PAGE, react=react)


def test_a_part_of_a_page_is_answered_with_the_whole():
    app = ranges(b"text/html")
    client = Client(app)
    answer = client.get(headers={"range": "bytes=0-9", "if-range": '"x"', "accept-language": "en"})
    assert answer.status == 200
    assert traps_in(answer.body)
    assert without_bait(answer.body) == PAGE
    assert answer.header("content-range") is None
    assert len(app.scopes) == 2
    assert app.seen("range") is app.seen("if-range") is None
    # The second time the application is asked as if for the first.
    assert app.scopes[1].get("root_path", "") == ""
    assert "path_params" not in app.scopes[1]
    assert len(client.entries) == 1


@pytest.mark.parametrize("traps", [True, False])
def test_several_parts_of_a_page_are_a_page_too(traps):
    """`Range: bytes=0-10,11-9999`: the type of the answer is not HTML, that of its parts is."""
    app = several_ranges(b"Text/HTML; charset=utf-8")
    text = f"[density]\nwindows = [{{ count = 2, seconds = 10 }}]\n[traps]\nenabled = {str(traps).lower()}"
    client = Client(app, text)
    answers = [client.get(headers={"range": "bytes=0-4,5-9", "accept-language": "en"}) for _ in range(4)]
    assert [answer.status for answer in answers] == [200 if traps else 206] * 2 + [429] * 2
    assert bool(traps_in(answers[0].body)) is traps
    assert Client(app).get("/manual.pdf", headers={"range": "bytes=0-4,5-9"}).status == 206


@pytest.mark.parametrize("traps", [True, False])
def test_several_parts_of_a_file_are_passed_on(traps):
    """Whatever its name is: a download manager asks for many parts, and none of them is a page."""
    client = Client(several_ranges(b"application/octet-stream"), f"[traps]\nenabled = {str(traps).lower()}")
    answers = [client.get("/files/disk.img", headers={"range": "bytes=0-4,5-9"}) for _ in range(60)]
    assert {(answer.status, answer.body[-14:]) for answer in answers} == {(206, b"<!DOC\r\n--x--\r\n")}
    assert {entry.visit.kind for entry in client.entries} == {"asset"}


def test_a_part_of_anything_else_is_passed_on():
    app = ranges(b"application/pdf")
    answer = Client(app).get("/manual", headers={"range": "bytes=0-9"})
    assert (answer.status, answer.body) == (206, PAGE[:10])
    assert answer.header("content-range") == b"bytes 0-9/%d" % len(PAGE)
    assert len(app.scopes) == 1


def test_a_verified_bot_may_have_parts():
    bots = "[[identity.bots]]\nname = 'a'\nnetworks = ['192.0.2.0/24']"
    assert Client(ranges(b"text/html"), bots).get(headers={"range": "bytes=0-9"}).status == 206


# ---- Untouched


@pytest.mark.parametrize(
    ("coding", "body", "reason"),
    [
        (b"compress", PAGE, "coding"),
        (b"gzip", PAGE, "broken"),
        (b"br", b"\xff" * 50, "broken"),
        (b"gzip, br", PAGE, "coding"),
    ],
)
def test_what_cannot_be_read_is_passed_on_untouched_counted_and_logged_once(coding, body, reason, caplog):
    headers = [HTML, *pairs(content_encoding=coding, content_length=b"%d" % len(body), etag=b'"x"')]
    client = Client(Application(body[:10], body[10:], headers=headers))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            answer = client.get("/odd\n\x1b")
            assert (answer.headers, answer.body) == (headers, body)
    assert client.site.counters.skipped == {reason: 3}
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_page_that_breaks_midway_cuts_the_connection():
    packed = gzip.compress(PAGE + b"".join(b"<p>%d</p>" % n for n in range(5_000)))
    app = Application(packed[:5_000], b"\xff" * 5_000, headers=[HTML, (b"content-encoding", b"gzip")])
    client = Client(app)
    with pytest.raises(BrokenCoding):
        client.get()
    assert client.entries[0].status == 200


@pytest.mark.parametrize("body", [b'{"html": "<a></a>"}', b"", b"OK\n"])
def test_what_is_no_html_is_passed_on_with_its_own_headers(body):
    headers = [HTML, *pairs(content_length=b"%d" % len(body), etag=b'"x"')]
    client = Client(Application(body, headers=headers))
    answer = client.get()
    assert (answer.headers, answer.body) == (headers, body)
    assert client.site.counters.skipped == {}


def test_a_policy_in_a_header_lets_our_style_through():
    headers = [
        HTML,
        (b"Content-Security-Policy", b"default-src 'self'"),
        *pairs(content_security_policy_report_only=b"style-src a"),
    ]
    answer = Client(Application(headers=headers)).get()
    digest = b"'sha256-"
    assert digest in answer.header("content-security-policy")
    assert digest in answer.header("content-security-policy-report-only")


def test_a_policy_in_the_page_forbids_bait():
    page = PAGE.replace(b"<title>", b"<meta http-equiv=Content-Security-Policy content=\"default-src 'self'\"><title>")
    assert Client(Application(page)).get().body == page


def test_a_page_that_its_script_takes_over_gets_bait_at_the_end_alone():
    page = PAGE.replace(b"<p>", b'<div id="__next"><p>')
    body = Client(Application(page)).get().body
    assert len(traps_in(body)) == 1
    assert body.index(traps_in(body)[0].encode()) > body.index(b"three")


# ---- What ASGI allows


def send_raw(messages, **options):
    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    return Client(app).get(**options)


def test_headers_may_be_missing_or_a_generator():
    body = {"type": "http.response.body", "body": b"x"}
    assert send_raw([{"type": "http.response.start", "status": 200}, body]).body == b"x"
    headers = (pair for pair in [HTML, (b"x", b"y")])
    answer = send_raw([{"type": "http.response.start", "status": 200, "headers": headers}, {**body, "body": PAGE}])
    assert traps_in(answer.body)
    assert answer.header("x") == b"y"
    lists = [[b"content-type", b"text/html"], [b"ETag", b'"x"']]
    answer = send_raw([{"type": "http.response.start", "status": 200, "headers": lists}, {**body, "body": PAGE}])
    assert answer.header("etag") == b'W/"x-hs"'


def test_trailers_and_hints_go_through():
    hint = {"type": "http.response.early_hint", "links": [b"</x>"]}
    start = {"type": "http.response.start", "status": 200, "headers": [HTML], "trailers": True}
    trailers = {"type": "http.response.trailers", "headers": [(b"x", b"y")]}
    body = {"type": "http.response.body", "body": PAGE}
    answer = send_raw([hint, start, body, trailers])
    assert [message["type"].rpartition(".")[2] for message in answer.messages] == [
        "early_hint",
        "start",
        "body",
        "trailers",
    ]
    assert answer.messages[1]["trailers"] is True
    assert traps_in(answer.body)


def test_an_empty_last_message_ends_a_page():
    start = {"type": "http.response.start", "status": 200, "headers": [HTML]}
    pieces = [{"type": "http.response.body", "body": piece, "more_body": True} for piece in (b"", PAGE[:3], PAGE[3:])]
    answer = send_raw([start, *pieces, {"type": "http.response.body"}])
    assert without_bait(answer.body) == PAGE
    assert len(traps_in(answer.body)) == 2


def test_many_answers_at_once_do_not_mix():
    client = Client()

    async def all_at_once():
        return await asyncio.gather(*(client.ask(f"/{n}", peer=f"192.0.2.{n}") for n in range(50)))

    links = [link for answer in asyncio.run(all_at_once()) for link in traps_in(answer.body)]
    assert len(links) == len(set(links)) == 100

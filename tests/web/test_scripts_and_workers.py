"""Clean marks and the scripts of a site: policies, service workers, and where a script's request ends."""

from __future__ import annotations

import pytest

import driving
from driving import HTML, Application
from hedgerow.markers.clean import SCRIPT_HASH
from hedgerow.markers.scripts import LINKS_ELEMENT, LINKS_HASH, WORKER_SCRIPT

CLEAN = "[marker]\nmode = 'clean'\n"
PAGE = (
    b"<!DOCTYPE html><html><head><script src=/main.js></script></head>"
    b"<body><a href='/b'>b</a> <a href='/c'>c</a></body></html>"
)
JAVASCRIPT = (b"content-type", b"text/javascript; charset=utf-8")
WORKER = b'"use strict";\nself.addEventListener("fetch", () => {}); // the end'
ASKED = {"service-worker": "script", "sec-fetch-dest": "serviceworker", "accept-encoding": "gzip, br"}


def client(body: bytes, text: str = CLEAN, **more) -> driving.Client:
    return driving.Client(Application(body, **more), text)


def test_the_sites_policy_allows_the_script_of_links():
    policy = (b"content-security-policy", b"script-src 'self'")
    answer = client(PAGE, headers=[HTML, policy]).get("/a")
    assert LINKS_ELEMENT in answer.body
    found = answer.header("content-security-policy")
    assert LINKS_HASH in found
    assert SCRIPT_HASH not in found


def test_a_sandbox_without_scripts_gets_no_script():
    policy = (b"content-security-policy", b"sandbox allow-forms")
    assert LINKS_ELEMENT not in client(PAGE, headers=[HTML, policy]).get("/a").body


def test_a_service_worker_learns_to_ignore_marks_and_keeps_its_own_text():
    length = (b"content-length", b"%d" % len(WORKER))
    one = client(WORKER, headers=[JAVASCRIPT, length, (b"etag", b'"1"')])
    answer = one.get("/worker.js", headers=ASKED)
    assert answer.body == WORKER + WORKER_SCRIPT
    assert answer.header("content-length") in {b"", None, b"%d" % len(answer.body)}
    assert answer.header("etag") == b'W/"1-hs"'
    assert b"accept-encoding" not in dict(one.app.scopes[-1]["headers"])


@pytest.mark.parametrize(
    ("text", "headers", "asked"),
    [
        ("[marker]\nmode = 'readable'\n", [JAVASCRIPT], ASKED),
        (CLEAN, [JAVASCRIPT], {}),
        (CLEAN, [(b"content-type", b"text/plain")], ASKED),
        (CLEAN, [JAVASCRIPT, (b"content-encoding", b"br")], ASKED),
    ],
    ids=["other mode", "a script of a page", "no script", "compressed all the same"],
)
def test_other_scripts_stay_as_they_are(text, headers, asked):
    assert client(WORKER, text, headers=headers).get("/worker.js", headers=asked).body == WORKER


def test_a_redirect_of_a_scripts_request_ends_at_the_plain_address():
    """A script reads where it was sent to, and shows that address."""
    one = client(b"", headers=[(b"location", b"/done?sent=1")], status=303)
    script = {"sec-fetch-dest": "empty", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    assert one.get("/send", headers=script).header("location") == b"/done?sent=1"
    person = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
    assert b"~=" in one.get("/send", headers=person).header("location")


def test_where_pages_are_closed_to_requests_without_a_mark_none_is_taken_away():
    text = CLEAN + "strict = true\n"
    answer = client(PAGE.replace(b"'/b'", b"'/'"), text, headers=[HTML]).get("/")
    assert LINKS_ELEMENT not in answer.body
    assert b"href='/'" not in answer.body
    script = {"sec-fetch-dest": "empty", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    sent = client(b"", text, headers=[(b"location", b"/done")], status=303).get("/", headers=script)
    assert b"~=" in sent.header("location")

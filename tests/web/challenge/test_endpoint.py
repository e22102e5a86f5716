"""Challenges over HTTP, in process: a gate that challenges everybody until they have solved one."""

from __future__ import annotations

import asyncio
import http.server
import json
import re
import threading
from html import unescape
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from challenge.solver import ANSWER, hidden, solve
from driving import PAGE, START, Application, Client
from hedgerow.challenge.captcha import Captcha
from hedgerow.challenge.clearance import COOKIE
from hedgerow.challenge.interfaces import TOO_MANY
from hedgerow.challenge.prices import ClearancePrice
from hedgerow.core.decision import PASS, Decision, Evidence
from hedgerow.core.visit import Visit
from hedgerow.web.challenge import endpoint as challenging
from hedgerow.web.challenge import pages as challenge_pages
from hedgerow.web.waiter import ON_LOOP

CHROME = {
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "accept-language": "en",
    "sec-fetch-dest": "document",
    "sec-fetch-mode": "navigate",
    "sec-fetch-site": "same-origin",
    "user-agent": "Mozilla/5.0 Firefox/140.0",
}
FORM = "application/x-www-form-urlencoded"
SUSPECT = Decision("challenge", (Evidence("identity", "suspect", 0.4, "Too many wrong links."),))
OFF = '[traps]\nenabled = false\n[challenge]\nstore = "memory"\ndifficulty = 50\nhardest = 100\n'
UNMARKED = '[marker]\nmode = "off"\n'
ALL = ["work", "image", "audio"]


class Told:
    """Hooks that remember."""

    def __init__(self) -> None:
        self.issued_: list[tuple[str, bool]] = []
        self.solved_: set[str] = set()
        self.kinds: list[str] = []
        self.failed_: list[str] = []

    def issued(self, visit, kind, at, *, again) -> None:
        assert at == visit.at
        self.issued_.append((kind, again))

    def needs_clearance(self, visit, decision) -> bool:
        return visit.visitor == visit.prefix or decision.owes

    async def price(self, visit) -> ClearancePrice:  # noqa: ARG002 - one shape
        return ClearancePrice()

    async def solved(self, visit, key, kind, at, *, asked=True) -> None:
        assert at == visit.at
        assert asked
        assert key.startswith("clearance:")
        self.solved_ |= {visit.visitor, key}
        self.kinds.append(kind)

    def failed(self, visit, failure, kind, at) -> None:  # noqa: ARG002 - one shape
        assert at == visit.at
        self.failed_.append(failure)


@pytest.fixture(autouse=True)
def _known_puzzles(monkeypatch):
    monkeypatch.setattr(challenging, "make_image", lambda: Captcha(ANSWER, "image/png", b"picture"))
    monkeypatch.setattr(challenging, "make_audio", lambda: Captcha("123456", "audio/wav", b"sound"))


class Suspect(Client):
    """A visitor whom the gate challenges."""

    def __init__(self, text: str = "", *, decision: Decision = SUSPECT, app: Any = None) -> None:
        self.told = Told()
        text = ("" if "[marker]" in text else UNMARKED) + OFF + text
        super().__init__(app or Application(), text, hooks=self.told)
        self.decision = decision

        async def decide(visit: Visit, _: str | None = None) -> Decision:
            return PASS if visit.visitor in self.told.solved_ else self.decision

        self.site.app.gate.decide = decide

    def window(self, target: str = "/docs/?page=2", **more: Any):
        more["headers"] = {**CHROME, **more.get("headers", {})}
        return self.get(target, **more)

    def send(self, name: str, fields: dict[str, str], **more: Any):
        headers = {"content-type": FORM, **more.pop("headers", {})}
        return self.window(
            f"/.hedgerow/{name}", method="POST", body=urlencode(fields).encode(), headers=headers, **more
        )

    def choose(self, page, kind: str, **more: Any):
        return self.send("choose", {"ticket": hidden(page.body)["ticket"], "kind": kind}, **more)

    def answer(self, page, answer: str | None = None, **more: Any):
        return self.send(
            "answer", {**hidden(page.body), "answer": solution(page) if answer is None else answer}, **more
        )


def solution(page) -> str:
    question = re.search(rb'data-question="([^"]*)"', page.body)
    if question:
        return solve(unescape(question[1].decode()))
    return ANSWER if b"<img" in page.body else "123456"


def decision_of(page) -> bytes:
    return page.header("hedgerow-decision") or b""


def test_a_window_is_shown_a_page():
    suspect = Suspect()
    page = suspect.window()
    assert page.status == 403
    assert re.fullmatch(rb"challenge; code=suspect; ref=[0-9A-F]{4}-[0-9A-F]{4}", decision_of(page))
    assert page.header("cache-control") == b"no-store"
    assert page.header("content-type") == b"text/html; charset=utf-8"
    assert b"Accept-Language" in page.header("vary")
    assert not suspect.app.scopes, "the site was asked"
    assert len(page.body) < 9_000
    assert suspect.told.issued_ == [("work", False)]
    entry = suspect.entries[-1]
    assert (entry.status, entry.decision.action) == (403, "challenge")
    assert entry.reference.encode() in page.body
    assert entry.reference.encode() in decision_of(page)


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_leads_to_where_one_wanted(kind):
    suspect = Suspect()
    page = suspect.window()
    if kind != "work":
        page = suspect.choose(page, kind)
        assert page.status == 403
    suspect.clock.now += 29
    solved = suspect.answer(page)
    assert (solved.status, solved.header("location")) == (303, b"/docs/?page=2")
    cookie = solved.header("set-cookie")
    assert cookie.startswith(COOKIE + b"=")
    assert b"; HttpOnly; SameSite=Lax" in cookie
    assert b"Secure" not in cookie
    assert suspect.told.kinds == [kind]
    assert suspect.window().body == PAGE


def test_the_cookie_is_secure_where_the_site_is():
    suspect = Suspect()
    solved = suspect.answer(suspect.window(), scheme="https")
    assert solved.header("set-cookie").endswith(b"; Secure")
    assert solved.header("set-cookie").startswith(b"__Host-" + COOKIE + b"=")
    assert suspect.window(scheme="https").body == PAGE


def test_the_clearance_is_graded_and_the_site_does_not_see_it():
    suspect = Suspect()
    cookie = suspect.answer(suspect.window()).header("set-cookie").partition(b";")[0].decode()
    suspect.window(headers={"cookie": f"a=1; {cookie}; b=2"})
    assert suspect.app.seen("cookie") == b"a=1; b=2"
    seen = []
    for headers in [
        CHROME,
        {**CHROME, "user-agent": "curl"},
        {**CHROME, "user-agent": "curl", "accept-language": "fr"},
    ]:
        raw = [(k.encode(), v.encode()) for k, v in {"host": "example.org", **headers, "cookie": cookie}.items()]
        visit = suspect.site.app.gate.identifier.visit(START, "192.0.2.1", "GET", "/", raw)
        against = tuple(sign for sign in visit.anomalies if sign.startswith("clearance"))
        seen.append((visit.visitor.partition(":")[0], against))
    assert seen == [
        ("clearance", ()), ("clearance", ("clearance-user-agent",)),
        ("192.0.2.1", ("clearance-user-agent", "clearance-language")),
    ]  # fmt: skip


def test_a_replay_gives_no_second_clearance():
    suspect = Suspect()
    page = suspect.window()
    right = solution(page)
    assert suspect.answer(page, right).status == 303
    again = suspect.answer(page, right)
    assert again.header("set-cookie") is None
    suspect.told.solved_.clear()
    once_more = suspect.answer(page, right)
    assert once_more.status == 403
    assert suspect.told.failed_ == ["spent"]


def test_a_double_click_arrives():
    """The browser shows the second answer; the first one solved it."""
    suspect = Suspect()
    page = suspect.window()
    right = solution(page)
    suspect.answer(page, right)
    assert suspect.answer(page, right).header("location") == b"/docs/?page=2"


def test_a_wrong_answer_gives_a_new_one():
    suspect = Suspect()
    page = suspect.choose(suspect.window(), "image")
    wrong = suspect.answer(page, "WRONG1")
    assert wrong.status == 403
    assert b'role="alert"' in wrong.body
    assert b"That was not right" in wrong.body
    assert hidden(wrong.body)["challenge"] != hidden(page.body)["challenge"]
    assert suspect.answer(wrong).header("location") == b"/docs/?page=2"
    assert suspect.told.failed_ == ["wrong"]
    assert suspect.told.issued_ == [("work", False), ("image", True), ("image", True)]


def test_challenges_are_counted_and_a_reload_forgets_neither_counts_nor_hooks():
    suspect = Suspect()
    page = suspect.choose(suspect.window(), "image")
    suspect.answer(suspect.answer(page, "WRONG1"))
    suspect.site.reload(suspect.site.app.settings)
    assert suspect.site.app.challenges.counted == {"issued": 3, "wrong": 1, "solved": 1}
    assert suspect.site.app.challenges.hooks is suspect.told


def test_a_late_answer_gives_a_new_one_that_waits_for_a_click():
    suspect = Suspect()
    page = suspect.window()
    assert b'data-auto="yes"' in page.body
    suspect.clock.now += 31
    late = suspect.answer(page)
    assert (late.status, suspect.told.failed_) == (403, ["expired"])
    assert b"longer than 30 seconds" in late.body
    assert b'data-auto=""' in late.body, "a browser that is too slow would go on for ever"
    assert suspect.answer(late).status == 303


def test_another_visitor_gets_nothing_of_it():
    suspect = Suspect()
    page = suspect.window()
    thief = suspect.answer(page, peer="198.51.100.9")
    assert thief.status == 403
    assert thief.header("set-cookie") is None
    assert suspect.told.failed_ == ["visitor"]


def test_an_answer_from_another_site_does_not_count():
    suspect = Suspect()
    page = suspect.window()
    for site in ("cross-site", "same-site"):
        answer = suspect.answer(page, headers={"sec-fetch-site": site})
        assert (answer.status, answer.header("set-cookie")) == (403, None)
    assert suspect.answer(page).status == 303


@pytest.mark.parametrize(
    "target", ["//elsewhere.example/", "/\\elsewhere.example", "/..//elsewhere.example", "/%5Cx.example"]
)
def test_nobody_is_sent_to_another_site(target):
    suspect = Suspect()
    solved = suspect.answer(suspect.window(target))
    assert solved.header("location") == b"/"


def test_a_parameter_does_not_change_where_one_is_sent():
    suspect = Suspect()
    page = suspect.window()
    fields = {**hidden(page.body), "answer": solution(page), "target": "//evil.example/", "next": "//evil.example/"}
    assert suspect.send("answer?next=//evil.example/", fields).header("location") == b"/docs/?page=2"


def test_a_marked_link_is_kept_as_it_was_asked_for():
    suspect = Suspect('[marker]\nmode = "opaque"\n')
    seal = suspect.site.app.tokens.of("example.org")
    from hedgerow.markers.token import visitor_digest

    token = seal.seal("page", visitor_digest("192.0.2.1"), bytes(6), b"/deep/page").decode()
    assert suspect.answer(suspect.window(f"/~{token}")).header("location") == f"/~{token}".encode()


# ---- Forms


def post(suspect, body=b"comment=Hello+%C3%A4&tag=a&tag=b%0D%0Ac", media=FORM, target="/comment?id=7", **headers):
    return suspect.window(target, method="POST", body=body, headers={"content-type": media, **headers})


def test_a_form_is_kept():
    suspect = Suspect()
    page = post(suspect)
    assert page.status == 403
    assert b"Hello" not in page.body
    onward = suspect.answer(page)
    assert onward.status == 200
    assert onward.header("cache-control") == b"no-store"
    assert onward.header("set-cookie").startswith(COOKIE)
    text = onward.body.decode()
    assert (
        '<form id="continue" method="post" action="/comment?id=7" enctype="application/x-www-form-urlencoded"' in text
    )
    assert [(k, v) for k, v in re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', text)] == [
        ("comment", "Hello ä"),
        ("tag", "a"),
        ("tag", "b&#13;&#10;c"),
    ]
    assert not suspect.app.scopes


def test_a_form_in_parts_is_kept():
    suspect = Suspect()
    body = (
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n<b>"1"</b>\r\n'
        b'--x\r\nContent-Disposition: form-data; name="f"; filename=""\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n\r\n"
        b"--x--\r\n"
    )
    onward = suspect.answer(post(suspect, body, "multipart/form-data; boundary=x"))
    assert b'enctype="multipart/form-data"' in onward.body
    assert b'name="a" value="&lt;b&gt;&quot;1&quot;&lt;/b&gt;"' in onward.body
    assert b'<input type="file" name="f" hidden>' in onward.body


@pytest.mark.parametrize(
    ("body", "media", "headers"),
    [
        (b"a=" + b"x" * 70_000, FORM, {}),
        (
            b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\nhi\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            {},
        ),
        (b"a=1", FORM, {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}),
        (b"a=1", FORM, {"sec-fetch-site": "same-site", "origin": "https://sub.example.org"}),
    ],
    ids=["too large", "a file", "another site's", "a neighbour's"],
)
def test_what_cannot_be_kept_is_said_in_words(body, media, headers):
    """A form of another site above all: sent on by us it would come with the visitor's cookies."""
    suspect = Suspect()
    page = post(suspect, body, media, referer="http://example.org/write?x=1", **headers)
    assert b"cannot be kept" in page.body
    solved = suspect.answer(page)
    assert solved.status == 200
    assert b'id="continue"' not in solved.body
    assert b"send it again" in solved.body
    assert b'<a href="/write?x=1">' in solved.body


def test_a_browser_that_says_only_its_origin():
    """Without Sec-Fetch-*: the Origin must be ours."""
    quiet = {k: v for k, v in CHROME.items() if not k.startswith("sec-")}
    for origin, kept in [("http://example.org", True), ("http://evil.example", False), ("null", False), ("", False)]:
        suspect = Suspect()
        headers = {**quiet, "content-type": FORM, **({"origin": origin} if origin else {})}
        page = suspect.get("/comment", method="POST", body=b"a=1", headers=headers)
        assert page.status == 403
        assert (b"cannot be kept" not in page.body) == kept, origin


def test_a_form_stays_with_its_visitor():
    suspect = Suspect()
    page = post(suspect)
    moved = suspect.choose(page, "image", peer="198.51.100.9")
    assert b"cannot be kept" in moved.body
    solved = suspect.answer(moved, peer="198.51.100.9")
    assert b"Hello" not in solved.body


def test_a_form_survives_wrong_and_late_answers_and_other_kinds():
    suspect = Suspect()
    page = suspect.choose(post(suspect), "image")
    page = suspect.answer(page, "WRONG1")
    suspect.clock.now += 100
    page = suspect.answer(page)
    page = suspect.choose(page, "audio")
    assert b'value="Hello' in suspect.answer(page).body


# ---- Who is no window


@pytest.mark.parametrize(
    ("target", "method", "headers", "media"),
    [
        ("/", "HEAD", CHROME, b"text/plain; charset=utf-8"),
        ("/", "GET", {"accept": ""}, b"text/plain; charset=utf-8"),
        ("/", "GET", {"accept": "*/*"}, b"text/plain; charset=utf-8"),
        ("/api", "GET", {"accept": "application/json"}, b"application/json"),
        ("/", "GET", {**CHROME, "sec-fetch-dest": "empty", "sec-fetch-mode": "cors"}, b"text/plain; charset=utf-8"),
        ("/", "GET", {**CHROME, "x-requested-with": "XMLHttpRequest"}, b"text/plain; charset=utf-8"),
        ("/feed", "GET", {"accept": "application/rss+xml, text/html"}, b"text/plain; charset=utf-8"),
        ("/logo.png", "GET", {**CHROME, "sec-fetch-dest": "image"}, b"text/plain; charset=utf-8"),
        ("/a.git/info/refs", "GET", {"accept": "*/*"}, b"text/plain; charset=utf-8"),
        ("/api", "POST", {"accept": "application/json", "content-type": "application/json"}, b"application/json"),
    ],
)
def test_never_html_for_who_is_no_window(target, method, headers, media):
    suspect = Suspect()
    answer = suspect.get(target, method=method, headers=headers)
    assert (answer.status, answer.header("content-type")) == (429, media)
    assert answer.header("retry-after") == b"60"
    assert answer.header("cache-control") == b"no-store"
    assert decision_of(answer).startswith(b"challenge; code=suspect; ref=")
    assert b"<" not in answer.body
    assert (answer.body == b"") == (method == "HEAD")
    assert not suspect.told.issued_, "who was shown none has had none"
    if media == b"application/json":
        assert json.loads(answer.body)["retry_after"] == 60


# ---- Pages


@pytest.mark.parametrize(
    ("language", "title"),
    [("en", "One moment"), ("de-CH", "Einen Moment"), ("fr", "Un instant"), ("es", "Un momento"), ("ja", "少々"),
     ("zh-CN", "请稍候"), ("nl", "One moment")],
)  # fmt: skip
def test_languages(language, title):
    page = Suspect().window(headers={"accept-language": language})
    assert title in page.body.decode()
    assert re.search(rb'<html lang="(\w+)">', page.body)[1].decode() == (language[:2] if language != "nl" else "en")


def test_all_languages_say_the_same_things():
    said = challenge_pages._words()
    for words in said.values():
        assert set(words) == set(said["en"])
        for name, text in words.items():
            assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", said["en"][name])), name


@pytest.mark.parametrize("kind", ALL)
def test_the_policy(kind):
    """Nothing from elsewhere, no script but ours, another nonce each time."""
    suspect = Suspect()
    pages = [suspect.choose(suspect.window(), kind) for _ in range(2)]
    nonces = set()
    for page in pages:
        policy = dict(rule.split(" ", 1) for rule in page.header("content-security-policy").decode().split("; "))
        assert policy["default-src"] == policy["base-uri"] == "'none'"
        assert policy["connect-src"] == policy["frame-src"] == "'none'"
        assert re.fullmatch(r"'nonce-[\w-]{22}'", policy["script-src"])
        assert "unsafe" not in str(policy)
        assert "http" not in str(policy)
        nonces.add(policy["script-src"])
        assert not re.search(rb"(?:src|href)=\"(?:https?:)?//", page.body)
    assert len(nonces) == 2


def test_only_some_kinds():
    suspect = Suspect('kinds = ["image"]\n')
    page = suspect.window()
    assert b"<img" in page.body
    assert b"Let the browser" not in page.body
    # Who asks for another gets what there is.
    assert b"<img" in suspect.choose(page, "work").body
    assert b"<img" in suspect.choose(page, "nonsense").body
    assert b"autofocus" not in page.body
    assert b"autofocus" in suspect.choose(page, "image").body


def test_a_click_where_the_settings_want_one():
    page = Suspect("auto = false\n").window()
    assert b'data-auto=""' in page.body
    assert b"Tick the box" in page.body


def test_difficulty_follows_suspicion():
    asked = []
    for weight in (0.0, 0.5, 9.0):
        evidence = (Evidence("a", "a", weight / 2, ""), Evidence("b", "b", weight / 2, ""))
        page = Suspect(decision=Decision("challenge", evidence)).window()
        asked.append(int(re.search(rb"most&quot;:(\d+)", page.body)[1]))
    assert asked == [50, 100, 100]


def test_no_puzzle_is_ready(monkeypatch):
    monkeypatch.setattr(challenging, "_PUZZLE_TIMEOUT", 0.1)

    def broken():
        raise OSError("no font")

    monkeypatch.setattr(challenging, "make_image", broken)
    suspect = Suspect()
    page = suspect.choose(suspect.window(), "image")
    assert page.status == 403
    assert b"None is ready" in page.body
    assert b'value="work"' in page.body
    again = suspect.choose(page, "work")
    assert suspect.answer(again).header("location") == b"/docs/?page=2"


def test_what_pages_load():
    suspect = Suspect()
    page = suspect.window()
    addresses = re.findall(rb'(?:src|href)="(/\.hedgerow/[^"]+)"', page.body)
    assert len(addresses) == 1
    folder = addresses[0].decode().split("/")[2]
    addresses += [f"/.hedgerow/{folder}/{name}".encode() for name in ("page.js", "solve.js")]
    size = 0
    for address in addresses:
        found = suspect.get(address.decode(), headers={"accept-encoding": "gzip"})
        assert found.status == 200
        assert b"immutable" in found.header("cache-control")
        assert found.header("content-encoding") == b"gzip"
        size += len(found.body)
        plain = suspect.get(address.decode())
        assert plain.header("content-encoding") is None
        assert suspect.get(address.decode(), method="HEAD").body == b""
    assert size < 8_000, "all scripts together"
    for name in (
        "x",
        f"{folder}/words.toml",
        f"{folder}/../words.toml",
        f"{folder}/sha256/LICENSE.txt",
        "old/challenge.js",
        "",
    ):
        assert suspect.get(f"/.hedgerow/{name}").status == 404
    assert suspect.get("/.hedgerow/answer").header("location") == b"/"
    assert suspect.get("/.hedgerow/choose", method="PUT").status == 404


def test_who_is_blocked_is_blocked_there_too():
    suspect = Suspect()
    page = suspect.window()
    suspect.decision = Decision("refuse", SUSPECT.evidence)
    assert suspect.answer(page).status == 403
    assert not suspect.told.solved_


def test_who_is_no_suspect_any_more_is_sent_on():
    suspect = Suspect()
    page = suspect.window()
    suspect.decision = PASS
    assert suspect.choose(page, "image").header("location") == b"/docs/?page=2"
    assert suspect.answer(page, "wrong").header("location") == b"/docs/?page=2"
    assert suspect.send("answer", {}).header("location") == b"/"
    assert suspect.told.failed_ == []


def test_nonsense():
    suspect = Suspect()
    for fields in (
        {},
        {"ticket": "x"},
        {"ticket": "x", "challenge": "y", "answer": "z"},
        {str(n): "" for n in range(100)},
    ):
        for name in ("answer", "choose"):
            answer = suspect.send(name, fields)
            assert answer.status == 403
            assert suspect.answer(answer).header("location") == b"/"
            suspect.told.solved_.clear()
    assert suspect.window("/.hedgerow/answer", method="POST", body=b"\xff" * 300_000).status == 403


def test_observing_changes_nothing():
    suspect = Suspect()
    decide = suspect.site.app.gate.decide
    suspect.site.reload(msgspec.structs.replace(suspect.site.app.settings, observe=True))
    suspect.site.app.gate.decide = decide
    assert suspect.window().body == PAGE


@pytest.mark.parametrize("contact", ["help@example.org", "", "https://example.org/help?a=%C3%A4"])
@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_the_page_of_who_was_asked_too_often(contact, language):
    suspect = Suspect(f'[responses]\ncontact = "{contact}"\nsite = "<Hedges>"\n')
    suspect.decision = Decision("refuse", (Evidence("identity", TOO_MANY, 1.0, "Asked too often."),))
    page = suspect.window(headers={"accept-language": language})
    assert page.status == 403
    reference = suspect.entries[-1].reference.encode()
    assert reference in page.body
    assert b"&lt;Hedges&gt;" in page.body
    nobody = challenge_pages._words()[language]["nobody"]
    assert (contact or nobody) in page.body.decode()
    assert page.header("hedgerow-decision") == b"refuse; code=too-many-challenges; ref=" + reference
    assert page.header("cache-control") == b"no-store"
    quiet = suspect.get("/", headers={"accept": "application/json"})
    assert (quiet.status, quiet.header("content-type")) == (403, b"application/json")


# ---- External providers


class Provider(http.server.ThreadingHTTPServer):
    """A stand-in for siteverify, on loopback."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.says: tuple[int, bytes] = (200, b'{"success": true}')
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                from urllib.parse import parse_qsl

                body = self.rfile.read(int(self.headers["content-length"]))
                outer.asked.append(dict(parse_qsl(body.decode())))
                status, content = outer.says
                self.send_response(status)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/siteverify"


@pytest.fixture
def provider():
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def external(name: str, url: str) -> Suspect:
    return Suspect(
        'kinds = ["external", "image"]\n'
        f'[challenge.external]\nprovider = "{name}"\nsite_key = "site&key"\nsecret = "shh"\n'
        f'verify = "{url}"\ntimeout = 1.0\n'
    )


@pytest.mark.parametrize(
    ("name", "field", "source"),
    [
        ("turnstile", "cf-turnstile-response", "https://challenges.cloudflare.com"),
        ("hcaptcha", "h-captcha-response", "https://js.hcaptcha.com"),
        ("recaptcha", "g-recaptcha-response", "https://www.google.com"),
    ],
)
def test_a_provider_confirms(provider, name, field, source):
    suspect = external(name, provider.url)
    page = suspect.window()
    assert b'data-sitekey="site&amp;key"' in page.body
    assert b"shh" not in page.body
    policy = page.header("content-security-policy").decode()
    assert source in policy
    assert "unsafe" not in policy
    others = {"cloudflare", "hcaptcha", "google"} - {source.split(".")[1]}
    assert not any(other in policy for other in others)
    solved = suspect.send("answer", {**hidden(page.body), field: "token"})
    assert solved.header("location") == b"/docs/?page=2"
    assert provider.asked == [{"secret": "shh", "response": "token", "remoteip": "192.0.2.1"}]
    assert suspect.told.kinds == ["external"]


def test_a_provider_denies(provider):
    provider.says = (200, b'{"success": false, "error-codes": ["invalid-input-response"]}')
    suspect = external("turnstile", provider.url)
    page = suspect.window()
    denied = suspect.send("answer", {**hidden(page.body), "cf-turnstile-response": "token"})
    assert (denied.status, suspect.told.failed_) == (403, ["wrong"])
    # Nor is it asked twice about one challenge, nor about an empty answer.
    suspect.send("answer", {**hidden(page.body), "cf-turnstile-response": "token"})
    suspect.send("answer", {**hidden(suspect.window().body), "cf-turnstile-response": ""})
    assert len(provider.asked) == 1
    assert suspect.told.failed_ == ["wrong", "spent", "wrong"]


@pytest.mark.parametrize(
    "says", [(500, b"{}"), (200, b"<html>"), (200, b'{"success": false, "error-codes": ["invalid-input-secret"]}')]
)
def test_an_outage_falls_back_to_another_kind(provider, says):
    provider.says = says
    suspect = external("hcaptcha", provider.url)
    page = suspect.send("answer", {**hidden(suspect.window().body), "h-captcha-response": "token"})
    assert page.status == 403
    assert b"hCaptcha cannot be reached" in page.body
    assert b"<img" in page.body
    assert "hcaptcha.com" not in page.header("content-security-policy").decode()
    assert suspect.told.failed_ == ["outage"]
    assert suspect.answer(page).header("location") == b"/docs/?page=2"


def test_a_provider_that_is_not_there():
    suspect = external("turnstile", "http://127.0.0.1:9/siteverify")
    page = suspect.send("answer", {**hidden(suspect.window().body), "cf-turnstile-response": "token"})
    assert b"<img" in page.body


def test_a_provider_that_hangs_takes_no_more_than_its_share(monkeypatch):
    suspect = external("turnstile", "http://127.0.0.1:9/siteverify")
    verify = suspect.site.app.challenges._external

    async def many():
        event = asyncio.Event()
        monkeypatch.setattr(verify, "_ask", lambda *_: event.wait())
        tasks = [asyncio.create_task(verify.confirms("a", "b", ON_LOOP)) for _ in range(20)]
        await asyncio.sleep(0.1)
        at_once = [task.result() for task in tasks if task.done()]
        event.set()
        await asyncio.gather(*tasks)
        return at_once

    assert asyncio.run(many()) == [None] * 12

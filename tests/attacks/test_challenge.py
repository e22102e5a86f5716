"""Challenges and clearances over HTTP. The protocol itself is attacked in `tests/challenge/test_attacks.py`."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from challenge.solver import answers_of, solve
from driving import Client
from hedgerow.core.state import CLEARANCE

from .browsers import CHROME, HOST, ME, OTHER, Browser, site, word

SCRIPT = {
    "accept": "*/*", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty",
    "sec-fetch-user": None, "referer": HOST + "/",
}  # fmt: skip


def task(browser: Browser, extra: str = "", **headers: str) -> dict:
    answer = browser.send("/.hedgerow/task" + extra, method="POST", headers={**SCRIPT, **headers})
    return json.loads(answer.body) if answer.status == 200 else {}


def send(browser: Browser, told: dict, **changed: str) -> bool:
    """Send the solution of a task; return whether a clearance came."""
    fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(json.dumps(told)), **changed}
    answer = browser.send("/.hedgerow/clear", method="POST", headers=SCRIPT, body=urlencode(fields).encode())
    return any(name == b"set-cookie" and b"clearance" in value for name, value in answer.headers)


@pytest.mark.parametrize("extra", ["?difficulty=1", "?most=1", "?easiest=0&hardest=1", "?price=-1"])
def test_the_client_chooses_no_difficulty(extra):
    """CVE-2025-24369: a parameter of the client set how hard the calculation is."""
    client = site()
    assert task(Browser(client), extra)["question"]["most"] == task(Browser(client, OTHER))["question"]["most"]


@pytest.mark.parametrize("name", ["ticket", "challenge"])
def test_fields_of_two_challenges_are_not_joined(name):
    """CVE-2025-68113, GHSA-6gvq-jcmp-8959: parts of the signed text were moved from one field to another."""
    browser = Browser(site())
    one, other = task(browser), task(browser)
    assert not send(browser, one, **{name: other[name]})


def test_a_solution_is_spent_once():
    """Anubis v1.22.0: one solution was exchanged for any number of passes."""
    browser = Browser(site())
    told = task(browser)
    assert send(browser, told)
    browser.cookies.clear()
    assert not send(browser, told)


def test_a_solution_is_bound_to_its_solver():
    """anubis#978, Ormandy: solved once by fast code for many clients."""
    client = site()
    told = task(Browser(client))
    assert not send(Browser(client, OTHER), told)


@pytest.mark.parametrize("address", ["198.51.100.7", "203.0.113.1", "2001:db8::1"])
def test_a_clearance_is_not_shared_across_networks(address):
    """anubis#1146, CrowdSec binds to the user agent only: the cookie works for whoever has it."""
    client = site()
    owner = Browser(client)
    owner.read("/")
    owner.read("/one")
    assert client.entries[-1].visit.visitor.startswith(CLEARANCE)
    thief = Browser(client, address, scripts=False)
    thief.cookies = dict(owner.cookies)
    thief.send("/two")
    assert client.entries[-1].visit.visitor == client.entries[-1].visit.prefix


def test_a_new_address_of_the_same_network_keeps_a_clearance():
    """The other side, anubis#1600: people change their address, and need not solve anything for that."""
    client = site()
    owner = Browser(client)
    owner.read("/")
    owner.address = "192.0.2.200"
    owner.read("/one")
    assert client.entries[-1].visit.visitor.startswith(CLEARANCE)


def test_clearances_one_after_the_other_cost_more_and_more():
    """Our own: 25 of 25 clearances from one suspect address."""
    client = site()
    pages, chosen = 0, iter(range(1000))
    for _ in range(40):
        crawler = Browser(client)
        while crawler.read(word(next(chosen))).status == 200:
            pages += 1
            if pages % 10 == 0:
                break
    assert 60 <= pages <= 200


def exhausted(client: Client) -> Browser:
    """A browser whose address has had all pages of its day."""
    browser = Browser(client, scripts=False)
    for number in range(20):
        assert browser.read(word(number)).status == 200
    return browser


@pytest.mark.parametrize(
    "headers",
    [
        CHROME,
        {"accept": "application/json"},
        {"accept": "*/*", "x-requested-with": "XMLHttpRequest"},
        {"accept": "image/*"},
    ],
)
def test_a_challenge_is_in_no_cache(headers):
    """anubis#560, #1474, #71: a CDN stored the challenge and gave it to everybody."""
    browser = exhausted(site())
    answer = browser.send("/more", headers=headers)
    assert answer.status in {403, 429}
    assert b"no-store" in (answer.header("cache-control") or b"")


@pytest.mark.parametrize(
    "headers",
    [{**SCRIPT, "accept": "application/json"}, {**SCRIPT, "x-requested-with": "XMLHttpRequest"}, SCRIPT],
)
def test_what_cannot_show_a_page_gets_no_page(headers):
    """anubis#1036, #1375, #1314: a script got the challenge as HTML, with 200."""
    browser = exhausted(site())
    for number in range(60):
        answer = browser.send(word(100 + number), headers=headers)
    assert answer.status == 429
    assert answer.header("retry-after") is not None
    assert b"<form" not in answer.body


@pytest.mark.parametrize("name", ["task", "clear", "answer", "choose", "signs"])
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "same-site", "origin": "https://evil.example.org"},
        {"sec-fetch-site": None, "sec-fetch-mode": None, "sec-fetch-dest": None, "origin": "https://evil.example"},
    ],
)
def test_another_site_neither_asks_nor_answers(name, headers):
    """Our own (CSRF): a solution of the attacker in the victim's browser would give it the attacker's clearance."""
    client = site()
    attacker, victim = Browser(client), Browser(client)
    told = task(attacker)
    fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(json.dumps(told))}
    answer = victim.send(
        f"/.hedgerow/{name}", method="POST", headers={**SCRIPT, **headers}, body=urlencode(fields).encode()
    )
    assert answer.status == 403
    assert not any(header == b"set-cookie" for header, _ in answer.headers)
    assert send(attacker, told), "and nothing is spent"


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/", "/\\evil.example", "/..//evil.example", "/%2F/evil.example", "/%5Cevil.example",
        "/javascript:alert(1)", "/x?next=javascript:alert(1)", "/\t/evil.example",
    ],
)  # fmt: skip
def test_whoever_solves_a_challenge_is_not_sent_to_another_site(target):
    """GHSA-jhjj-2g64-px7c, CVE-2025-61587, BunkerWeb 1.6.12~rc3: the redirect parameter led elsewhere."""
    browser = exhausted(site())
    page = browser.send(target)
    assert page.status == 403
    form = {"sec-fetch-site": "same-origin", "origin": HOST}
    body = urlencode({**answers_of(page.body), "next": "//evil.example/", "target": "//evil.example/"}).encode()
    solved = browser.send("/.hedgerow/answer?redir=//evil.example/", method="POST", headers=form, body=body)
    assert solved.status == 303
    location = solved.header("location")
    assert location.startswith(b"/")
    assert not location.startswith((b"//", b"/\\", b"/%2F", b"/%5C", b"/\t", b"/.."))


def test_our_cookies_are_secure_behind_a_proxy_that_speaks_tls():
    """Our own: the connection from the proxy is plain, and the cookies were as well."""
    client = site("[identity]\ntrusted_proxies = ['10.0.0.1/32']\n")
    browser = Browser(client, "10.0.0.1")
    browser.headers = {**CHROME, "x-forwarded-for": ME, "x-forwarded-proto": "https"}
    told = task(browser)
    fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(json.dumps(told))}
    answer = browser.send("/.hedgerow/clear", method="POST", headers=SCRIPT, body=urlencode(fields).encode())
    page = browser.send("/")
    cookies = [value for found in (answer, page) for name, value in found.headers if name == b"set-cookie"]
    assert len(cookies) == 2
    for cookie in cookies:
        assert cookie.startswith(b"__Host-hedgerow")
        assert cookie.endswith(b"; Secure")


def test_a_stranger_does_not_say_that_the_connection_is_tls():
    """Our own: a forged X-Forwarded-Proto would give cookies that no plain browser sends back."""
    client = site()
    browser = Browser(client, headers={**CHROME, "x-forwarded-proto": "https"})
    assert all(not value.startswith(b"__Host-") for name, value in browser.send("/").headers if name == b"set-cookie")

"""Forward-auth: who is let in gets 200 and nobody else does; only a trusted front is believed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from challenge.solver import answers_of
from driving import Client, marked_links_in, traps_in
from hedgerow.lists.model import Listing, Lists
from hedgerow.services.forward_auth import ForwardAuth

FRONT = "10.0.0.1"
TRUST = f"[identity]\ntrusted_proxies = ['{FRONT}/32']\n"
SMALL = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 3, seconds = 10.0 }]\n"
CHALLENGED = "[containment]\nenabled = true\nk1 = 1\n[challenge]\nstore = 'memory'\ndifficulty = 50\nhardest = 100\n"
ME = "192.0.2.1"
BROWSER = {
    "accept": "text/html,*/*;q=0.8", "accept-language": "en", "accept-encoding": "gzip",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none",
}  # fmt: skip


class Front(Client):
    """A server that asks."""

    def __init__(self, text: str = "", **more: Any) -> None:
        super().__init__(text=TRUST + text, **more)
        self.hedgerow = ForwardAuth(site=self.site, clock=self.clock)

    def asks(self, target: str = "/", *, path: str = "/auth", method: str = "GET", address: str = ME, **more: Any):
        headers = {
            "x-forwarded-uri": target, "x-forwarded-method": method, "x-forwarded-host": "shop.example",
            "x-forwarded-proto": "https", "x-forwarded-for": address, **more.pop("headers", {}),
        }  # fmt: skip
        return self.get(path, peer=more.pop("peer", FRONT), headers=headers, **more)


def test_who_is_let_in_gets_200_and_is_written_down_as_what_the_front_says():
    front = Front()
    answer = front.asks("/page?x=1", headers=BROWSER)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("hedgerow-decision") == b"pass"
    visit = front.entries[-1].visit
    assert (visit.address, visit.target, visit.host, visit.method) == (ME, "/page?x=1", "shop.example", "GET")
    assert front.entries[-1].status == 0


@pytest.mark.parametrize("path", ["/auth", "/auth/later", "/answer", "/envoy/x", "/.hedgerow/answer", "/x"])
def test_a_stranger_is_refused_whatever_it_asks(path):
    front = Front()
    assert front.asks(path=path, peer="198.51.100.1").status == 403
    assert front.get(path, peer=None).status == 403
    assert not front.entries


@pytest.mark.parametrize("path", ["/auth", "/auth/later"])
@pytest.mark.parametrize("missing", ["x-forwarded-uri", "x-forwarded-method"])
def test_a_front_that_does_not_say_what_was_asked_lets_nobody_in(path, missing):
    assert Front().asks(path=path, headers={missing: ""}).status == 400


def test_what_a_client_adds_to_what_the_front_says_is_not_chosen_from():
    front = Front()
    headers = [(b"x-forwarded-uri", b"/robots.txt"), (b"x-forwarded-uri", b"/page"), (b"x-forwarded-method", b"GET")]
    assert front.get("/auth", peer=FRONT, headers=headers).status == 400


def test_density_is_refused_with_its_page():
    front = Front(SMALL)
    answers = [front.asks(headers=BROWSER) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].header("retry-after") == b"3600"
    assert b"<!DOCTYPE html>" in answers[-1].body
    assert front.asks(address="198.51.100.7").status == 200


def test_the_lists_count():
    front = Front(lists=Lists([Listing("black", ME)]))
    assert front.asks().status == 403
    assert front.asks(address="192.0.2.2").status == 200


@pytest.mark.parametrize("path", ["/auth", "/envoy"])
def test_a_detained_visitor_gets_no_200(path):
    front = Front("[density]\nwindows = [{ count = 1, seconds = 10.0 }]\nresponse = 'detain'\n")

    def ask():
        return front.asks("/x", path=path) if path == "/auth" else front.asks(path="/envoy/x")

    assert ask().status == 200
    assert ask().status == 429
    assert front.entries[-1].decision.action == "detain"


def test_a_trap_or_a_changed_link_is_not_found_or_refused_and_never_200():
    front = Front()
    trap = traps_in(Client().get().body)[0]
    # It was minted for this address under this key; in this form nobody mints any.
    assert front.asks(trap, headers={"x-forwarded-host": "example.org"}).status == 403
    assert Front().asks("/~" + "A" * 60).status in {403, 404}


def test_a_marked_link_names_its_page_to_the_front():
    other = Client()
    page = other.get(headers=BROWSER).body
    answer = Front().asks(marked_links_in(page)[0], headers={**BROWSER, "x-forwarded-host": "example.org"})
    assert (answer.status, answer.header("hedgerow-target")) == (200, b"/one")


def test_later_the_front_comes_for_the_answer_once():
    front = Front(SMALL)
    for _ in range(3):
        assert front.asks(path="/auth/later").status == 200
    held = front.asks(path="/auth/later")
    assert (held.status, held.body) == (401, b"")
    reference = held.header("hedgerow-ref").decode()
    assert len(front.entries) == 3
    answer = front.get("/answer", peer=FRONT, headers={"x-hedgerow-ref": reference})
    assert answer.status == 429
    assert answer.header("hedgerow-decision").startswith(b"refuse; code=density-visitor; ref=")
    assert len(front.entries) == 4
    assert front.get("/answer", peer=FRONT, headers={"x-hedgerow-ref": reference}).status == 403
    assert front.get("/answer", peer=FRONT).status == 403


def test_answers_that_nobody_comes_for_are_bounded_and_written_down():
    front = Front(SMALL + "[serve]\npending = 5\n")
    for _ in range(20):
        front.asks(path="/auth/later")
    assert len(front.hedgerow.site.stores.held_visits.leave()) == 5
    assert len(front.entries) == 15
    assert [entry.status for entry in front.entries[3:]] == [403] * 12


@pytest.mark.parametrize("later", [False, True])
def test_a_challenge_is_shown_solved_and_then_the_visitor_is_let_in(later):
    front = Front(CHALLENGED)
    path = "/auth/later" if later else "/auth"
    front.asks(path=path, headers=BROWSER)
    page = front.asks("/page", path=path, headers=BROWSER)
    if later:
        assert page.status == 401
        page = front.get("/answer", peer=FRONT, headers={"x-hedgerow-ref": page.header("hedgerow-ref").decode()})
    assert page.status == 403
    assert page.header("hedgerow-decision").startswith(b"challenge; code=")
    front.clock.now += 1
    told = {"x-forwarded-for": ME, "x-forwarded-host": "shop.example", "x-forwarded-proto": "https"}
    form = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
    solved = front.get(
        "/.hedgerow/answer", peer=FRONT, method="POST", headers={**BROWSER, **told, **form},
        body=urlencode(answers_of(page.body)).encode(),
    )  # fmt: skip
    assert (solved.status, solved.header("location")) == (303, b"/page")
    cookie = solved.header("set-cookie")
    assert b"; Secure" in cookie
    let_in = front.asks("/page", path=path, headers={**BROWSER, "cookie": cookie.partition(b";")[0].decode()})
    assert let_in.status == 200


def test_envoy_asks_by_path_and_method():
    front = Front()
    front.asks(path="/envoy/a%20b?c=1", method="x", headers={"x-forwarded-uri": "/lie"})
    visit = front.entries[-1].visit
    assert (visit.method, visit.target) == ("GET", "/a%20b?c=1")


def test_in_observe_mode_everybody_is_let_in():
    front = Front("[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 1, seconds = 10.0 }]\n")
    front.site.reload(msgspec.structs.replace(front.site.app.settings, observe=True))
    assert [front.asks(path=path).status for path in ("/auth", "/auth/later", "/auth")] == [200] * 3
    assert front.entries[-1].decision.action == "refuse"
    assert front.entries[-1].decision.observed == "neutral"
    # Hedgerow's own paths belong to the site while nothing is changed.
    assert front.asks("/.hedgerow/answer", path="/auth").status == 200
    assert front.asks(path="/.hedgerow/answer").status == 404

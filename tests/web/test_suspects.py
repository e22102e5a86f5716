"""
From evidence to a challenge, its solution and what follows: through the whole gate, with nothing in place of anything.

The suspect is made one by links that were given to another.
"""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from driving import PAGE, Application, Client, marked_links_in
from hedgerow.challenge.captcha import Captcha
from hedgerow.core.state import CLEARANCE
from hedgerow.web.challenge import endpoint as challenging

ME, OTHER = "192.0.2.1", "198.51.100.7"
BROWSER = {
    "accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "accept-language": "en", "sec-fetch-dest": "document",
    "sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin", "user-agent": "Mozilla/5.0 Firefox/140.0",
}  # fmt: skip
SETTINGS = "[traps]\nenabled = false\n[challenge]\nstore = 'memory'\nkinds = ['image']\n"


@pytest.fixture(autouse=True)
def _known_puzzles(monkeypatch):
    monkeypatch.setattr(challenging, "make_image", lambda: Captcha("ABCDEF", "image/png", b"picture"))


class Person(Client):
    """A browser with its cookies."""

    def __init__(self, text: str = "") -> None:
        super().__init__(Application(PAGE), SETTINGS + text)
        self.cookies: dict[str, str] = {}
        self.shared = marked_links_in(self.get("/", peer=OTHER).body)[0]

    def browse(self, target: str = "/", *, method: str = "GET", body: bytes = b"", peer: str = ME, **headers: str):
        self.clock.now += 1
        cookie = {"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())} if self.cookies else {}
        answer = self.get(target, method=method, body=body, peer=peer, headers={**BROWSER, **cookie, **headers})
        for name, value in answer.headers:
            if name.lower() == b"set-cookie":
                key, _, rest = value.decode().partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return answer

    def until_challenged(self, most: int = 40, **more):
        """Use links of another until that is enough; the page with the challenge."""
        for _ in range(most):
            answer = self.browse(self.shared, **more)
            if answer.status != 200:
                return answer
        raise AssertionError("never challenged")

    def solve(self, page, answer: str = "ABCDEF", **more):
        found = re.findall(rb'<input type="hidden" name="(\w+)" value="([^"]*)">', page.body)
        fields = {name.decode(): unescape(value.decode()) for name, value in found} | {"answer": answer}
        more["content_type"] = "application/x-www-form-urlencoded"
        headers = {key.replace("_", "-"): value for key, value in more.items() if key != "peer"}
        peer = {"peer": more["peer"]} if "peer" in more else {}
        return self.browse("/.hedgerow/answer", method="POST", body=urlencode(fields).encode(), **peer, **headers)

    @property
    def last(self):
        return self.entries[-1]


def test_a_suspect_solves_a_challenge_and_is_a_person_again():
    person = Person()
    page = person.until_challenged()
    assert (page.status, person.last.decision.action) == (403, "challenge")
    # The watch may have noted something about its path by then, or not yet.
    assert person.last.decision.evidence[-1].text.startswith("Suspected for minted-for-another (11 times)")
    assert page.header("hedgerow-decision").startswith(b"challenge; code=suspect; ref=")
    solved = person.solve(page)
    assert solved.status == 303
    assert solved.header("location") == person.shared.encode()
    assert person.browse(person.shared).status == 200
    assert person.last.visit.visitor.startswith(CLEARANCE)
    assert person.last.decision.action == "pass"


def test_others_behind_the_same_address_have_solved_nothing():
    person = Person()
    person.solve(person.until_challenged())
    assert person.browse("/one").status == 200
    person.cookies.clear()
    assert person.browse("/one").status == 403


def test_the_third_challenge_of_a_day_blocks_and_says_whom_to_ask():
    person = Person("[responses]\ncontact = 'ann@example.org'\n[policy]\nsilent = 0\n")
    for _ in range(2):
        assert person.solve(person.until_challenged()).status == 303
    blocked = person.until_challenged()
    assert person.last.decision.action == "refuse"
    assert person.last.decision.code == "too-many-challenges"
    assert b"ann@example.org" in blocked.body
    assert person.browse("/").status == 403
    key = person.last.visit.visitor
    assert key.startswith(CLEARANCE)
    assert person.site.stores.state.forgive(key)
    assert person.browse("/").status == 200


def test_the_count_starts_anew_at_midnight():
    person = Person("[policy]\ntimezone = 'Europe/Berlin'\n[challenge.external]\n")
    for _ in range(3):
        assert person.solve(person.until_challenged()).status == 303
        person.clock.now += 50_000


def test_a_wrong_answer_is_held_against_the_visitor_and_another_try_is_given():
    person = Person()
    page = person.until_challenged()
    again = person.solve(page, "WRONG1")
    assert again.status == 403
    score = dict(person.site.stores.state.scores())[ME]
    assert dict(score.reasons)["challenge-wrong"] == 1
    assert person.solve(again).status == 303


def test_who_has_an_account_needs_no_cookie_to_be_a_person_again():
    person = Person("[identity]\naccount_cookie = 'sid'\n")
    person.cookies["sid"] = "ann"
    page = person.until_challenged()
    person.solve(page)
    person.cookies = {"sid": "ann"}
    assert person.browse("/one").status == 200
    assert person.last.visit.visitor.startswith("account:")


def test_a_browser_that_is_updated_stays_cleared_and_it_counts_once():
    person = Person()
    person.solve(person.until_challenged())
    for _ in range(20):
        assert person.browse("/one", **{"user-agent": "Mozilla/5.0 Firefox/141.0"}).status == 200
    key = person.last.visit.visitor
    score = dict(person.site.stores.state.scores())[key]
    assert dict(score.reasons)["clearance-user-agent"] == 1


def test_a_clearance_that_is_handed_round_is_worth_nothing():
    person = Person()
    person.solve(person.until_challenged())
    addresses = ["198.51.1.1", "198.51.2.1", "198.51.3.1", "198.51.4.1"]
    statuses = [person.browse("/one", peer=address).status for address in addresses]
    assert statuses == [200, 200, 403, 403]
    assert person.last.decision.code == "clearance-shared"
    assert person.site.app.gate.blocked == 0


def test_enumerating_is_challenged_and_reading_is_not():
    reader, crawler = Person(), Person()
    for number in range(40):
        reader.clock.now += 30
        assert reader.browse(f"/article/{number * 37 % 101}", **{"sec-fetch-site": "cross-site"}).status == 200
    statuses = [crawler.browse(f"/article/{number}", **{"sec-fetch-site": "none"}).status for number in range(40)]
    assert statuses.index(403) == 11
    assert 200 not in statuses[12:]


def test_requests_of_scripts_are_declined_without_a_page():
    person = Person()
    person.until_challenged()
    call = person.browse("/data", **{"sec-fetch-dest": "empty", "sec-fetch-mode": "cors", "accept": "application/json"})
    assert call.status == 429
    assert call.header("retry-after")
    assert call.header("content-type").startswith(b"application/json")
    assert person.browse("/logo.png", **{"sec-fetch-dest": "image", "accept": "image/*"}).status != 200


def test_containment_lets_who_solves_go_on():
    person = Contained()
    statuses = [person.browse("/").status for _ in range(6)]
    assert statuses == [200] * 5 + [403]
    assert person.solve(person.browse("/")).status == 303
    assert [person.browse("/").status for _ in range(9)] == [200] * 8 + [403]
    assert person.site.app.gate.blocked == 0


class Contained(Person):
    def __init__(self) -> None:
        super().__init__("[containment]\nenabled = true\nk1 = 5\nk2 = 8\n[policy]\nsilent = 0\n")


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_program_that_watches_a_few_pages_is_never_challenged():
    """Every twenty seconds, for a day, without a word where it comes from."""
    client = Client(Application(PAGE), SETTINGS)
    for number in range(4_000):
        client.clock.now += 20
        assert client.get(f"/status/{number % 5}/page", headers={"user-agent": "up/1"}).status == 200

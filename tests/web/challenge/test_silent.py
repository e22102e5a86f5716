"""A clearance without a challenge: the script of a page, its task, and what the clearance is good for."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest

from challenge.solver import solve
from driving import PAGE, Answer, Application, Client
from hedgerow.core.state import CLEARANCE

FAST = "[challenge]\ndifficulty = 50\nhardest = 400\n"
HEADERS = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "accept": "text/html,application/xhtml+xml,*/*;q=0.8", "accept-language": "en", "accept-encoding": "gzip",
    "sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-user": "?1",
}  # fmt: skip
SCRIPT = re.compile(
    rb'<script (?:type="module" async )?(?:data-)?src='
    rb'"(/\.hedgerow/[0-9a-f]{12}/page\.js)"(?: async)?(?: data-signs)?(?: data-urgent="\d+")?>'
)
"""The script where it has to obtain a clearance."""


def name(number: int) -> str:
    """A page whose address has no number: one number after the other would be evidence of its own."""
    return "/" + "".join("abcdefghij"[int(digit)] for digit in str(number))


class Browser:
    """One that runs the script of a page where *scripts* is true, and keeps cookies where *cookies* is."""

    def __init__(
        self, client: Client, address: str = "192.0.2.1", *, scripts: bool = True, cookies: bool = True
    ) -> None:
        self.client, self.address, self.scripts, self.keeps = client, address, scripts, cookies
        self.cookies: dict[str, str] = {}
        self.tasks = 0

    def ask(self, target: str, **options: object) -> Answer:
        headers = {
            **HEADERS,
            **({"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())} if self.cookies else {}),
        }
        answer = self.client.get(target, peer=self.address, headers=headers, **options)
        for name, value in answer.headers:
            if name == b"set-cookie" and self.keeps:
                key, _, rest = value.decode().partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return answer

    def read(self, target: str) -> Answer:
        self.client.clock.now += 5
        page = self.ask(target)
        if self.scripts and SCRIPT.search(page.body):
            self.clear()
        return page

    def clear(self) -> Answer | None:
        task = self.ask("/.hedgerow/task", method="POST")
        if task.status != 200:
            return None
        self.tasks += 1
        told = json.loads(task.body)
        answer = {
            "ticket": told["ticket"],
            "challenge": told["challenge"],
            "answer": solve(json.dumps(told)),
        }
        return self.ask("/.hedgerow/clear", method="POST", body=urlencode(answer).encode())

    @property
    def key(self) -> str:
        return self.client.entries[-1].visit.visitor


@pytest.fixture
def client() -> Client:
    return Client(Application(PAGE), FAST + "[watch]\nenabled = false\n", silent=True)


def test_the_first_page_brings_a_clearance_and_the_second_no_script(client):
    person = Browser(client)
    assert SCRIPT.search(person.read("/").body)
    assert person.tasks == 1
    second = person.read("/one")
    assert not SCRIPT.search(second.body)
    assert person.key.startswith(CLEARANCE)
    assert client.site.app.challenges.counted == {"silent": 1, "cleared": 1}
    assert [key for key, _ in client.site.stores.state.scores()] == ["clearances:192.0.2.1"], "nobody is suspected"


def test_who_has_a_clearance_gets_no_task(client):
    person = Browser(client)
    person.read("/")
    assert person.ask("/.hedgerow/task", method="POST").status == 204


def test_without_a_clearance_twenty_pages(client):
    crawler = Browser(client, scripts=False)
    statuses = [crawler.read(name(number)).status for number in range(30)]
    assert statuses == [200] * 20 + [403] * 10
    # Others are not affected, not even at the same address once they have a clearance.
    assert Browser(client, "192.0.2.2").read("/").status == 200


def test_many_people_behind_one_address_do_not_use_up_its_pages(client):
    people = [Browser(client) for _ in range(60)]
    for person in people:
        assert person.read("/").status == 200
    for number in range(8):
        for person in people:
            assert person.read(name(number)).status == 200
    assert [person.tasks for person in people] == [1] * 60


def test_a_browser_without_cookies_goes_on_for_a_price(client):
    person = Browser(client, cookies=False)
    assert [person.read(name(number)).status for number in range(40)] == [200] * 40
    assert person.tasks == 40


def test_who_drops_clearances_gets_less_than_150_pages_a_day(client):
    """It solves every calculation and no image."""
    pages = 0
    crawler = Browser(client)
    for number in range(600):
        page = crawler.read(name(number))
        pages += page.status == 200
        if number % 9 == 8:
            crawler.cookies.clear()
    assert 50 < pages < 150


def test_a_task_is_for_one_visitor_and_one_answer(client):
    person, other = Browser(client), Browser(client, "198.51.100.7")
    told = json.loads(person.ask("/.hedgerow/task", method="POST").body)
    answer = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(json.dumps(told))}
    body = urlencode(answer).encode()
    assert other.ask("/.hedgerow/clear", method="POST", body=body).header("set-cookie") is None
    assert person.ask("/.hedgerow/clear", method="POST", body=body).header("set-cookie")
    person.cookies.clear()
    assert person.ask("/.hedgerow/clear", method="POST", body=body).header("set-cookie") is None
    assert client.site.app.challenges.counted["spent"] == 1


def test_a_program_gets_pages_as_they_are_and_no_budget(client):
    for number in range(60):
        client.clock.now += 60
        page = client.get("/feed", headers={"user-agent": "curl/8.0", "accept": "*/*"})
        assert (page.status, page.body) == (200, PAGE), number


def test_switched_off():
    client = Client(Application(PAGE), FAST + "silent = false\n", silent=True)
    person = Browser(client)
    assert not SCRIPT.search(person.read("/").body)
    assert person.ask("/.hedgerow/task", method="POST").status == 204
    assert {person.read("/").status for _ in range(40)} == {200}

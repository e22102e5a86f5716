"""
Crawlers that change their address from page to page, through the whole middleware; and people who pass links on.

The crews send what a browser sends, skip hidden links, obtain no clearance and try a refused link again from elsewhere.
"""

from __future__ import annotations

import random
import re
from html import unescape
from urllib.parse import urlencode

import pytest

import driving
from challenge.solver import answers_of
from driving import Answer, Application
from hedgerow.detectors.rotating_addresses import RotatingAddressesDetector
from hedgerow.request.entry_surge import EntrySurge

from .test_innocents import CHROME, MODES, Browser

PAGES = 2_000
LINKS = 30
_LINK = re.compile(r'<a href="([^"]*)">more')
CREW = {**CHROME, "sec-fetch-site": "same-origin"}


def site_page(target: str) -> bytes:
    numbers = random.Random(target).sample(range(PAGES), LINKS)
    rows = "".join(f'<p>Some words, <a href="/page/{n}">more of them</a>.</p>\n' for n in numbers)
    return f"<!DOCTYPE html><html><head><title>{target}</title></head><body>{rows}</body></html>".encode()


class Client(driving.Client):
    def __init__(self, text: str = "") -> None:
        # Crews and people alike skip hidden links, and without text these are easy to tell.
        site = Application(react=lambda scope: {"chunks": (site_page(scope["raw_path"].decode()),)})
        super().__init__(site, text + "[traps]\ntext = false\n")

    @property
    def surge(self) -> EntrySurge:
        detectors = self.site.app.gate.engine._detectors
        found = next(one for one in detectors if isinstance(one, RotatingAddressesDetector))
        assert found.surge is not None
        return found.surge

    @property
    def codes(self) -> set[str]:
        """The codes of visits that did not pass."""
        return {entry.decision.code for entry in self.entries if entry.decision.action != "pass"}


class Crew:
    """
    Follows links, *each* requests from one address and then from the next, which is in another network.

    With *strip* it removes marks; with *jar* it keeps one cookie jar for all addresses.
    """

    def __init__(
        self, client: Client, each: int, *, order: str = "breadth", strip: bool = False, jar: bool = False,
        headers: dict[str, str] = CREW, wait: float = 0.5,
    ) -> None:  # fmt: skip
        self.client, self.each, self.order, self.strip, self.wait = client, each, order, strip, wait
        self.browser = Browser(client, "", cookies=jar, headers=headers)
        self.pages: set[str] = set()
        self.requests = 0

    def address(self) -> str:
        number = self.requests // self.each
        return f"10.{number >> 8 & 255}.{number & 255}.7"

    def run(self, requests: int) -> int:
        chance = random.Random(1)
        frontier, seen = ["/"], {"/"}
        for _ in range(requests):
            if not frontier:
                break
            at = {"breadth": 0, "depth": -1}.get(self.order, chance.randrange(len(frontier)))
            link = frontier.pop(at)
            answer = self.ask(link)
            if answer.status != 200:
                # Once more, from wherever the crew is then.
                answer = self.ask(link)
            if answer.status == 200:
                self.pages.add(link.partition("?")[0] if not link.startswith("/~") else link)
                for found in map(unescape, _LINK.findall(answer.body.decode())):
                    if (name := self.name(found)) not in seen:
                        seen.add(name)
                        frontier.append(name if self.strip else found)
        return len(self.pages)

    @staticmethod
    def name(link: str) -> str:
        return link if link.startswith("/~") else link.partition("?")[0]

    def ask(self, link: str) -> Answer:
        self.browser.address = self.address()
        self.requests += 1
        self.client.clock.now += self.wait
        return self.browser.ask(link)


@pytest.mark.parametrize("order", ["breadth", "depth", "random"])
@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("text", MODES)
def test_a_crew_gets_a_hundred_pages_at_most(text, each, order):
    assert Crew(Client(text), each, order=order).run(700) <= 100


@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("order", ["breadth", "depth", "random"])
def test_a_crew_with_one_cookie_jar_gets_a_hundred_pages_at_most(order, each):
    assert Crew(Client(), each, order=order, jar=True).run(700) <= 100


@pytest.mark.parametrize("site", ["none", "same-origin", "cross-site"])
@pytest.mark.parametrize("each", [1, 4])
def test_a_crew_without_marks_makes_the_whole_site_ask_for_a_clearance(site, each):
    client = Client()
    crew = Crew(client, each, strip=True, headers={**CHROME, "sec-fetch-site": site})
    assert crew.run(700) <= 300
    assert client.surge.is_on
    stranger = Browser(client, "192.0.2.77", cookies=False)
    assert stranger.open("/page/1").status != 200
    assert client.entries[-1].decision.code == "plain-entries"


# ---- People


QUICK = "[challenge]\ndifficulty = 50\nhardest = 100\n"


class Person(Browser):
    """A browser with JavaScript: it solves a challenge by itself and goes on to the page."""

    challenges = 0

    def see(self, link: str, **headers: str | None) -> bool:
        answer = self.open(link, **headers)
        if answer.status != 200:
            self.challenges += 1
            fields = urlencode(answers_of(answer.body)).encode()
            sent = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
            answer = self.send("/.hedgerow/answer", fields, **sent)
            assert answer.status == 303
            answer = self.open(answer.header("location").decode(), **headers)
        return answer.status == 200

    def send(self, target: str, body: bytes, **more: str) -> Answer:
        headers = {**self.headers, **{name.replace("_", "-"): value for name, value in more.items()}}
        if self._cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        answer = self.client.get(
            target, peer=self.address, headers=headers, scheme="https", method="POST", body=body
        )  # fmt: skip
        for name, value in answer.headers:
            if name.lower() == b"set-cookie" and self._cookies is not None:
                key, _, rest = value.decode().partition("=")
                self._cookies[key] = rest.partition(";")[0]
        return answer

    def links(self) -> list[str]:
        assert self.page is not None
        return [unescape(link) for link in _LINK.findall(self.page.body.decode())]


def stranger(client: Client, number: int, **options) -> Person:
    return Person(client, f"172.{16 + (number >> 8)}.{number & 255}.9", **options)


@pytest.mark.parametrize("text", MODES)
def test_a_link_that_was_posted_is_open_to_everybody_and_they_go_on(text):
    client = Client(text)
    author = stranger(client, 9_000)
    author.open("/")
    link = author.links()[4]
    for number in range(60):
        reader = stranger(client, number, cookies=number % 2 == 0)
        assert reader.open(link).status == 200
        for _ in range(3):
            assert reader.click(reader.links()[number % LINKS]).status == 200
    assert client.codes == set()


@pytest.mark.parametrize("text", MODES)
def test_readers_of_a_list_of_twenty_links_each_open_one_or_two(text):
    """Nobody has JavaScript. Most of the links soon have several readers."""
    client = Client(text)
    author = stranger(client, 9_000)
    author.open("/")
    posted, chance, refused = author.links()[:20], random.Random(7), 0
    for number in range(200):
        reader = stranger(client, number)
        for link in chance.sample(posted, chance.choice((1, 1, 2))):
            refused += reader.open(link).status != 200
    assert refused <= 6


def test_a_link_of_a_friends_friend_asks_one_reader_and_no_other_after_that():
    client = Client(QUICK)
    author, friend = stranger(client, 9_000), stranger(client, 9_001)
    author.open("/")
    friend.open(author.links()[0])
    link = friend.links()[3]
    readers = [stranger(client, number) for number in range(20)]
    assert all(reader.see(link) for reader in readers)
    assert [reader.challenges for reader in readers] == [1, *[0] * 19]
    assert client.codes == {"handed-on"}


def test_a_private_window_and_a_phone_that_moves_are_not_asked():
    client = Client(QUICK)
    person = stranger(client, 1)
    person.open("/")
    window = stranger(client, 1, cookies=False)
    for link in person.links()[:12]:
        assert window.open(link).status == 200
        assert window.click(window.links()[0]).status == 200
    for number in (2, 3, 2, 1, 2, 3, 1, 3, 2, 3):
        person.address = stranger(client, number).address
        assert person.click(person.links()[5]).status == 200
        assert person.click(person.links()[6]).status == 200
    assert client.codes == set()


def test_a_surge_ends_by_itself_and_people_with_a_clearance_notice_nothing():
    client = Client(QUICK)
    holder = stranger(client, 5_000)
    link = holder_clearance(client, holder)
    crew = Crew(client, 1, strip=True)
    crew.run(400)
    assert client.surge.is_on
    before = holder.challenges
    assert all(holder.see(f"/page/{number}") for number in range(100, 115))
    assert holder.see(link)
    assert holder.challenges == before
    newcomer = stranger(client, 6_000)
    assert newcomer.see("/page/3")
    assert newcomer.challenges == 1
    # The crawl is over. Somebody comes now and then.
    for number in range(15):
        client.clock.now += 60
        stranger(client, 7_000 + number).open(f"/page/{1_000 + number}")
    assert not client.surge.is_on
    late = stranger(client, 8_000)
    assert late.open("/page/4").status == 200


def holder_clearance(client: Client, holder: Person) -> str:
    """Have *holder* obtain a clearance, by a link of a friend's friend; return one of its links."""
    author, friend = stranger(client, 9_000), stranger(client, 9_001)
    author.open("/")
    friend.open(author.links()[0])
    assert holder.see(friend.links()[3])
    assert holder.challenges == 1
    return holder.links()[1]


@pytest.mark.parametrize(
    ("headers", "each"),
    [
        ({"user-agent": "curl/8.0", "accept": "*/*"}, 1),
        ({"user-agent": "FreshRSS/1.24", "accept": "application/atom+xml,*/*;q=0.1"}, 1),
    ],
)
def test_programs_neither_cause_a_surge_nor_are_asked_during_one(headers, each):
    client = Client()
    assert Crew(client, each, strip=True, headers=headers).run(400) >= 300
    assert not client.surge.is_on
    Crew(client, 1, strip=True).run(400)
    assert client.surge.is_on
    program = Browser(client, "192.0.2.9", cookies=False, headers=headers)
    assert program.open("/page/9").status == 200


def test_people_from_a_search_engine_cause_no_surge():
    """Hundreds of them in an hour, to as many pages. Most go on, one of four does not."""
    client, chance = Client(), random.Random(3)
    for number in range(800):
        client.clock.now += 4
        person = stranger(client, number, headers={**CHROME, "sec-fetch-site": "cross-site"})
        assert person.open(f"/page/{chance.randrange(PAGES)}").status == 200
        if number % 4:
            assert person.click(person.links()[0]).status == 200
    assert not client.surge.is_on
    assert client.codes == set()


def test_a_page_that_thousands_come_to_at_once_causes_no_surge():
    client = Client()
    for number in range(1_500):
        client.clock.now += 0.05
        assert stranger(client, number, cookies=False).ask("/page/7").status == 200
    assert not client.surge.is_on


def test_it_can_be_switched_off():
    client = Client("[rotating]\nenabled = false\n")
    assert Crew(client, 1).run(200) > 100

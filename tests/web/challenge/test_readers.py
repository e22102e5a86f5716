"""People and crawlers with a clearance who report nothing about how they use pages, as with `Sec-GPC`."""

from __future__ import annotations

import re
from html import unescape
from random import Random
from urllib.parse import urlencode

import pytest

from driving import Answer, Application, Client, without_bait
from hedgerow.core.state import CLEARANCE

from .test_silent import FAST, HEADERS, SCRIPT, Browser, name

PAGES = 400
DAY = 86_400.0
_NEXT = re.compile(rb'<a rel="next" href="([^"]+)">')
_LINK = re.compile(rb'<a href="([^"]+)">')


def page(number: int) -> bytes:
    """A page of a manual, with a link to the next one and to twelve others, of which each page names others."""
    others = Random(number).sample(range(PAGES), 12)
    links = "".join(f'<p>See <a href="{name(other)}">page {name(other)}</a>.</p>' for other in others)
    following = f'<a rel="next" href="{name(number + 1)}">Next</a>' if number + 1 < PAGES else ""
    return f"<!DOCTYPE html><html><head><title>A</title></head><body>{links}<p>{following}</p></body></html>".encode()


_BODIES = {name(number): page(number) for number in range(PAGES)}


def site(settings: str = "") -> Client:
    """The manual, with the watch that comes with Hedgerow. It sees each visit at once."""

    def react(scope: dict[str, object]) -> dict[str, object]:
        return {"chunks": (_BODIES[str(scope["path"])],)}

    client = Client(Application(react=react), FAST + settings, silent=True)
    watch = client.site.watch
    assert watch is not None
    client.site.app.gate.on_decision = watch.watch.see
    return client


class Reader(Browser):
    """Reads at a pace between two numbers of seconds per page. Sends no reports, or *by_hand* that keys are used."""

    def __init__(
        self, client: Client, pace: tuple[float, float], *, by_hand: bool = False, first: int = 0, seed: int = 1
    ) -> None:
        super().__init__(client)
        self._by_hand = by_hand
        self._pace, self._dice, self._here = pace, Random(seed), ""
        self.statuses: list[int] = []
        self.body = b""
        self.open(name(first))

    def open(self, target: str) -> Answer:
        self.client.clock.now += self._dice.uniform(*self._pace)
        if self._by_hand and self._here:
            numbers = {"report": 1, "page": len(self.statuses), "visible": 2000, "keys": 4, "clicks": 1}
            self.ask("/.hedgerow/signs", method="POST", body=urlencode(numbers).encode())
        sent = dict(HEADERS) if self._by_hand else {**HEADERS, "sec-gpc": "1"}
        if self._here:
            sent |= {"referer": "http://example.org" + self._here, "sec-fetch-site": "same-origin"}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        answer = self.client.get(target, peer=self.address, headers=sent)
        self.statuses.append(answer.status)
        if answer.status == 200:
            self._here, self.body = target.partition("?")[0], answer.body
            if SCRIPT.search(answer.body):
                self.clear()
        return answer

    def forget_page(self) -> None:
        """Go on as if the next address is typed."""
        self._here = ""

    def turn(self) -> None:
        link = _NEXT.search(without_bait(self.body))
        assert link is not None
        self.open(unescape(link[1].decode()))

    def crawl(self) -> None:
        """Open any link of the page."""
        links = [unescape(link.decode()) for link in _LINK.findall(without_bait(self.body))]
        self.open(self._dice.choice(links))


@pytest.mark.parametrize("pace", [(0.5, 1.5), (1.5, 3.5), (3.0, 8.0), (6.0, 14.0)])
def test_who_turns_page_after_page_reads_a_whole_manual(pace):
    reader = Reader(site(), pace)
    for _ in range(200):
        reader.turn()
    assert set(reader.statuses) == {200}
    visitors = {entry.visit.visitor for entry in reader.client.entries if entry.visit.kind == "page"}
    assert len([one for one in visitors if one.startswith(CLEARANCE)]) == 1
    assert reader.tasks > 5, "the watch takes it for a crawler all the time, and it solves silently"


def test_what_a_reader_solved_is_not_held_against_it():
    """Or a visible challenge or a block would follow at the first other evidence."""
    reader = Reader(site(), (0.5, 1.5))
    for _ in range(100):
        reader.turn()
    gate, now = reader.client.site.app.gate, reader.client.clock.now
    gate.state.update_score(gate.engine.policy.flag(reader.key, now, "suspect", "campaign"))
    reader.turn()
    decision = [entry.decision for entry in reader.client.entries if entry.visit.kind == "page"][-1]
    assert (reader.statuses[-1], decision.owes, decision.price) == (200, True, 1)


@pytest.mark.parametrize("pace", [(0.05, 0.2), (0.5, 1.5), (1.5, 3.0)])
def test_who_opens_any_links_as_fast_is_stopped(pace):
    crawler = Reader(site(), pace)
    for _ in range(120):
        crawler.crawl()
    assert 30 <= crawler.statuses.index(403) <= 80


@pytest.mark.parametrize("minutes", [1, 5])
def test_midnight_is_no_new_budget_for_who_was_stopped_just_before(minutes):
    client = site()
    client.clock.now += DAY - client.clock.now % DAY - 60 * minutes
    crawler = Reader(client, (0.5, 1.5))
    while client.clock.now % DAY > DAY / 2 or len(crawler.statuses) < 600:
        crawler.crawl()
    assert crawler.statuses.count(200) <= 60


@pytest.mark.parametrize("by_hand", [False, True])
def test_people_read_on_over_midnight(by_hand):
    """The other side: with the same clearance, by "next", an evening after the other."""
    client = site()
    client.clock.now += DAY - client.clock.now % DAY
    for _ in range(3):
        client.clock.now += DAY - client.clock.now % DAY - 900
        reader = Reader(client, (5.0, 40.0), by_hand=by_hand)
        for _ in range(90):
            reader.turn()
        assert set(reader.statuses) == {200}


def test_who_turns_pages_faster_than_anybody_reads_is_stopped():
    crawler = Reader(site(), (0.05, 0.2))
    for _ in range(120):
        crawler.turn()
    assert 30 <= crawler.statuses.index(403) <= 80


def test_who_chooses_links_slowly_is_not_stopped_for_the_order_of_pages():
    reader = Reader(site(), (4.2, 9.0))
    for _ in range(200):
        reader.crawl()
    assert set(reader.statuses) == {200}


@pytest.mark.parametrize(("pace", "most"), [((0.5, 1.5), 160), ((6.0, 14.0), 180)])
def test_beyond_k2_the_order_counts(pace, most):
    reader = Reader(site("[containment]\nk2 = 80\n"), pace)
    for _ in range(200):
        reader.turn()
    assert 80 < reader.statuses.index(403) < most


@pytest.mark.parametrize("from_list", [True, False])
def test_who_knows_the_addresses_or_makes_them_up_is_stopped_beyond_k2(from_list):
    """As slowly as a person reads, and whether a page of the site is said to have led there or none."""
    crawler = Reader(site("[containment]\nk2 = 80\n"), (6.0, 14.0))
    for number in Random(4).sample(range(1, PAGES), 200):
        if from_list:
            crawler.forget_page()
        crawler.open(name(number))
    assert crawler.statuses[:80] == [200] * 80
    assert 80 < crawler.statuses.index(403) <= 130
    assert crawler.statuses[-1] == 403


@pytest.mark.parametrize("pace", [(1.5, 3.5), (6.0, 14.0)])
def test_a_person_on_a_site_whose_scripts_make_the_addresses_reads_on(pace):
    """
    No link has a mark there. Somebody uses the pages by hand, so the script solves whatever is asked.

    Only after each k2 pages of a day the clearance may have to be earned where it is seen.
    """
    reader, seen = Reader(site("[containment]\nk2 = 80\n"), pace, by_hand=True), []
    gate = reader.client.site.app.gate
    for count, number in enumerate(Random(4).sample(range(1, PAGES), 200), 2):
        if reader.open(name(number)).status != 200:
            seen.append(count)
            # It solves what it sees.
            gate.state.update_score(gate.engine.policy.cleared(reader.key, reader.client.clock.now))
    assert set(seen) <= {82, 162}
    assert reader.tasks > 5


# ---- Challenges that nobody answers


def shown(client: Client) -> Browser:
    """A browser that sees a challenge for each page."""
    crawler, gate = Browser(client), client.site.app.gate
    crawler.read("/")
    crawler.read("/a")
    for _ in range(4):
        gate.state.update_score(gate.engine.policy.flag(crawler.key, client.clock.now, "suspect", "campaign"))
        crawler.clear()
        client.clock.now += 5
    gate.state.update_score(gate.engine.policy.flag(crawler.key, client.clock.now, "suspect", "campaign"))
    crawler.scripts = False
    return crawler


@pytest.fixture
def client() -> Client:
    return Client(Application(), FAST + "[watch]\nenabled = false\n", silent=True)


def test_who_asks_on_and_answers_nothing_is_blocked(client):
    crawler, texts = shown(client), []
    for number in range(60):
        client.clock.now += 7
        crawler.read(name(number))
        texts.append(client.entries[-1].decision.code)
    # A few more than 30, because what was shown first has faded a little.
    assert texts[:30] == ["suspect"] * 30
    assert texts[35:] == ["too-many-challenges"] * 25
    assert "answered none" in client.entries[-1].decision.evidence[0].text


def test_sixty_tabs_at_once_are_no_reason(client):
    person = shown(client)
    for _ in range(5):
        client.clock.now += 60
        for number in range(60):
            client.clock.now += 0.2
            person.ask(name(number))
    assert {entry.decision.action for entry in client.entries[-300:]} == {"challenge"}


@pytest.mark.parametrize(("failure", "action"), [("expired", "challenge"), ("tampered", "refuse")])
def test_who_answers_late_is_still_there_and_rubbish_is_no_answer(client, failure, action):
    person, gate = shown(client), client.site.app.gate
    for number in range(60):
        client.clock.now += 7
        person.read(name(number))
        if number % 20 == 19:
            gate.failed(client.entries[-1].visit, failure, "image", client.clock.now)
    assert client.entries[-1].decision.action == action


def test_an_address_is_not_blocked_for_challenges_that_nobody_answers(client):
    """Many people may see one there, and each goes away."""
    for number in range(100):
        client.clock.now += 20
        Browser(client, scripts=False).read(name(number))
    assert client.entries[-1].decision.action == "challenge"


@pytest.mark.parametrize("pause", [0.5, 60.0])
def test_the_first_pages_of_many_people_behind_one_address_are_no_path(pause):
    """Each of them obtains a clearance at its first page. Together these pages look like those of one crawler."""
    client = site()
    first_pages = Random(3).sample(range(PAGES), 60)
    people = [Reader(client, (pause / 2, pause), first=page, seed=page) for page in first_pages]
    assert [person.statuses for person in people] == [[200]] * 60
    assert {person.tasks for person in people} == {1}

"""Many people behind one address: a class of 30, some of them without JavaScript. And who guesses at images."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import urlencode

import pytest

from challenge.solver import ANSWER, hidden
from driving import KEY, PAGE, START, Answer, Application, Client, settings
from hedgerow.challenge import prices
from hedgerow.challenge.captcha import Captcha
from hedgerow.core.decision import ScoreUpdate
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.state.lmdb.state import LmdbState
from hedgerow.state.memory.state import MemoryState
from hedgerow.web.gate import build_gate

from .test_silent import FAST, Browser, name

NO_WATCH = FAST + "[watch]\nenabled = false\n"
ADDRESS = "192.0.2.1"


@pytest.fixture(autouse=True)
def _known_puzzles(monkeypatch):
    monkeypatch.setattr("hedgerow.web.challenge.endpoint.make_image", lambda: Captcha(ANSWER, "image/png", b"png"))
    monkeypatch.setattr("hedgerow.web.challenge.endpoint.make_audio", lambda: Captcha(ANSWER, "audio/wav", b"wav"))


@pytest.fixture
def client() -> Client:
    return Client(Application(PAGE), NO_WATCH, silent=True)


def test_in_a_class_of_30_three_without_javascript_read_like_the_others(client):
    pupils = [Browser(client, scripts=number >= 3) for number in range(30)]
    for page in range(20):
        for number, pupil in enumerate(pupils):
            assert pupil.read(name(page * 30 + number)).status == 200, (page, number)
    held = run_now(client.site.app.gate.price(client.entries[-1].visit)).held
    assert 24 <= held <= 27


def test_a_first_page_is_not_refused_where_a_gateway_has_used_up_k1(client):
    """Browsers that leave before their script has solved anything."""
    pupils = [Browser(client) for _ in range(10)]
    for page in range(3):
        for pupil in pupils:
            pupil.read(name(page))
    visitors = [Browser(client, scripts=False).read("/").status for _ in range(60)]
    assert visitors == [200] * 60


@pytest.mark.parametrize("holders", [0, 1])
def test_one_clearance_or_none_makes_no_gateway(client, holders):
    for _ in range(holders):
        person = Browser(client)
        for number in range(10):
            person.read(name(number))
    crawler = Browser(client, scripts=False)
    assert [crawler.read(name(number)).status for number in range(30)].count(200) == 20


def test_clearances_that_are_dropped_make_no_gateway(client):
    crawler = Browser(client)
    for number in range(60):
        crawler.read(name(number))
        if number % 3 == 2:
            crawler.cookies.clear()
    without = Browser(client, scripts=False)
    assert [without.read(name(number)).status for number in range(30)].count(200) <= 20


def test_who_is_judged_a_crawler_is_no_part_of_a_gateway(client):
    crawlers = [Browser(client) for _ in range(6)]
    gate = client.site.app.gate
    for crawler in crawlers:
        crawler.read("/")
        crawler.read("/one")
        gate.state.update_score(gate.engine.policy.flag(crawler.key, client.clock.now, "random-like", "path-random"))
    for page in range(3):
        for crawler in crawlers:
            crawler.ask(name(page))
    assert run_now(gate.price(client.entries[-1].visit)).held == 0


@pytest.mark.parametrize("engine", ["memory", "lmdb"])
def test_two_workers_count_each_clearance_once(tmp_path, engine):
    """A pupil's connections reach both workers. Each notices by itself, and the state counts."""
    with closing(MemoryState(()) if engine == "memory" else LmdbState(tmp_path / "state.lmdb", ())) as state:
        gates = [
            build_gate(settings(NO_WATCH), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger(), state=state)
            for _ in range(2)
        ]
        for number in range(80):
            visit = Visit(START + number, ADDRESS, f"clearance:{number % 10}", ADDRESS, "GET", "/", kind="page")
            run_now(gates[number // 10 % 2].decide(visit))
        assert [run_now(gate.price(visit)).held for gate in gates] == [10, 10]


# ---- Wrong answers


def ask_image(browser: Browser) -> Answer:
    """The page with an image that a browser without JavaScript gets once its pages are used up."""
    page = browser.read("/more")
    fields = hidden(page.body)
    return post(browser, "choose", {"ticket": fields.get("ticket", ""), "kind": "image"})


def post(browser: Browser, what: str, fields: dict[str, str]) -> Answer:
    return browser.ask(f"/.hedgerow/{what}", method="POST", body=urlencode(fields).encode())


def answer(browser: Browser, page: Answer, text: str) -> Answer:
    return post(browser, "answer", {**hidden(page.body), "answer": text})


def use_up(client: Client) -> Browser:
    browser = Browser(client, scripts=False)
    for number in range(21):
        page = browser.read(name(number))
    assert page.status == 403
    return browser


def offers(page: Answer) -> bool:
    return b"data:image/png" in page.body or b'value="image"' in page.body


def test_after_20_wrong_answers_no_image_is_offered_until_the_next_day(client):
    crawler = use_up(client)
    early = ask_image(crawler)
    page = ask_image(crawler)
    for number in range(20):
        assert offers(page), number
        page = answer(crawler, page, "wrong")
    assert b'value="image"' not in page.body
    assert b'value="audio"' not in page.body
    # An image that was offered before is not accepted any more.
    assert answer(crawler, early, ANSWER).status == 403
    assert "hedgerow-clearance" not in crawler.cookies
    client.clock.now += 86_400
    crawler = use_up(client)
    assert answer(crawler, ask_image(crawler), ANSWER).status == 303


def test_who_holds_a_clearance_and_who_calculates_are_untouched_by_wrong_answers(client):
    person = Browser(client)
    person.read("/")
    crawler = use_up(client)
    page = ask_image(crawler)
    for _ in range(25):
        page = answer(crawler, page, "wrong") if hidden(page.body) else page
    assert person.read("/one").status == 200
    newcomer = Browser(client)
    newcomer.read("/two")
    newcomer.clear()
    assert newcomer.read("/three").status == 200


def test_another_address_has_answers_of_its_own(client):
    crawler = use_up(client)
    page = ask_image(crawler)
    for _ in range(20):
        page = answer(crawler, page, "wrong")
    other = Browser(client, "198.51.100.7", scripts=False)
    for number in range(21):
        other.read(name(number))
    assert offers(ask_image(other))


@pytest.mark.parametrize(("held", "most"), [(0, 20), (30, 320)])
def test_where_many_people_are_more_may_be_wrong(client, held, most):
    crawler = use_up(client)
    gate, now = client.site.app.gate, client.clock.now
    visit, day = client.entries[-1].visit, gate.engine.policy.day_of(now)
    for _ in range(held):
        gate.state.update_score(ScoreUpdate(prices.gateway_key(ADDRESS), now, day, prices.HALF_LIFE, weight=1.0))
    for _ in range(most - 1):
        gate.failed(visit, "wrong", "image", now)
    price = run_now(gate.price(visit))
    assert (price.held, price.wrong) == (held, most - 1)
    for number in range(held * 20 + 1):
        client.clock.now += 0.5
        page = crawler.ask(name(number))
    assert offers(post(crawler, "choose", {"ticket": hidden(page.body)["ticket"], "kind": "image"}))
    gate.failed(visit, "wrong", "image", client.clock.now)
    assert not offers(post(crawler, "choose", {"ticket": hidden(page.body)["ticket"], "kind": "image"}))


@pytest.mark.parametrize(("failure", "kind"), [("expired", "image"), ("wrong", "work"), ("outage", "external")])
def test_only_wrong_answers_to_images_and_recordings_count(client, failure, kind):
    crawler = use_up(client)
    gate, visit = client.site.app.gate, client.entries[-1].visit
    for _ in range(40):
        gate.failed(visit, failure, kind, client.clock.now)
    assert run_now(gate.price(visit)).wrong == 0
    assert offers(ask_image(crawler))


# ---- Solve, use, drop, by somebody who reads every image


def test_who_reads_every_image_and_drops_clearances_gets_150_pages_a_day(client):
    """The calculations come first, then the images, and then nothing."""
    crawler, pages, images, used = Browser(client), 0, 0, 0
    for number in range(700):
        page = crawler.read(name(number))
        if page.status != 200 and hidden(page.body):
            crawler.cookies.pop("hedgerow-clearance", None)
            asked = post(crawler, "choose", {"ticket": hidden(page.body)["ticket"], "kind": "image"})
            images += answer(crawler, asked, ANSWER).status == 303
            used = 0
        pages += page.status == 200
        used += page.status == 200
        if used == 9:
            crawler.cookies.clear()
            used = 0
    assert images >= 3
    assert 100 < pages <= 150


@pytest.mark.parametrize("each", [1, 9, 30])
def test_in_a_whole_day_too(client, each):
    """It asks every two minutes, from midnight on, so that the count of its address could fade meanwhile."""
    client.clock.now += -client.clock.now % 86_400
    crawler, got, used = Browser(client), 0, 0
    for number in range(720):
        client.clock.now += 115
        page = crawler.read(name(number))
        if page.status != 200 and hidden(page.body):
            asked = post(crawler, "choose", {"ticket": hidden(page.body)["ticket"], "kind": "image"})
            answer(crawler, asked, ANSWER)
        got += page.status == 200
        used += page.status == 200
        if used == each:
            crawler.cookies.clear()
            used = 0
    assert 80 < got <= 150


# ---- People who read a lot


def test_who_has_a_clearance_does_not_pay_for_the_pages_of_its_address(client):
    """Somebody reads 200 pages, and has to earn the clearance again."""
    person, gate = Browser(client), client.site.app.gate
    for number in range(200):
        assert person.read(name(number)).status == 200
    gate.state.update_score(gate.engine.policy.flag(person.key, client.clock.now, "suspect", "campaign"))
    before = person.tasks
    assert [person.read(name(number)).status for number in range(30)] == [200] * 30
    assert person.tasks == before + 1


@pytest.mark.parametrize("wait", [0, 86_500])
def test_a_household_goes_on_after_two_hundred_pages_with_one_clearance(client, wait):
    """In a private window, and on the next day, when the clearance has ended."""
    person = Browser(client)
    for number in range(200):
        person.read(name(number))
    client.clock.now += wait
    private = Browser(client)
    assert [private.read(name(number)).status for number in range(40)] == [200] * 40
    assert private.tasks == 1

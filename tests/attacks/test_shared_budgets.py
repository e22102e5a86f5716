"""Crawlers that divide a site among many addresses or many clearances, with a few pages for each; and people who do."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from html import unescape
from urllib.parse import urlencode

import pytest

from driving import Client, marked_links_in

from .browsers import HOST, ME, Browser, site, word

_LINK = re.compile(rb'<a [^>]*href="([^"]+)"')
_TITLE = re.compile(rb"<title>([^<]*)</title>")
SCRIPT = {"accept": "*/*", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}


# ---- Many addresses, each with links of its own


def crew(client: Client, addresses: int, each: int, start: Callable[[int], str]) -> int:
    """Come to a page with each address, and follow links of this page; return how many different pages came."""
    got, seen, chance = set[str](), set[str](), random.Random(3)
    for number in range(addresses):
        crawler = Browser(client, f"10.{number >> 8}.{number & 255}.7", scripts=False)
        target = start(number)
        for _ in range(each):
            client.clock.now += 1
            page = crawler.send(target)
            if page.status != 200:
                break
            got.add(target.partition("?")[0])
            links = [link for link in marked_links_in(page.body) if link.partition("?")[0] not in seen]
            target = chance.choice(links or marked_links_in(page.body))
            seen.add(target.partition("?")[0])
    return len(got)


@pytest.mark.parametrize("each", [2, 4])
@pytest.mark.parametrize("start", [lambda _: "/start", word], ids=["the home page", "a deep page"])
def test_a_crew_that_goes_on_by_links_of_its_own_is_stopped_as_a_whole(start, each):
    """Our own: each address came back by a link of its own, and so looked like a person. All of 1,000 pages came."""
    assert crew(site(), 1_000, each, start) <= 300


# ---- One clearance, and a script that fetches the pages


def fetched(browser: Browser, start: str, pages: int, *, from_page: bool = False) -> int:
    """Fetch all links of *start* and of the fetched pages by a script; return how many different pages came."""
    waiting, got = [(start, link) for link in _LINK.findall(browser.read(start).body)], set[str]()
    for here, link in waiting:
        browser.client.clock.now += 2
        referrer = HOST + (here if from_page else start)
        page = browser.send(unescape(link.decode()), headers={**SCRIPT, "sec-fetch-user": None, "referer": referrer})
        if page.status != 200:
            continue
        target = _TITLE.search(page.body)[1].decode()
        if target not in got and len(waiting) < pages:
            waiting += [(target, link) for link in _LINK.findall(page.body)]
        got.add(target)
    return len(got)


def test_a_script_that_fetches_every_link_of_the_site_is_stopped():
    """Our own: `fetch()` in a page that was opened once. 786 of 1,000 pages came, for all hidden links."""
    crawler = Browser(site())
    crawler.read("/start")
    assert fetched(crawler, "/other", 2_000) <= 100


def test_a_script_that_fetches_marked_links_has_the_budget_of_a_reader():
    """Our own: what scripts fetch had a budget five times as large."""
    crawler = Browser(site("[containment]\nk2 = 40\n[traps]\nenabled = false\n"))
    crawler.read("/start")
    assert 30 <= fetched(crawler, "/other", 400) <= 40
    assert crawler.is_undisturbed()


def test_a_script_that_fetches_a_list_has_the_budget_of_a_reader():
    """Our own: what scripts fetch had a budget five times as large."""
    crawler = Browser(site("[containment]\nk2 = 40\n"))
    crawler.read("/start")
    crawler.read("/other")
    headers = {**SCRIPT, "sec-fetch-user": None, "referer": HOST + "/other"}
    got = 0
    for number in range(200):
        crawler.client.clock.now += 2
        got += crawler.send(word(number), headers=headers).status == 200
    assert 36 <= got <= 44
    assert crawler.is_undisturbed()


def test_a_script_that_fetches_every_link_of_its_page_disturbs_nobody():
    """The other side, also where the browser names no page as the referrer but the site."""
    reader = Browser(site())
    reader.read("/start")
    for number in range(30):
        page = reader.read(word(number))
        for link in _LINK.findall(page.body):
            referrer = HOST + (reader.here if number % 2 else "/")
            headers = {**SCRIPT, "sec-fetch-user": None, "referer": referrer}
            reader.send(unescape(link.decode()), headers=headers)
    assert reader.is_undisturbed()


# ---- Many clearances at one address


def pool(client: Client, clearances: int, pages: int, *, by_hand: bool = False, of: int = 1000) -> list[Browser]:
    """Let browsers with clearances at one address read different pages in turn, none of them fast."""
    browsers = [Browser(client) for _ in range(clearances)]
    for one in browsers:
        one.read("/start")
        one.got = 0
    for number in range(clearances * pages):
        one = browsers[number % clearances]
        page = one.read(word(number * 37 % of))
        one.got += page.status == 200
        if by_hand:
            report(one, number)
    return browsers


def report(browser: Browser, number: int) -> None:
    """Report that somebody used keys on the page."""
    body = urlencode({"report": 1, "page": number + 1, "visible": 4_000, "keys": 3, "clicks": 1}).encode()
    headers = {**SCRIPT, "referer": HOST + browser.here, "content-type": "application/x-www-form-urlencoded"}
    browser.send("/.hedgerow/signs", method="POST", headers=headers, body=body)


@pytest.mark.parametrize("clearances", [5, 20])
def test_clearances_that_are_hoarded_at_one_address_share_a_budget(clearances):
    """Our own: a crawler that kept thirty clearances and used them in turn had thirty budgets."""
    client = site("[containment]\nk2 = 100\n")
    crawlers = pool(client, clearances, 500 // clearances)
    assert sum(one.got for one in crawlers) <= 100 + 12 * clearances
    codes = {entry.decision.code for entry in client.entries if entry.decision.action == "challenge"}
    assert "k2-address" in codes


def test_whoever_calculates_has_not_paid_for_the_pages_of_its_address():
    """Our own: thirty clearances whose challenges the watch let them solve silently read 906 of 1,169 pages."""
    client = site("[containment]\nk2 = 100\n")
    gate, crawlers = client.site.app.gate, pool(client, 10, 5)
    for one in crawlers:
        one.read("/again")
        key = client.entries[-1].visit.visitor
        gate.state.update_score(gate.engine.policy.flag(key, client.clock.now, "suspect", "campaign"))
        one.read("/and/again")
    assert {score.challenges for key, score in gate.state.scores() if key.startswith("clearance:")} == {1}
    for number in range(300, 600):
        crawlers[number % 10].got += crawlers[number % 10].read(word(number)).status == 200
    assert sum(one.got for one in crawlers) <= 100 + 10 * 12


def test_who_is_asked_for_an_image_gets_no_calculation_instead():
    client = site("[containment]\nk2 = 40\n")
    asked = next(one for one in pool(client, 4, 30) if one.got < 30)
    task = asked.send("/.hedgerow/task", method="POST", headers={**SCRIPT, "referer": HOST + asked.here})
    assert task.status == 204
    page = asked.read("/another")
    assert page.status == 403
    assert b"data-question" not in page.body


def test_a_class_that_uses_its_pages_by_hand_is_not_disturbed():
    """The other side: thirty pupils, 900 different pages."""
    assert all(one.got == 30 for one in pool(site(), 30, 30, by_hand=True))


def test_a_class_whose_browsers_report_nothing_is_not_disturbed():
    """The other side: thirty browsers with `Sec-GPC`, in a chapter of 200 pages."""
    assert all(one.got == 20 for one in pool(site(), 30, 20, of=200))


def test_two_people_of_a_household_whose_browsers_report_nothing_are_not_disturbed():
    assert all(one.got == 280 for one in pool(site(), 2, 280))


def test_without_reports_nobody_is_asked():
    client = site("[signs]\nenabled = false\n[containment]\nk2 = 40\n")
    assert sum(one.got for one in pool(client, 5, 38)) == 5 * 38


def test_neighbours_are_not_asked():
    client = site()
    pool(client, 10, 60)
    neighbour = Browser(client, "192.0.2.2")
    assert neighbour.address != ME
    assert all(neighbour.read(word(number)).status == 200 for number in range(30))

"""Limits that follow the site's own speed: crawlers of a slow site, and people who open many pages at once."""

from __future__ import annotations

import asyncio

import pytest

from driving import PAGE, Application, Client
from driving_wsgi import WsgiApplication, WsgiClient
from hedgerow.core.decision import VisitorScore
from hedgerow.core.page_times import PageTimes
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.rate_limit import DEFAULT_WINDOWS, RateLimitDetector
from web.challenge.test_silent import FAST, HEADERS, Browser, name

HOLDER = "clearance:a"
NO_BUDGET = FAST + "[watch]\nenabled = false\n[containment]\nenabled = false\n"


def times(seconds: float) -> PageTimes:
    found = PageTimes()
    for _ in range(200):
        found.add(seconds)
    return found


def judge(seconds: float, pages: int, visitor: str = HOLDER, *, kind="page", score=None, anomalies=(), most=20.0):
    visit = Visit(100.0, "192.0.2.1", visitor, "192.0.2.1", "GET", "/", kind=kind, anomalies=anomalies)
    detector = RateLimitDetector(DEFAULT_WINDOWS, site_seconds=most, page_times=times(seconds))
    reply = StateReply(None, (*[0] * len(DEFAULT_WINDOWS), pages), score=score)
    return [(one.code, one.text) for one in detector(visit, reply)]


@pytest.mark.parametrize(
    ("seconds", "limit"), [(0.0, None), (0.002, None), (0.02, None), (0.05, 400), (0.1, 200), (0.2, 100), (1.0, 90)]
)
def test_the_slower_the_site_the_fewer_pages_in_a_minute(seconds, limit):
    if limit is None:
        assert judge(seconds, 5000) == []
        return
    assert judge(seconds, limit) == []
    text = f"More than {limit} pages in a minute, and this site needs {seconds:.2g} seconds for a page."
    assert judge(seconds, limit + 1) == [("density-slow", text)]


@pytest.mark.parametrize(("pages", "who"), [(15, HOLDER), (75, HOLDER), (90, "account:ann"), (300, "192.0.2.1")])
def test_tabs_and_bookmarks_and_a_school_without_clearances_on_the_slowest_site(pages, who):
    assert judge(9.0, pages, who) == []


def test_programs_and_scripts_are_declined_and_images_never():
    assert [code for code, _ in judge(0.5, 100, anomalies=("by-program",))] == ["rate-slow"]
    assert judge(0.5, 500, kind="asset") == []
    assert judge(0.5, 500, kind="call") == []


def test_who_has_just_solved_a_challenge_goes_on():
    assert judge(0.5, 120, score=VisitorScore(challenges=1, at=70.0)) == []
    assert judge(0.5, 181, score=VisitorScore(challenges=1, at=70.0)) != []
    assert judge(0.5, 120, score=VisitorScore(challenges=1, at=30.0)) != []


def test_switched_off():
    assert judge(0.5, 5000, most=0.0) == []


class Slow(Application):
    async def __call__(self, scope, receive, send):
        await asyncio.sleep(0.02)
        await super().__call__(scope, receive, send)


@pytest.mark.parametrize(
    ("application", "least"),
    [(Slow(PAGE), 0.02), (Slow(PAGE, status=500), 0.0), (Slow(b"{}", headers=[(b"content-type", b"text/plain")]), 0.0)],
)
def test_the_time_of_pages_is_measured_and_that_of_nothing_else(application, least):
    client = Client(application, NO_BUDGET)
    for number in range(25):
        client.get(name(number), headers=HEADERS)
    found = client.site.page_times.seconds
    assert found >= least if least else found == 0.0


def test_it_is_measured_in_wsgi_too():
    client = WsgiClient(WsgiApplication(PAGE), NO_BUDGET)
    for number in range(20):
        client.get(name(number), headers=HEADERS)
    assert client.site.page_times.seconds > 0.0


def test_a_browser_on_a_slow_site_is_challenged_first_and_blocked_last():
    """A crawler with a clearance that takes two pages a second."""
    client = Client(Application(PAGE), NO_BUDGET, silent=True)
    crawler = Browser(client)
    crawler.read("/")
    statuses = []
    for number in range(400):
        client.site.page_times.add(1.0)
        client.clock.now += 0.5
        page = crawler.ask(name(number))
        statuses.append(page.status)
    assert statuses[:88] == [200] * 88
    assert client.entries[100].decision.action == "challenge"
    assert statuses.count(200) < 120
    person = Browser(client, "192.0.2.1")
    assert person.read("/").status == 200


def test_thirty_pupils_of_one_address_on_a_slow_site():
    client = Client(Application(PAGE), NO_BUDGET, silent=True)
    pupils = [Browser(client) for _ in range(30)]
    for number in range(20):
        client.clock.now += 20
        for pupil in pupils:
            client.site.page_times.add(2.0)
            assert pupil.ask(name(number)).status == 200
            if not number:
                pupil.clear()

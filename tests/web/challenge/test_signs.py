"""What the script of a page reports: who gets the script, which reports are read, and what follows at the next page."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from driving import PAGE, Application, Client
from hedgerow.core.state import CLEARANCE

from .test_silent import FAST, HEADERS, Browser

ELEMENT = re.compile(
    rb'<script (?:type="module" async )?(?:data-)?src="/\.hedgerow/[0-9a-f]{12}/page\.js"(?: async)?([^>]*)>'
)
QUIET = {"report": "1", "visible": "4000", "engine": "2", "system": "3", "version": "140"}


def site(text: str = "") -> Client:
    return Client(Application(PAGE), FAST + "[watch]\nenabled = false\n" + text, silent=True)


@pytest.fixture
def client() -> Client:
    return site()


def element(body: bytes) -> bytes | None:
    found = ELEMENT.search(body)
    return found[1] if found else None


class Reporter(Browser):
    """A browser that reports on each page when it leaves it."""

    pages = 0

    def report(self, **numbers: str) -> int:
        self.pages += 1
        body = urlencode({**QUIET, "page": str(self.pages), **numbers}).encode()
        return self.ask("/.hedgerow/signs", method="POST", body=body).status

    def codes(self, target: str) -> list[str]:
        self.read(target)
        return [one.code for one in self.client.entries[-1].decision.evidence]


def cleared(client: Client) -> Reporter:
    person = Reporter(client)
    person.read("/")
    person.read("/one")
    assert person.key.startswith(CLEARANCE)
    return person


def test_every_page_has_the_script_and_one_for_a_cleared_visitor_only_reports(client):
    person = Reporter(client)
    assert element(person.read("/").body) == b" data-signs"
    assert element(person.read("/one").body) == b' data-signs="only"'


def test_a_report_is_new_once(client):
    person = cleared(client)
    assert person.report(page="7") == 200
    assert person.report(page="7") == 204
    assert person.report(page="7", report="2") == 200


@pytest.mark.parametrize("numbers", [{"report": "0"}, {"keys": "-1"}, {"keys": "1e5"}, {"visible": "9" * 11}])
def test_a_report_without_sense_is_dropped(client, numbers):
    assert cleared(client).report(**numbers) == 204


def test_a_driver_that_says_so_has_a_reason_in_the_ledger_and_is_not_stopped(client):
    person = cleared(client)
    assert person.report(webdriver="1") == 200
    assert "webdriver" in person.codes("/two")
    assert client.entries[-1].decision.action == "pass"
    assert "webdriver" not in person.codes("/three")


def test_a_visitor_without_a_clearance_reports_nothing(client):
    stranger = Reporter(client, scripts=False)
    stranger.read("/")
    assert stranger.report(webdriver="1") == 204
    assert "webdriver" not in stranger.codes("/one")


@pytest.mark.parametrize("name", ["sec-gpc", "dnt"])
def test_browsers_that_ask_for_privacy_get_no_script_for_it_and_their_reports_are_dropped(client, name, monkeypatch):
    monkeypatch.setitem(HEADERS, name, "1")
    person = Reporter(client)
    assert element(person.read("/").body) == b"", "for the clearance"
    assert element(person.read("/one").body) is None
    assert person.report(webdriver="1") == 204
    assert "webdriver" not in person.codes("/two")


def test_the_setting_switches_it_off():
    client = site("[signs]\nenabled = false\n")
    person = Reporter(client)
    assert element(person.read("/").body) == b""
    assert element(person.read("/one").body) is None
    assert person.report(webdriver="1") == 204


def test_a_report_from_another_site_is_dropped(client, monkeypatch):
    person = cleared(client)
    monkeypatch.setitem(HEADERS, "sec-fetch-site", "cross-site")
    assert person.report(webdriver="1") == 403


def test_one_sign_alone_never_stops_a_person(client):
    """Somebody whose pages report no input at all, however that comes: 200 pages, and not one challenge is shown."""
    person = cleared(client)
    statuses = set()
    for number in range(200):
        statuses.add(person.read("/page/" + "abcdefghij"[number % 10] * (1 + number // 10)).status)
        person.report()
    assert statuses == {200}
    assert not any(entry.decision.owes for entry in client.entries)


def test_two_signs_lead_to_silent_challenges_then_to_visible_ones_and_to_a_block(client):
    crawler = cleared(client)
    statuses = []
    for number in range(60):
        statuses.append(crawler.read("/page/" + "abcdefghij"[number % 10] * (1 + number // 10)).status)
        crawler.report(webdriver="1")
    shown = statuses.index(403)
    assert 15 < shown < 45
    assert crawler.tasks == 3, "one for the clearance, and two silent ones"
    seen = {one.code for entry in client.entries for one in entry.decision.evidence}
    assert {"webdriver", "no-input", "driven-browser"} <= seen


@pytest.mark.parametrize("by_hand", [True, False])
def test_who_reads_by_hand_in_the_order_of_a_crawler_is_never_stopped(by_hand, client):
    """As the watch judges somebody who goes through a manual by "next": a depth-first crawler, every ten pages."""
    reader, gate = cleared(client), client.site.app.gate
    statuses = []
    for number in range(120):
        if number % 10 == 9:
            gate.state.update_score(
                gate.engine.policy.flag(reader.key, client.clock.now, "depth-first", "path-depth-first")
            )
        statuses.append(reader.read("/page/" + "abcdefghij"[number % 10] * (1 + number // 10)).status)
        reader.report(**({"keys": "3", "clicks": "1"} if by_hand else {}))
    if by_hand:
        assert set(statuses) == {200}
        assert reader.tasks == 1 + 12, "one for the clearance, and one for each judgement"
    else:
        assert 20 < statuses.index(403) < 50

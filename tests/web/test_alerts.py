"""Alerts: what is told, what is told once, and that sending never happens on the way of a request."""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from driving import settings
from hedgerow.core.decision import Campaign
from hedgerow.settings.operation_tables import AlertsSettings
from hedgerow.web.alert_channels import Alert, ChannelError
from hedgerow.web.alerts import AlertRules, AlertsThread, SentAlerts
from hedgerow.web.app import Site
from hedgerow.web.audit import AuditLog
from hedgerow.web.metrics import SiteMetrics

START = 1_800_000_000.0
MINUTE = 60.0


class Source:
    """A site whose figures a test sets."""

    def __init__(self) -> None:
        self.now = SiteMetrics()
        self.known: list[Campaign] = []
        self.failing: dict[str, str] = {}
        self.certificate_problem = ""
        self.let_in: list[float] = []

    def complaints(self, start):
        return [at for at in self.let_in if at >= start]

    def metrics(self) -> SiteMetrics:
        return msgspec.structs.replace(self.now)

    def campaigns(self):
        return self.known

    def problems(self):
        return dict(self.failing)

    def problems_of_workers(self):
        return {}


@contextmanager
def webhook(status: int = 200):
    """A server for webhooks; gives its address and what it received."""
    received: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("location", "http://127.0.0.1:9/")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook/T0PSECRET", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def rules(**more) -> AlertRules:
    return AlertRules(AlertsSettings(**more), "shop")


def kinds(rules: AlertRules, source: Source, at: float) -> list[str]:
    return [alert.kind for alert in rules.look(source, at)]


def test_a_crawl_is_told_with_its_size_and_reason():
    source, look = Source(), rules(crawl_stopped=100)
    assert kinds(look, source, START) == []
    source.now.stopped = {"false refuse trap": 90, "false challenge k1": 5}
    assert kinds(look, source, START + MINUTE) == []
    source.now.stopped = {"false refuse trap": 120, "false challenge k1": 5}
    (alert,) = look.look(source, START + 2 * MINUTE)
    assert alert.kind == "crawl"
    assert alert.text.endswith(
        "125 requests were stopped in 2 minutes. "
        "Most were refused: Followed a link of a page that no person can see. [trap]"
    )
    # After ten quiet minutes it is over.
    assert kinds(look, source, START + 13 * MINUTE) == []


def test_an_observed_crawl_says_so():
    source, look = Source(), rules(crawl_stopped=10)
    list(look.look(source, START))
    source.now.stopped = {"true refuse trap": 20}
    assert "20 requests would have been stopped" in next(look.look(source, START + MINUTE)).text


def test_unsolved_challenges_are_told_and_solved_ones_are_not():
    source, look = Source(), rules()
    list(look.look(source, START))
    source.now.challenges = {"issued": 99, "solved": 0}
    assert kinds(look, source, START + MINUTE) == []
    source.now.challenges = {"issued": 200, "solved": 20}
    assert kinds(look, source, START + 2 * MINUTE) == []
    source.now.challenges = {"issued": 600, "solved": 21}
    assert kinds(look, source, START + 3 * MINUTE) == ["challenges"]


DAY = 86_400.0


@pytest.mark.parametrize(
    ("today", "before", "is_told"), [(4, 0, False), (5, 0, True), (5, 17, True), (5, 18, False), (12, 35, True)]
)
def test_rising_complaints_are_told_and_usual_ones_are_not(today, before, is_told):
    source, at = Source(), START
    source.let_in = [at - 3600.0] * today + [at - 3 * DAY] * before + [at - 9 * DAY] * 100
    found = [alert for alert in rules().look(source, at) if alert.kind == "complaints"]
    assert bool(found) is is_told
    if found:
        assert f"{today} visitors were let in by hand within a day, {before / 7:.1f} a day" in found[0].text


def test_complaints_are_those_of_the_audit_log(tmp_path):
    site = Site(settings(f"directory = '{tmp_path}'"))
    try:
        audit = AuditLog(site.app.settings)
        for change in ("complaint.let-in", "visitor.forgive", "visitors.forgive", "lists.add"):
            audit.add("alice", "127.0.0.1", change, "192.0.2.1")
        assert len(site.complaints(time.time() - 60)) == 3
        assert site.complaints(time.time() + 60) == []
    finally:
        site.close()


def test_a_new_campaign_is_told_and_those_of_before_are_not():
    source, look = Source(), rules()
    old = Campaign("C1", "sharing", START, START, ("a", "b", "c"), "They share links.")
    source.known = [old]
    assert kinds(look, source, START) == []
    source.known = [old, msgspec.structs.replace(old, id="C2")]
    (alert,) = look.look(source, START + MINUTE)
    assert (alert.kind, alert.subject) == ("campaign", "C2")
    assert alert.text == "Campaign C2: 3 visitors. They share links."


def test_a_store_that_fails_twice_in_a_row_is_told():
    source, look = Source(), rules()
    source.failing = {"state": "Redis does not answer"}
    assert kinds(look, source, START) == []
    (alert,) = look.look(source, START + MINUTE)
    assert alert.text == "A part of Hedgerow fails: state. Redis does not answer."
    source.failing = {}
    assert kinds(look, source, START + 2 * MINUTE) == []


def test_a_failing_site_is_told():
    source, look = Source(), rules()
    list(look.look(source, START))
    source.now.upstream_errors = {"connect": 19}
    assert kinds(look, source, START + MINUTE) == []
    source.now.upstream_errors = {"connect": 30, "timeout": 3}
    assert kinds(look, source, START + 2 * MINUTE) == ["site"]


def test_a_certificate_that_is_not_renewed_is_told():
    source, look = Source(), rules()
    assert kinds(look, source, START) == []
    source.certificate_problem = "no certificate could be obtained; the old one is valid for 20 days"
    assert [alert.text for alert in look.look(source, START + MINUTE)] == [
        "No certificate could be obtained; the old one is valid for 20 days."
    ]


def test_the_same_alert_is_sent_once_also_by_another_process(tmp_path):
    wanted = AlertsSettings(repeat_after=600.0)
    one, other = (SentAlerts(tmp_path / "alerts.json", wanted) for _ in range(2))
    alert = Alert("store", "state", "x", START)
    assert one.admit(alert)
    assert not one.admit(msgspec.structs.replace(alert, at=START + 1))
    assert not other.admit(msgspec.structs.replace(alert, at=START + 599))
    assert other.admit(msgspec.structs.replace(alert, subject="ledger"))
    assert one.admit(msgspec.structs.replace(alert, at=START + 601))


def test_only_so_many_alerts_are_sent_in_an_hour(tmp_path, caplog):
    sent = SentAlerts(tmp_path / "alerts.json", AlertsSettings(per_hour=3))
    admitted = [sent.admit(Alert("campaign", f"C{number}", "x", START + number)) for number in range(10)]
    assert admitted == [True] * 3 + [False] * 7
    assert "an alert is not sent" in caplog.text
    assert sent.admit(Alert("campaign", "C99", "x", START + 3700))


def test_a_damaged_file_of_alerts_does_not_stop_them(tmp_path):
    (tmp_path / "alerts.json").write_text("{")
    assert SentAlerts(tmp_path / "alerts.json", AlertsSettings()).admit(Alert("store", "state", "x", START))


def test_the_thread_sends_what_it_finds_once(tmp_path):
    with webhook() as (url, received):
        source = Source()
        source.failing = {"ledger": "visits are lost"}
        wanted = settings(f'[alerts]\nwebhook = "{url}"\nsite = "shop"\n')
        thread = AlertsThread(wanted, source, tmp_path)
        try:
            for _ in range(3):
                thread.look()
        finally:
            thread.close()
    (message,) = received
    assert message["kind"] == "store"
    assert message["site"] == "shop"
    assert message["text"] == "A part of Hedgerow fails: ledger. Visits are lost."


def test_kinds_that_are_not_wanted_are_not_sent(tmp_path):
    with webhook() as (url, received):
        source = Source()
        source.failing = {"ledger": "visits are lost"}
        thread = AlertsThread(settings(f'[alerts]\nwebhook = "{url}"\nkinds = ["crawl"]\n'), source, tmp_path)
        thread.look()
        thread.look()
        thread.close()
    assert received == []


def test_a_webhook_that_fails_is_logged_without_its_address(tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    with webhook(302) as (url, received):
        source = Source()
        source.failing = {"ledger": "x"}
        thread = AlertsThread(settings(f'[alerts]\nwebhook = "{url}"\n'), source, tmp_path)
        thread.look()
        thread.look()
        thread.close()
    assert len(received) == 1
    assert "an alert could not be sent by webhook: the webhook answered with status 302" in caplog.text
    assert "T0PSECRET" not in caplog.text


def test_an_alert_that_no_channel_accepts_is_tried_again(tmp_path, monkeypatch):
    """A chat that is away for some minutes must not cost the operator the news of a crawl."""
    answers = {"webhook": ChannelError("away"), "mail": ChannelError("away")}
    sent = []

    def send(_settings, alert):
        sent.append(alert)
        yield from answers.items()

    monkeypatch.setattr("hedgerow.web.alerts.send", send)
    now = START
    source = Source()
    source.failing = {"ledger": "visits are lost"}
    thread = AlertsThread(settings('[alerts]\nwebhook = "http://127.0.0.1:9/x"\n'), source, tmp_path, lambda: now)
    thread._stop.set()
    thread._thread.join()
    thread.look()
    assert len(sent) == 1
    for seconds, tries in ((59, 1), (2, 2), (100, 2), (30, 3)):
        now += seconds
        thread.look()
        assert len(sent) == tries
    answers["mail"] = None
    now += 300
    thread.look()
    assert len(sent) == 4
    now += 3600
    thread.look()
    assert len(sent) == 4, "one channel is enough"


@pytest.mark.parametrize("text", ["", '[alerts]\nwebhook = "http://127.0.0.1:9/x"\n'])
def test_a_site_has_the_thread_if_there_is_a_channel(tmp_path, text):
    site = Site(settings(f"directory = '{tmp_path}'\n{text}"))
    began = time.monotonic()
    assert bool(site._alerts) == bool(text)
    assert any(thread.name == "hedgerow-alerts" for thread in threading.enumerate()) == bool(text)
    site.close()
    assert time.monotonic() - began < 30

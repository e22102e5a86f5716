"""The dashboard: its pages, tables, changes and API, and what visitors and other sites cannot do to it."""

from __future__ import annotations

import json
import time

import pytest

from hedgerow.challenge.prices import HALF_LIFE, counted_pages, price_key
from hedgerow.core.decision import Campaign, Evidence, ScoreUpdate
from hedgerow.core.ledger import Entry
from hedgerow.ledger.minutes import StepCount
from hedgerow.web.dashboard.pages import PAGES
from hedgerow.web.dashboard.pages.now import _series
from hedgerow.web.dashboard.resources import RESOURCES
from web.dashboard.desk import Desk

EVIL = "<img src=x onerror=alert(1)>\"'"


@pytest.fixture
def desk(tmp_path) -> Desk:
    desk = Desk(tmp_path)
    desk.log_in()
    return desk


@pytest.mark.parametrize("page", [page for page in PAGES if page.in_navigation], ids=lambda page: page.name)
def test_every_page_has_its_html_and_its_json(desk, page):
    answer = desk.ask(f"/dashboard/{page.name}")
    assert answer.status == 200
    assert f"<title>{page.title} · Hedgerow</title>" in answer.body.decode()
    desk.read(page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_wrong_parameters_are_a_sentence(desk, page):
    for path in (f"/api/v1/{page.name}?nonsense=1", f"/dashboard/{page.name}?nonsense=1"):
        answer = desk.ask(path)
        assert answer.status == 400
        assert b"nonsense" in answer.body


def test_no_page_has_inline_script_or_style(desk):
    for path in ("/", "/dashboard/lists", "/dashboard/audit"):
        answer = desk.ask(path)
        text = answer.body.decode()
        assert "style=" not in text
        assert "<style" not in text
        assert " onclick" not in text
        assert text.count("<script") == text.count('<script src="/static/')
        policy = answer.header("content-security-policy").decode()
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http://" not in text.replace("http://www.w3.org", "")


def test_now_answers_whether_the_site_is_crawled(desk):
    told = desk.read("now")
    assert not told["is_crawled"]
    assert "nobody has visited" in told["sentence"]
    write(desk, "pass", 10)
    write(desk, "refuse", 30)
    told = desk.read("now")
    assert told["is_crawled"]
    assert told["sentence"] == "Yes, the site is being crawled: 30 of 40 requests of the last 15 minutes were stopped."
    assert told["totals"] == {"pass": 10, "challenge": 0, "detain": 0, "refuse": 30}
    assert told["pages_saved"] == 30
    assert sum(told["series"]["actions"]["refuse"]) == 30
    (last,) = told["latest_stopped"]
    assert (last["user_agent"], last["times"]) == (EVIL, 30)


def test_a_busy_crawler_does_not_hide_the_last_refusal_of_a_person(desk):
    write(desk, "refuse", 1, "192.0.2.9")
    write(desk, "refuse", 100)
    found = [(one["visitor"], one["times"]) for one in desk.read("now")["latest_stopped"]]
    assert found == [("192.0.2.7", 100), ("192.0.2.9", 1)]


def test_a_few_refusals_are_no_crawl(desk):
    write(desk, "pass", 500)
    write(desk, "refuse", 12)
    assert desk.read("now")["sentence"].startswith("No: 12 of 512 requests")


def test_observing_says_would_have(tmp_path):
    desk = Desk(tmp_path, "observe = true\n")
    desk.block("192.0.2.7")
    page = desk.ask().body.decode()
    assert "Observing only." in page
    assert "Would have blocked" in page


@pytest.mark.parametrize("observe", [False, True])
def test_the_attack_switch_is_a_button(tmp_path, observe):
    desk = Desk(tmp_path, f"observe = {str(observe).lower()}\n")
    assert "Ask every visitor for a clearance" in desk.ask().body.decode()
    answer = desk.post("/dashboard/now/attack", duration="30m")
    assert answer.status == 303
    said = desk.ask(answer.header("location").decode()).body.decode()
    assert ("Nobody is asked" in said) is observe
    assert "Under attack</b> until" in said
    left = desk.read("now")["attack_until"] - time.time()
    assert 1700 < left <= 1800
    assert desk.read("now")["blocked"] == 0, "it is no block of a visitor"
    assert desk.change("now/end-attack").status == 200
    assert desk.change("now/end-attack").status == 409
    assert desk.read("now")["attack_until"] == 0
    assert [row["change"] for row in desk.read("audit")["rows"]] == ["now.end-attack", "now.attack"]


def test_prices_of_addresses_are_counted(desk):
    now, state = time.time(), desk.site.stores.state
    for address, pages in (("192.0.2.1", 20), ("192.0.2.2", 50), ("192.0.2.3", 85), ("192.0.2.4", 120)):
        state.update_score(ScoreUpdate(price_key(address), now, 0, HALF_LIFE, codes=counted_pages(pages, now)))
    assert [one["addresses"] for one in desk.read("now")["prices"]] == [1, 1, 1]
    (dear,) = desk.read("visitor?visitor=192.0.2.3")["clearances"]
    assert dear == {"address": "192.0.2.3", "held": 0, "pages": 85, "next": "captcha"}
    assert b"an image or a recording" in desk.ask("/dashboard/visitor?visitor=192.0.2.3").body


def test_xss_names_targets_and_user_agents_of_visitors_are_text(desk):
    """XSS through user agents, URLs and account names."""
    desk.block(f"account:{EVIL}", EVIL)
    write(desk, "refuse", 1)
    for path in ("/", "/?span=24h"):
        body = desk.ask(path).body.decode()
        assert "<img" not in body
        assert "&lt;img src=x onerror=alert(1)&gt;" in body


def test_lists_are_changed_and_searched(desk):
    assert (
        desk.post("/dashboard/lists/add", list="black", subject="192.0.2.0/24", reason="crawls", duration="7d").status
        == 303
    )
    assert desk.change("lists/add", list="white", subject="198.51.100.7").status == 200
    assert desk.change("lists/add", list="white", subject="198.51.100.7").status == 409
    assert desk.change("lists/add", list="white", subject="no address at all").status == 422
    assert [row["subject"] for row in desk.read("lists?filter=CRAWL")["rows"]] == ["192.0.2.0/24"]
    assert [row["subject"] for row in desk.read("lists?filter=192.0.2.77")["rows"]] == ["192.0.2.0/24"]
    assert [row["list"] for row in desk.read("lists?sort=-list")["rows"]] == ["white", "black"]
    assert desk.read("lists")["rows"][0]["author"] == "alice"
    assert desk.post("/dashboard/lists/remove", list="black", subject="192.0.2.0/24").status == 303
    assert desk.read("lists")["total"] == 1
    changes = [(row["who"], row["change"], row["subject"]) for row in desk.read("audit")["rows"]]
    assert changes == [
        ("alice", "lists.remove", "192.0.2.0/24"),
        ("alice", "lists.add", "198.51.100.7"),
        ("alice", "lists.add", "192.0.2.0/24"),
    ]


@pytest.mark.parametrize("sort", ["nothing", "subject; DROP TABLE entries", "1", "subject--", "(select 1)"])
@pytest.mark.parametrize("page", ["lists", "audit"])
def test_only_columns_sort(desk, page, sort):
    from urllib.parse import quote

    assert desk.ask(f"/api/v1/{page}?sort={quote(sort)}").status == 400


@pytest.mark.parametrize("text", ["'", "' OR 1=1 --", "%", "\\", '"; DROP TABLE audit; --', "\x00", "192.0.2.1' --"])
def test_sql_injection_a_filter_is_text_and_no_sql(desk, text):
    """SQL injection: a quote finds nothing, and changes nothing."""
    from urllib.parse import quote

    desk.change("lists/add", list="white", subject="198.51.100.7")
    for page in ("lists", "audit"):
        assert desk.read(f"{page}?filter={quote(text)}")["total"] == 0
        assert desk.read(page)["total"] == 1


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/templates/base.html",
        "/static/..%2ftemplates/base.html",
        "/static//etc/passwd",
        "/static/",
    ],
)
def test_path_traversal_static_files_end_at_their_folder(desk, path):
    """Path traversal."""
    from urllib.parse import unquote

    assert desk.ask(unquote(path)).status == 404
    assert desk.ask("/static/dashboard.css").status == 200


def test_csv_is_safe_against_formulas(desk):
    desk.change("lists/add", list="white", subject="account:x", reason='=HYPERLINK("http://evil.example")')
    answer = desk.ask("/api/v1/lists?format=csv")
    assert answer.header("content-type").startswith(b"text/csv")
    assert b"attachment" in answer.header("content-disposition")
    header, row = answer.body.decode().splitlines()
    assert header == "list,subject,reason,author,since,until"
    assert "\"'=HYPERLINK(" in row


def test_the_openapi_document_names_every_page_and_change(desk):
    document = desk.read("openapi.json")
    for page in PAGES:
        assert f"/api/v1/{page.name}" in document["paths"]
        for action in page.actions:
            assert f"/api/v1/{page.name}/{action.name}" in document["paths"]
    for resource in RESOURCES:
        assert f"/api/v1/{resource.name}" in document["paths"]
        assert desk.ask(f"/dashboard/{resource.name}").status == 404


def test_an_address_that_there_is_not_is_an_error_like_all_others(tmp_path):
    desk = Desk(tmp_path, "")
    for path, method, status in (("/api/v1/x", "GET", 404), ("/api/v1/now", "POST", 405)):
        answer = desk.ask(path, method, content_type="application/json")
        assert (answer.status, answer.header("content-type")) == (status, b"application/json")
        assert list(json.loads(answer.body)) == ["error"]
    assert desk.ask("/dashboard/x").status == 404


def test_a_body_that_is_too_large_or_no_json_is_refused(desk):
    token = desk.form_token()
    send = {"content_type": "application/json", "x_form_token": token}
    assert desk.ask("/api/v1/lists/add", "POST", body=b" " * 200_000, **send).status == 413
    assert desk.ask("/api/v1/lists/add", "POST", body=b"{", **send).status == 400
    assert (
        desk.ask("/api/v1/lists/add", "POST", body=b"{}", content_type="text/plain", x_form_token=token).status == 415
    )


def test_campaigns_in_progress_are_a_crawl(desk):
    write(desk, "pass", 5)
    now = time.time()
    found = Campaign("ABC123", "sharing", now - 60, now, ("192.0.2.1", "192.0.2.2"), "They share links.")
    desk.site.campaigns = lambda: [found]
    assert desk.read("now")["sentence"].startswith("Yes, by 1 campaign:")


def test_the_points_of_the_chart_are_whole_steps():
    series = _series([StepCount(1200, "refuse", "", 3, 3), StepCount(60, "pass", "", 9, 9)], 1205.0, 600, 60)
    assert series.times[-1] == 1200
    assert len(series.times) == 10
    assert series.actions["refuse"] == [0] * 9 + [3]
    assert series.actions["pass"] == [0] * 10


def write(desk: Desk, action: str, count: int, visitor: str = "192.0.2.7") -> None:
    """Write visits to the ledger, as the gate does."""
    from hedgerow.core.decision import Decision
    from hedgerow.core.visit import Visit

    evidence = () if action == "pass" else (Evidence("trap", "trap", 1.0, "Followed a hidden link."),)
    ledger = desk.site.stores.ledger
    for _ in range(count):
        visit = Visit(
            at=time.time(), visitor=visitor, prefix=visitor, address=visitor, method="GET", host="a.b",
            target=f"/?q={EVIL}", kind="page", user_agent=EVIL,
        )  # fmt: skip
        ledger.append(Entry(visit, Decision(action, evidence), 200 if action == "pass" else 403))
    done = time.monotonic() + 10
    while ledger.pending and time.monotonic() < done:
        time.sleep(0.02)
    time.sleep(0.2)

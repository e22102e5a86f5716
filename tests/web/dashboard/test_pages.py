"""The pages about campaigns, bots, models, reports and settings: what they show, and what their changes do."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing

import pytest

from hedgerow.core.decision import Campaign, Decision
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import visitor_digest
from hedgerow.web.dashboard.jobs import Jobs
from hedgerow.web.dashboard.pages import reports
from hedgerow.web.ledger_access import has_ledger, open_ledger
from hedgerow.web.watch import bundle_in_use, model_files
from real.servers import wait_for
from web.dashboard.desk import USERS, Desk


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    desk.log_in()
    yield desk
    desk.site.close()


def write(desk: Desk, *visits: Visit) -> None:
    """Write visits to the ledger, as the gate does."""
    ledger = desk.site.stores.ledger
    for visit in visits:
        ledger.append(Entry(visit, Decision("pass"), 200))
    wait_for("the ledger", lambda: not ledger.pending)
    wait_for("its rows", lambda: rows_in(desk) >= len(visits))


def rows_in(desk: Desk) -> int:
    settings = desk.site.app.settings
    if not has_ledger(settings):
        return 0
    with closing(open_ledger(settings)) as ledger:
        return ledger.newest()


def visit(address: str, target: str = "/", **more) -> Visit:
    return Visit(time.time(), address, address, address, "GET", target, **more)


# ---- Campaigns


@pytest.fixture
def campaign(desk, monkeypatch) -> Campaign:
    """Two members that use each other's links; a third has no visits in the ledger."""
    now = time.time()
    members = ("192.0.2.1", "192.0.2.2", "198.51.100.3")
    found = Campaign("c1", "sharing", now - 60, now, members, "They share links.", links=4.0, pages=5.0)
    monkeypatch.setattr(desk.site, "campaigns", lambda: [found])
    link = Marker("page", visitor_digest("192.0.2.1")[:6], b"", "/a")
    write(desk, visit("192.0.2.1"), visit("192.0.2.2", "/a", marker=link), visit("192.0.2.2", "/b", marker=link))
    return found


@pytest.mark.usefixtures("campaign")
def test_a_campaign_shows_members_networks_and_shared_links(desk):
    told = desk.read("campaigns?id=c1")
    assert [(row["id"], row["members"], row["networks"]) for row in told["rows"]] == [("c1", 3, 2)]
    detail = told["detail"]
    assert detail["networks"] == [
        {"network": "192.0.2.0/24", "members": 2},
        {"network": "198.51.100.0/24", "members": 1},
    ]
    assert {(edge["issuer"], edge["user"], edge["links"]) for edge in detail["edges"]} == {
        ("192.0.2.1", "192.0.2.2", 2)
    }
    assert [(line["member"], line["visits"]) for line in detail["lines"]] == [("192.0.2.2", 2), ("192.0.2.1", 1)]
    html = desk.ask("/dashboard/campaigns?id=c1").body.decode()
    assert html.count("<polyline") == 2
    assert "192.0.2.2 used 2 links of 192.0.2.1" in html


def test_links_of_a_visitor_who_is_no_member_are_drawn_as_well(desk, campaign):
    assert "198.51.100.9" not in campaign.members
    desk.block("198.51.100.9")
    known, unknown = (Marker("page", visitor_digest(name)[:6], b"", "/a") for name in ("198.51.100.9", "198.51.100.10"))
    paths = [("/c", known), ("/d", known), ("/e", unknown), ("/f", unknown)]
    write(desk, *(visit("192.0.2.1", path, marker=marker) for path, marker in paths))
    detail = desk.read("campaigns?id=c1")["detail"]
    others = [node["member"] for node in detail["nodes"] if not node["is_member"]]
    assert others[0] == "198.51.100.9"
    assert others[1].startswith("another visitor (")
    assert {(edge["issuer"], edge["links"]) for edge in detail["edges"] if edge["user"] == "192.0.2.1"} == {
        (name, 2) for name in others
    }


def test_all_members_of_a_campaign_are_blocked_and_forgiven(desk, campaign):
    assert desk.post("/dashboard/campaigns/block", id="c1", duration="2h", reason="a scraper").status == 303
    blocks = {block.key: block for block in desk.site.stores.state.blocks(time.time())}
    assert blocks.keys() == set(campaign.members)
    assert blocks["192.0.2.1"].evidence.text == "a scraper"
    assert 7100 < blocks["192.0.2.1"].until - time.time() <= 7200
    answer = desk.change("campaigns/forgive", id="c1")
    assert json.loads(answer.body)["message"].startswith("3 of 3 members of c1")
    assert not desk.site.stores.state.blocks(time.time())
    assert {row["change"] for row in desk.read("audit")["rows"]} >= {"campaigns.block", "campaigns.forgive"}


@pytest.mark.usefixtures("campaign")
def test_an_unknown_campaign_and_a_wrong_duration_are_sentences(desk):
    assert desk.ask("/api/v1/campaigns?id=c9").status == 404
    assert desk.change("campaigns/block", id="c9").status == 404
    assert desk.change("campaigns/block", id="c1", duration="soon").status == 422
    assert not desk.site.stores.state.blocks(time.time())


# ---- Reports


def test_old_reports_are_removed_with_their_pages(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    now = time.time()
    for name, days in (("20260101T000000Z", 11), ("20260102T000000Z", 9)):
        for suffix in (".json", ".html"):
            path = folder / f"{name}{suffix}"
            path.write_text("{}")
            os.utime(path, (now - days * 86_400,) * 2)
    Desk(tmp_path, "[privacy]\nreport_days = 10\n")
    assert sorted(path.name for path in folder.iterdir()) == ["20260102T000000Z.html", "20260102T000000Z.json"]


# ---- Bots


def test_bots_are_counted_by_what_became_of_their_claims(desk):
    write(
        desk,
        visit("192.0.2.1", bot="Googlebot", claim="Googlebot", proof="verified"),
        visit("192.0.2.2", claim="Googlebot", proof="false"),
        visit("192.0.2.3", claim="Googlebot", proof="false"),
        visit("192.0.2.4", claim="bingbot", proof="pending"),
        visit("192.0.2.5"),
    )
    rows = {row["bot"]: row for row in desk.read("bots?size=500")["rows"]}
    counted = [rows["Googlebot"][name] for name in ("verified", "unverified", "false")]
    assert counted == [1, 0, 2]
    assert rows["bingbot"]["unverified"] == 1
    assert rows["Googlebot"]["policy"] == "pass"
    assert "googlebot.com" in rows["Googlebot"]["methods"]
    assert desk.read("bots")["rows"][0]["bot"] == "Googlebot"


# ---- Models


def test_models_show_the_bundles_in_use(desk):
    told = desk.read("models")
    assert [model["kind"] for model in told["models"]] == ["paths", "windows"]
    assert told["models"][0]["shadow"] is None
    assert not told["reloads"]


def test_without_a_shadow_nothing_is_promoted(desk):
    answer = desk.change("models/promote", kind="paths")
    assert answer.status == 409
    assert b"there is no shadow bundle for paths" in answer.body


def test_a_removed_shadow_makes_the_service_read_its_models_again(desk):
    files = model_files(desk.site.app.settings)
    shadow = files.put_shadow(bundle_in_use(desk.site.app.settings, "paths"))
    reloads = []
    desk.site.request_reload = lambda: reloads.append(1)
    assert desk.change("models/promote", kind="paths").status == 409, "it was never compared"
    assert desk.change("models/drop", kind="paths").status == 200
    assert not shadow.exists()
    assert reloads == [1]


# ---- Reports


def test_a_report_on_the_ledger_is_made_listed_and_shown_apart_from_the_dashboard(desk):
    pytest.importorskip("sklearn", reason="reports need hedgerow[report]")
    write(desk, *(visit(f"192.0.2.{number % 5}", f"/{number}", user_agent="<b>curl</b>") for number in range(40)))
    assert desk.change("reports/make").status == 200
    assert desk.change("reports/make").status == 409, "one at a time"
    wait_for("the report", lambda: desk.read("reports")["last"]["ended"], patience=180)
    told = desk.read("reports")
    assert told["last"]["problem"] == ""
    row = told["rows"][0]
    assert row["requests"] == 40
    page = desk.ask(f"/dashboard/reports/document/{row['name']}")
    assert page.status == 200
    assert b"<html" in page.body
    assert desk.ask(f"/api/v1/reports/document/{row['name']}").body == page.body
    policy = page.header("content-security-policy").decode()
    assert policy.startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in policy


@pytest.mark.parametrize("name", ["../lists.sqlite", "20260101T000000Z", "%2e%2e", "x", "20260101T000000Z\n"])
@pytest.mark.parametrize("above", ["/dashboard", "/api/v1"])
def test_path_traversal_shows_nothing_but_reports(desk, above, name):
    assert desk.ask(f"{above}/reports/document/{name}").status == 404


def test_a_scheduled_report_is_made_when_it_is_due(tmp_path):
    pytest.importorskip("sklearn", reason="reports need hedgerow[report]")
    desk = Desk(tmp_path, "[admin]\nreport_every = 3600\n")
    try:
        write(desk, visit("192.0.2.1"))
        jobs = Jobs()
        reports.make_if_due(desk.site.app.settings, jobs, time.time())
        wait_for("the report", lambda: jobs.last(reports.JOB).ended, patience=180)
        first = jobs.last(reports.JOB)
        reports.make_if_due(desk.site.app.settings, jobs, time.time())
        assert jobs.last(reports.JOB) is first, "an hour has not passed"
    finally:
        desk.site.close()


# ---- Settings


@pytest.fixture
def configured(tmp_path, desk):
    """A service with a settings file."""
    file = tmp_path / "hedgerow.toml"
    file.write_text(f"directory = '{tmp_path}'  # ours\n[containment]\n# few\nk1 = 30\n{USERS}")
    desk.site.config = file
    return desk


def test_settings_say_where_they_come_from_and_hide_secrets(configured, monkeypatch):
    monkeypatch.setenv("HEDGEROW__DETAIN__SECONDS", "9")
    rows = {row["name"]: row for row in configured.read("settings?size=500")["rows"]}
    assert rows["traps.enabled"]["origin"] == "default"
    assert rows["directory"]["origin"] == "hedgerow.toml:1"
    # The file says 30, the running service has another value.
    assert rows["containment.k1"]["origin"] == "command line"
    assert rows["detain.seconds"]["origin"] in {"HEDGEROW__DETAIN__SECONDS", "command line"}
    assert "scrypt" not in json.dumps(rows)
    origins = [row["origin"] for row in configured.read("settings?size=500")["rows"]]
    assert origins.index("default") == len(origins) - origins.count("default"), "what was set comes first"
    assert "$" not in rows["admin.users"]["value"]


def test_a_change_is_tried_on_the_last_day_and_then_applied(configured, tmp_path):
    # Sixty pages of one address: more than k1.
    write(configured, *(visit("192.0.2.9", f"/{number}", origin="none") for number in range(60)))
    reloads = []
    configured.site.request_reload = lambda: reloads.append(1)
    change = "containment.k1 = 100"
    assert configured.change("settings/apply", change=change).status == 409, "it was not tried"
    assert configured.change("settings/propose", change=change).status == 200
    wait_for("the replay", lambda: configured.read("settings")["last"]["ended"], patience=180)
    told = configured.read("settings")
    assert told["last"]["problem"] == ""
    assert told["proposal"]["visitors"] == 1
    assert told["proposal"]["freed"] + told["proposal"]["stopped"] == len(told["proposal"]["affected"])
    assert configured.change("settings/apply", change=change).status == 200
    text = (tmp_path / "hedgerow.toml").read_text()
    assert "# few\nk1 = 100\n" in text
    assert "# ours" in text
    assert "k1 = 30" in (tmp_path / "hedgerow.toml.before").read_text()
    assert reloads == [1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("traps.enabled = 'many'", b"must be true or false"),
        ("containment.k9 = 1", b"is not a setting"),
        ("k1 =", b"This is not TOML"),
        ("admin.token = 'x'", b"restart the service"),
    ],
)
def test_wrong_changes_are_refused_with_a_sentence(configured, change, said, tmp_path):
    write(configured, visit("192.0.2.1"))
    before = (tmp_path / "hedgerow.toml").read_text()
    answer = configured.change("settings/propose", change=change)
    assert answer.status in {409, 422}
    assert said in answer.body
    assert (tmp_path / "hedgerow.toml").read_text() == before


@pytest.mark.parametrize(
    "change",
    ["privacy.audit_days = 5", "tls.minimum = '1.3'", "watch.queue = 9", "alerts.per_hour = 1", "policy.remember = 5"],
)
def test_what_is_read_at_the_start_only_is_not_said_to_be_in_force(configured, change):
    """It was applied, and the page said that it was in force."""
    write(configured, visit("192.0.2.1"))
    answer = configured.change("settings/propose", change=change)
    assert (answer.status, b"restart the service" in answer.body) == (409, True)


def test_sites_are_changed_in_the_file(configured):
    """The list of sites in a change would replace all of them."""
    write(configured, visit("192.0.2.1"))
    change = "[[site]]\nname = 'a'\nhosts = ['a.example']\nupstream = 'http://127.0.0.1:1'\n"
    assert configured.change("settings/propose", change=change).status == 409


def test_the_file_is_read_again_by_a_button(configured):
    assert configured.change("settings/reload").status == 409
    assert b"Read the file again" not in configured.ask("/dashboard/settings").body
    reloads = []
    configured.site.request_reload = lambda: reloads.append(1)
    assert b"Read the file again" in configured.ask("/dashboard/settings").body
    assert configured.post("/dashboard/settings/reload").status == 303
    assert configured.change("settings/reload").status == 200
    assert reloads == [1, 1]


def test_a_variable_of_the_environment_takes_precedence(configured, monkeypatch):
    write(configured, visit("192.0.2.1"))
    monkeypatch.setenv("HEDGEROW__CONTAINMENT__K1", "25")
    answer = configured.change("settings/propose", change="containment.k1 = 50")
    assert answer.status == 409
    assert b"variable of the environment" in answer.body


def test_settings_are_shown_with_rules_for_paths(tmp_path):
    """What a rule does not set has no value in TOML: this page answered with an error."""
    desk = Desk(tmp_path, "[[path]]\npath = '/a*'\ntraps = false\n[[path]]\npath = '/b'\nclearance = true\n")
    rows = {row["name"]: row for row in desk.read("settings?size=500")["rows"]}
    assert "/a*" in str(rows["path"])
    assert desk.ask("/dashboard/settings").status == 200

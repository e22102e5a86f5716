"""`hedgerow visitors export` and `forget`, with full, hashed and truncated addresses, while a Hedgerow runs."""

from __future__ import annotations

import json
import time

import pytest

from hedgerow.core.decision import PASS, Block, Decision, Evidence
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Marker, Visit
from hedgerow.ledger.reader import open_ledger_reader
from hedgerow.lists.model import Listing
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.settings import load_settings
from hedgerow.watch.models.bundle import shipped
from hedgerow.watch.watch import WatchThread
from hedgerow.web.app import Site
from hedgerow.web.gate import build_policy
from hedgerow.web.paths import ledger_path, privacy_key_path
from hedgerow.web.stores import build_hide, build_list_store
from hedgerow.web.watch import build_sessions, build_watch, model_files

from .test_visitors import ME, block_of, eventually, run  # noqa: F401 - a fixture

OTHER = "192.0.2.2"


@pytest.fixture
def start(run, monkeypatch):  # noqa: F811 - a fixture
    sites = []

    def start(form: str = "full") -> Site:
        monkeypatch.setenv("HEDGEROW__PRIVACY__ADDRESSES", form)
        site = Site(load_settings(None))
        sites.append(site)
        now = time.time()
        trap = Evidence("trap", "trap", 1.0, f"Followed a link of {ME}.", key=ME)
        for who in (ME, OTHER):
            site.stores.ledger.append(Entry(Visit(now, who, who, who, "GET", "/a"), PASS, 200))
        refused = Decision("refuse", (trap,))
        site.stores.ledger.append(Entry(Visit(now, ME, ME, ME, "GET", "/b"), refused, 403, "AAAA-BBBB"))
        site.stores.state.commit(Block(ME, ME, now, now + 600, "refuse", trap))
        build_list_store(site.app.settings).add(Listing("black", ME, "scraper", "ann", now, 0.0))
        assert eventually(lambda: len(visits(site)) == 3)
        assert eventually(lambda: json.loads(run("export", ME)[1])["blocks"])
        return site

    yield start
    for site in sites:
        site.close()


def visits(site: Site) -> list[str]:
    reader = open_ledger_reader(str(ledger_path(site.app.settings)))
    try:
        return [row[0] for batch in reader.by_time(("address",)) for row in batch]
    finally:
        reader.close()


def test_everything_about_a_visitor_is_exported(run, start, tmp_path):  # noqa: F811
    start()
    assert run("block", ME, "--reason", "again")[0] == 0
    found = json.loads(run("export", ME)[1])
    assert [(entry["change"], entry["details"]) for entry in found["audit"]] == [("visitors.block", "For 1d. again")]
    assert json.loads(run("export", OTHER)[1])["audit"] == []
    assert [visit["target"] for visit in found["visits"]] == ["/a", "/b"]
    assert found["visits"][1]["evidence"][0]["code"] == "trap"
    assert found["blocks"][0]["key"] == ME
    assert [entry["reason"] for entry in found["lists"]] == ["scraper"]
    status, out, _ = run("export", "AAAA-BBBB", "--output", str(tmp_path / "one.json"))
    assert (status, out) == (0, "")
    assert json.loads((tmp_path / "one.json").read_text())["visitor"] == ME


@pytest.mark.parametrize("form", ["full", "hashed"])
def test_a_visitor_is_forgotten_and_others_are_not(run, start, form):  # noqa: F811
    site = start(form)
    run("block", ME)
    status, out, _ = run("forget", ME)
    assert status == 0
    assert "changes in the audit log, kept for 365 days: 1" in out
    assert "2 visits are deleted from the ledger" in out
    assert f"{ME} stays on the black list; use --lists to remove it" in out
    assert len(visits(site)) == 1
    assert eventually(lambda: block_of(site) is None)
    assert f"{ME} is removed from the black list" in run("forget", ME, "--lists")[1]
    found = json.loads(run("export", ME)[1])
    assert not any(found[part] for part in ("visits", "blocks", "scores", "lists", "campaigns"))
    assert len(json.loads(run("export", OTHER)[1])["visits"]) == 1
    # Nothing of it is left in the files.
    site.close()
    if form == "full":
        assert b"/b" not in ledger_path(site.app.settings).read_bytes().replace(b"/blocks", b"")


def test_what_the_watch_has_stored_is_exported_and_deleted(run, start):  # noqa: F811
    settings = start().app.settings
    model_files(settings).put_shadow(shipped("pathmarker"))
    for who in (ME, OTHER):
        watch = WatchThread(
            build_watch(settings, build_policy(settings), lambda _: None), sessions=build_sessions(settings)
        )
        for n in range(25):
            marker = Marker("page", visitor_digest(OTHER), page_digest(f"/{n - 1}"), f"/{n}")
            watch.add(Visit(time.time() + n, who, who, who, "GET", f"/{n}", marker=marker), PASS)
        watch.close()
    (stored,) = json.loads(run("export", ME)[1])["sessions"]
    assert stored["pages"] == 25
    assert stored["links"]
    assert [one["visitor"] for one in stored["comparisons"]] == [ME] * len(stored["comparisons"])
    assert stored["comparisons"]
    assert "what the watch has stored about its last session is deleted" in run("forget", ME)[1]
    assert json.loads(run("export", ME)[1])["sessions"] == []
    assert json.loads(run("export", OTHER)[1])["sessions"][0]["pages"] == 25
    assert "last session is deleted" not in run("forget", ME)[1]


@pytest.mark.parametrize("form", ["hashed", "truncated"])
def test_the_ledger_has_no_full_address_and_a_reference_still_forgives(run, start, form):  # noqa: F811
    site = start(form)
    stored = visits(site)
    assert ME not in stored
    assert (len(set(stored)) == 2) == (form == "hashed")
    assert run("forgive", "AAAA-BBBB")[:2] == (0, f"{ME} is forgiven\n")
    assert eventually(lambda: block_of(site) is None)
    if form == "truncated":
        assert "visits with a truncated address name nobody" in run("forget", ME)[1]
        assert len(visits(site)) == 3


def test_the_key_of_hashes_is_made_once_and_is_private(start, monkeypatch):
    settings = start("hashed").app.settings
    path = privacy_key_path(settings)
    assert path.stat().st_mode & 0o777 == 0o600
    hide = build_hide(settings)
    assert hide is not None
    assert build_hide(settings)(ME) == hide(ME)
    monkeypatch.setenv("HEDGEROW__PRIVACY__KEY", "another key of the site")
    assert build_hide(load_settings(None))(ME) != hide(ME)

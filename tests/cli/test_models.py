"""`hedgerow models`: how a bundle becomes the shadow and then the one in use."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from driving import START, settings
from hedgerow.cli.main import main
from hedgerow.core.decision import PASS
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.watch.models.bundle import shipped
from hedgerow.watch.watch import WatchThread
from hedgerow.web.gate import build_policy
from hedgerow.web.watch import build_panel, build_panels, build_sessions, build_watch, configure_watch, model_files

from .said import without_place


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))

    def run(*arguments: str) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return SimpleNamespace(status=end.value.code, out=said.out, err=without_place(said.err))

    return run


@pytest.fixture
def own(tmp_path):
    return settings(f'directory = "{tmp_path}"\n')


def watched(own, visits: int = 60) -> None:
    """A crawler comes by, a watch looks on and is stopped."""
    beside = WatchThread(build_watch(own, build_policy(own), lambda _: None), sessions=build_sessions(own))
    for n in range(visits):
        marker = Marker("page", visitor_digest("192.0.2.1"), page_digest(f"/{n - 1}"), f"/{n}")
        beside.add(Visit(START + n, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", f"/{n}", marker=marker), PASS)
    beside.close()


def test_a_new_site_uses_the_shipped_bundles(run):
    said = run("models", "show")
    assert said.status == 0
    assert "paths: boosted" in said.out
    assert "windows: window" in said.out
    assert "no classifications yet" in said.out
    assert "shadow" not in said.out


def test_a_shadow_is_compared_promoted_and_taken_back(run, own):
    place = model_files(own)
    place.put_shadow(shipped("pathmarker"))
    watched(own)
    said = run("models", "show")
    assert "shadow: pathmarker" in said.out
    assert "agrees in" in said.out
    assert "of 6;" in said.out
    assert "192.0.2.1: " in said.out
    told = json.loads(run("models", "show", "--json").out)
    assert told[0]["compared"]["judgements"] == 6
    assert sum(told[0]["judged"].values()) == 6
    assert told[1]["kind"] == "windows"
    said = run("models", "promote")
    assert said.status == 1
    assert said.err.count("\n") == 1
    assert "on 6 sessions, 200 are needed" in said.err
    assert build_panel(own, "paths").bundle.name == "boosted", "nothing was replaced"
    assert build_panel(own, "paths").shadow.name == "pathmarker"
    assert run("models", "promote", "--force").status == 0
    assert build_panel(own, "paths").bundle.name == "pathmarker"
    assert build_panel(own, "paths").shadow is None
    assert run("models", "back").status == 0
    assert build_panel(own, "paths").bundle.name == "boosted"
    assert build_panel(own, "paths").shadow.name == "pathmarker"
    assert run("models", "drop").status == 0
    assert build_panel(own, "paths").shadow is None


def test_promotion_keeps_the_previous_bundle(run, own):
    place = model_files(own)
    for name in ("pathmarker", "boosted"):
        place.put_shadow(shipped(name))
        assert run("models", "promote", "paths", "--force").status == 0
    assert build_panel(own, "paths").bundle.name == "boosted"
    run("models", "back")
    assert build_panel(own, "paths").bundle.name == "pathmarker"


def test_windows_have_their_own_shadow(run, own):
    model_files(own).put_shadow(shipped("window"))
    assert build_panel(own, "windows").shadow is not None
    assert build_panel(own, "paths").shadow is None
    assert run("models", "promote", "windows", "--force").status == 0
    assert model_files(own).current("windows").is_file()


@pytest.mark.parametrize("command", ["promote", "back", "drop"])
def test_commands_without_a_bundle_are_refused(run, command):
    said = run("models", command)
    assert said.status == 1
    assert said.err.count("\n") == 1


def test_bundles_named_in_the_settings_are_not_promoted(run, own, monkeypatch):
    model_files(own).put_shadow(shipped("pathmarker"))
    monkeypatch.setenv("HEDGEROW__WATCH__MODEL", str(model_files(own).shadow("paths")))
    said = run("models", "promote")
    assert said.status == 1
    assert "[watch]" in said.err


def test_a_watch_that_reloads_bundles_keeps_its_record(own):
    watch = build_watch(own, build_policy(own), lambda _: None)
    watch.paths.record.judged["person"] = 5
    model_files(own).put_shadow(shipped("pathmarker"))
    configure_watch(watch, own, build_policy(own), build_panels(own))
    assert watch.paths.shadow.name == "pathmarker"
    assert watch.paths.record.judged == {"person": 5}
    model_files(own).promote("paths")
    configure_watch(watch, own, build_policy(own), build_panels(own))
    assert (watch.paths.bundle.name, watch.paths.shadow, watch.paths.record.judged) == ("pathmarker", None, {})


def test_a_broken_shadow_is_one_line(run, own):
    model_files(own).put_shadow(shipped("pathmarker")).write_text("{}")
    said = run("models", "show")
    assert said.status == 1
    assert "is no bundle" in said.err
    assert said.err.count("\n") == 1

"""What the live engine's detectors of density, windows and headers say of a log."""

import numpy as np
import pytest

from driving import settings
from hedgerow.core.visit import Visit
from hedgerow.report.live_opinions import DeclaredBots, detector_opinions
from hedgerow.report.model_opinions import WindowOpinion
from hedgerow.report.pipeline import Options, make
from hedgerow.report.source_labels import CRAWLER, PROGRAM
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots
from hedgerow.settings import Settings
from hedgerow.watch.models.bundle import load_window
from hedgerow.watch.sessions.path import step_of
from hedgerow.watch.sessions.window import MIN_WINDOW, SessionWindow, access_of

from .logs import BROWSER, line


@pytest.fixture
def tables(tmp_path):
    """One with 41 pages in a second, one with 41 in a minute, and one without a user agent in old HTTP."""
    fast = [line("192.0.2.1", 1_700_000_000, f"/{k}") for k in range(41)]
    slow = [line("192.0.2.2", 1_700_000_000 + k, f"/{k}") for k in range(41)]
    odd = [line("192.0.2.3", 1_700_000_000 + 9 * k, f"/{k}", agent="-") for k in range(5)]
    old = [line("192.0.2.4", 1_700_000_000 + 9 * k, f"/{k}").replace("HTTP/1.1", "HTTP/1.0") for k in range(5)]
    (tmp_path / "log").write_text("".join([*fast, *slow, *odd, *old]))
    with Tables([str(tmp_path / "log")], memory=500_000_000) as found:
        yield found


def test_density_tells_who_was_over_a_limit(tables):
    opinions = detector_opinions(tables.figures, None, Settings())
    assert list(opinions) == ["density"], "headers are judged by user agents, which are ignored here"
    found = opinions["density"]
    assert (found.probability > 0.99).tolist() == [True, False, False, False]
    assert found.speaks.tolist() == [True, False, False, False]
    assert found.evidence(np.array([0])).text == ["More than 40 pages in 1.2 seconds."]


def test_density_goes_by_the_limits_of_the_settings(tables):
    own = settings("[[density.windows]]\ncount = 2\nseconds = 60\n[[density.windows]]\ncount = 4\nseconds = 600\n")
    found = detector_opinions(tables.figures, None, own)["density"]
    assert found.speaks.tolist() == [True, True, True, True]
    assert found.evidence(np.array([1, 2])).text == ["More than 2 pages in 60 seconds."] * 2
    others = settings(
        "[[density.windows]]\ncount = 1\nseconds = 7\n[[density.windows]]\ncount = 1\nseconds = 60\nby = 'prefix'\n"
    )
    assert detector_opinions(tables.figures, None, others) == {}, "a window that a report does not count"


def test_windows_are_judged_as_the_watch_would(tables):
    bundle = load_window()
    found = WindowOpinion(tables, bundle, None)
    assert np.isnan(found.probability).tolist() == [False, False, True, True]
    window = SessionWindow()
    for k in range(MIN_WINDOW):
        visit = Visit(1_700_000_000.0 + k, "192.0.2.2", "192.0.2.2", "192.0.2.2", "GET", f"/{k}", user_agent=BROWSER)
        window.add(access_of(visit, step_of(visit)))
    assert found.probability[1] == pytest.approx(bundle.judge_session(window).probability)
    assert found.speaks[1:].tolist() == [True, False, False]
    (text,) = found.evidence(np.array([1])).text
    assert text.startswith("1 of 1 windows of 27 to 40 page visits")


def test_what_a_user_agent_declares_counts_in_its_windows(tables):
    hidden, seen = (
        WindowOpinion(tables, load_window(), None),
        WindowOpinion(tables, load_window(), DeclaredBots(tables, Bots())),
    )
    assert (seen.probability[:2] == hidden.probability[:2]).all()
    declared = DeclaredBots(tables, Bots())
    declared.state[1] = PROGRAM
    assert WindowOpinion(tables, load_window(), declared).probability[1] > hidden.probability[1]


def test_headers_are_said_and_do_not_count(tables):
    found = detector_opinions(tables.figures, DeclaredBots(tables, Bots()), Settings())["headers"]
    assert found.speaks.tolist() == [False, False, True, True]
    evidence = found.evidence(np.array([3, 2]))
    assert evidence.whom.tolist() == [0, 1]
    assert [found.codes[kind] for kind in evidence.kind] == ["browser-http", "no-agent"]
    assert BROWSER.startswith("Mozilla/5.0")
    assert set(found.probability != found.probability) == {True}


def test_both_are_part_of_a_report(tables):
    report = make(tables, Bots(), Options())
    assert report.judgements.label[0] == CRAWLER
    assert "density" in {one.detector for one in report.source(0).evidence}
    assert "headers" in {one.detector for one in report.source(2).evidence}
    hidden = make(tables, Bots(), Options(ignore_agents=True))
    assert "headers" not in {one.detector for one in hidden.source(2).evidence}

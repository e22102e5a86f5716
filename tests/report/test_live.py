"""What the live engine's detectors of density and headers say of a log."""

import pytest

from hedgerow.analyse.tables import Tables
from hedgerow.identity.bots import Bots
from hedgerow.report.declared import Declared
from hedgerow.report.judging import CRAWLER
from hedgerow.report.live import ByDensity, ByHeaders
from hedgerow.report.making import Options, make
from hedgerow.settings.schema import DEFAULT_WINDOWS

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
    found = ByDensity(tables.figures, DEFAULT_WINDOWS)
    assert (found.probability > 0.99).tolist() == [True, False, False, False]
    assert [one.text for one in found.evidence(0)] == ["More than 40 pages in 1.2 seconds."]
    assert found.evidence(1) == []


def test_headers_are_said_and_do_not_count(tables):
    found = ByHeaders(tables.figures, Declared(tables, Bots()))
    codes = [[one.code for one in found.evidence(k)] for k in range(4)]
    assert codes == [[], [], ["no-agent"], ["browser-http"]]
    assert BROWSER.startswith("Mozilla/5.0")
    assert set(found.probability != found.probability) == {True}


def test_both_are_part_of_a_report(tables):
    report = make(tables, Bots(), Options())
    assert report.judgements.label[0] == CRAWLER
    assert "density" in {one.detector for one in report.judgements.evidence(0)}
    assert "headers" in {one.detector for one in report.judgements.evidence(2)}
    hidden = make(tables, Bots(), Options(ignore_agents=True))
    assert "headers" not in {one.detector for one in hidden.judgements.evidence(2)}

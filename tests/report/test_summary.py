"""The first sentences of a report: cost, what to do, whom to spare, how certain."""

from __future__ import annotations

import pytest

from hedgerow.report.pipeline import Options, make
from hedgerow.report.summary import deeds, summary_of
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from report.logs import line, site_log


def reported(path, *lines: str):
    path.write_text("".join(lines))
    with Tables([str(path)], memory=10**9) as tables:
        report = make(tables, Bots(known=known_bots()), Options())
        return summary_of(report), {name: deeds(report, place) for place, name in enumerate(tables.sources)}


@pytest.fixture
def alphabetical() -> list[str]:
    at = 1_700_000_000.0
    return [
        line("203.0.113.9", at + n, f"/topic/{1000 + n}", status=404 if n % 5 < 2 else 200, agent="curl/8.0")
        for n in range(300)
    ]


def test_it_says_who_crawls_what_it_costs_and_what_to_do(tmp_path, alphabetical):
    summary, told = reported(tmp_path / "log", site_log(), *alphabetical)
    assert summary.headline.startswith("11 crawlers made ")
    assert any("In the busiest hour (" in sentence for sentence in summary.cost)
    assert summary.first[0].startswith("Block 203.0.113.9 first: it made 13 % of the requests. It opened 300 pages")
    assert "30 sources look like people." in summary.spare
    assert summary.certainty == [
        "11 of 11 crawlers have at least two independent kinds of evidence. Only those can be listed."
    ]
    assert told["203.0.113.9"] == (
        "opened 300 pages in alphabetical order within 6 minutes, 40 % missing, never with an image or style, "
        "never by a link"
    )


def test_a_person_with_thousands_of_pages_is_shown_as_a_contradiction(tmp_path):
    at, lines = 1_700_000_000.0, []
    for n in range(3000):
        page = f"http://e.org/topic/{n % 50}"
        lines.append(line("203.0.113.9", at + n, f"/topic/{n}", referrer=page))
        lines += [line("203.0.113.9", at + n, f"/i/{k}.png", referrer=f"http://e.org/topic/{n}") for k in range(3)]
    summary, _ = reported(tmp_path / "log", site_log(crawlers=1), *lines)
    (sentence,) = [one for one in summary.certainty if "contradicts itself" in one]
    assert "203.0.113.9, opened 3,000 pages" in sentence


def test_without_crawlers_there_is_nothing_to_do(tmp_path):
    summary, _ = reported(tmp_path / "log", site_log(crawlers=0))
    assert summary.headline == "No crawler was found. People made 100 %."
    assert summary.cost == summary.first == summary.certainty == []

"""Very many sources that send one and the same request are a sweep. People who look similar are not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from hedgerow.report.blocklist import listings
from hedgerow.report.pipeline import Options, make
from hedgerow.report.summary import deeds
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots

from .logs import line, site_log

OTHER = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
)
START = 1_700_000_000.0
COUNT = 300


def labels(path: Path, lines: Iterable[str], **options) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """Return the label and kind of each source, and the listed sources."""
    path.write_text("".join(lines), "latin-1")
    with Tables([str(path)], memory=500_000_000) as tables:
        report = make(tables, Bots(known=known_bots()), Options(**options))
        places = range(len(tables.sources))
        found = {one.source: (one.label, one.kind) for one in report.sources_at(places)}
        return found, {one.subject for one in listings(report, since=0.0, until=0.0, sure=0.5)}


def address(n: int) -> str:
    return f"{20 + n % 100}.{n % 256}.113.7"


def visits(*, agents: int = 1, network: bool = False, targets: int = 1, days: int = 1) -> list[str]:
    return [
        line(
            f"203.0.{n // 200}.{n % 200}" if network else address(n),
            START + 300 * n + 86_400 * day,
            f"/topic/{n % targets}" if targets > 1 else "/",
            agent=OTHER.replace("130", str(130 + n % agents)),
        )
        for n in range(COUNT)
        for day in range(days)
    ]


def test_sources_that_all_send_the_same_single_request_are_a_sweep(tmp_path):
    found, listed = labels(tmp_path / "log", [site_log(people=3, crawlers=0), *visits()])
    assert {found[address(n)] for n in range(COUNT)} == {("crawler", "sweep")}
    assert {found[f"192.0.2.{n}"][0] for n in range(3)} == {"person"}
    assert not listed
    # With user agents hidden nothing ties them together.
    found, _ = labels(tmp_path / "log", [site_log(people=3, crawlers=0), *visits()], ignore_agents=True)
    assert {found[address(n)][0] for n in range(COUNT)} == {"unknown"}


def test_what_a_source_did_as_part_of_a_sweep_is_said_in_words(tmp_path):
    (tmp_path / "log").write_text("".join([site_log(people=3, crawlers=0), *visits()]))
    with Tables([str(tmp_path / "log")], memory=500_000_000) as tables:
        report = make(tables, Bots(known=known_bots()), Options())
        said = deeds(report, tables.sources.index(address(5)))
    assert said == "made 1 request for the same page as very many others"


PEOPLE = {
    "several browsers open a landing page": visits(agents=4),
    "an office with one browser": visits(network=True),
    "they come for different pages": visits(targets=5),
    "they come back each day": visits(days=3),
    "some read on": [*visits(), *(line(address(n), START + 300 * n + 40, "/topic/1", agent=OTHER) for n in range(6))],
    "others visit, too": [
        *visits(),
        *(line(f"{90 + n}.1.2.3", START + n, "/", agent=OTHER.replace("130", f"{60 + n}")) for n in range(50)),
    ],
    "some come from a link": [
        *visits(),
        *(line(f"{90 + n}.1.2.3", START + n, "/", referrer="https://search.example/", agent=OTHER) for n in range(6)),
    ],
}


@pytest.mark.parametrize("who", PEOPLE)
def test_people_who_open_one_page_are_no_sweep(tmp_path, who):
    found, listed = labels(tmp_path / "log", [site_log(people=3, crawlers=0), *PEOPLE[who]])
    assert "crawler" not in {label for label, _ in found.values()}
    assert not listed


def test_someone_who_comes_back_on_another_day_is_not_part_of_a_sweep(tmp_path):
    again = line(address(0), START + 3 * 86_400, "/", agent=OTHER)
    found, _ = labels(tmp_path / "log", [site_log(people=3, crawlers=0), *visits(), again])
    assert found[address(0)][0] == "unknown"
    assert found[address(1)] == ("crawler", "sweep")

"""The page: one file, the same bytes each time, nothing of a log is markup, and of a size that opens."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import contextmanager
from html.parser import HTMLParser

import numpy as np
import pytest

from hedgerow.report.chart_data import overlays_of, portraits_of, step_of, traffic_of
from hedgerow.report.html.charts import lasting, round_step
from hedgerow.report.html.page import page
from hedgerow.report.html.tables import Column, cut, escaped, percent, table, text
from hedgerow.report.pipeline import Options, make
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from report.weeks import BEGIN, DAY, HOSTILE, busy_log, hostile_log, line

YEAR = 365 * DAY


@contextmanager
def reported(*paths, **options):
    with Tables([str(path) for path in paths], memory=500_000_000) as tables:
        yield make(tables, Bots(known=known_bots()), Options(**options))


def page_of(*paths, **options) -> str:
    with reported(*paths, **options) as report:
        return "".join(page(report))


class Tags(HTMLParser):
    """The tags of a page with their attributes, and whether each that was opened is closed."""

    VOID = frozenset({"meta", "br", "input", "link", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    return busy_log(tmp_path_factory.mktemp("logs") / "busy.log")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return hostile_log(tmp_path_factory.mktemp("logs") / "hostile.log")


def test_same_log_same_bytes(busy):
    assert page_of(busy) == page_of(busy)


def test_has_every_section(busy):
    """Crawlers with three charts each, a campaign, heuristics and rules in words, containment, tables."""
    text = page_of(busy)
    sections = re.findall(r'<section id="([a-z]+)"', text)
    assert sections == ["summary", "traffic", "crawlers", "campaigns", "sources", "reasons", "containment"]
    assert text.count("<article") == text.count(">Auto-correlation</figcaption>") == 4
    assert "At least" in text
    assert "in training)" in text
    assert "198.51.100.7" in text


@pytest.mark.parametrize("log", ["busy", "hostile"])
def test_nothing_is_asked_for_and_nothing_else_may_run(log, request):
    """No address in any attribute, no script but ours, and its digest and that of the style stand in the policy."""
    text = page_of(request.getfixturevalue(log))
    tags = Tags(text).found
    assert [tag for tag, _ in tags].count("script") == [tag for tag, _ in tags].count("style") == 1
    assert {tag for tag, _ in tags}.isdisjoint({"img", "link", "iframe", "object", "base", "form"})
    for _, attributes in tags:
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "style", "srcset"}]
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    for tag in ("style", "script"):
        code = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_what_a_visitor_wrote_is_shown_and_is_no_markup(hostile):
    text = page_of(hostile)
    assert text.isascii()
    assert "alert(document.domain)" in text
    assert HOSTILE not in text
    assert "<script>alert" not in text
    assert "onerror=alert(1)>" not in text
    assert "\\x1b[2J" in text
    assert "&lt;script&gt;" in text


def test_hidden_user_agents_are_not_shown(busy):
    text = page_of(busy, ignore_agents=True)
    assert "examplebot" not in text
    assert "Firefox/140.0" not in text


@pytest.mark.parametrize(
    "times",
    [[BEGIN], [BEGIN] * 9, [BEGIN, BEGIN + 1], [BEGIN, BEGIN + 40], [-30_000_000_000, BEGIN], [BEGIN, BEGIN + 3 * DAY]],
)
def test_any_span_has_a_page(tmp_path, times):
    """One line, one second, two, a short while, a thousand years, two lines days apart."""
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(line("192.0.2.1", at, f"/{k}", agent="bot") for k, at in enumerate(times)))
    assert "</html>" in page_of(log)


def test_a_log_of_bad_lines_has_a_page(tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(line("192.0.2.1", BEGIN, "/") + b"<i>nothing</i>\n" * 30)
    text = page_of(log)
    assert "30 of 31 lines" in text
    assert "&lt;i&gt;nothing" in text


def test_a_years_log_stays_below_three_megabytes(tmp_path):
    """Even where thousands of user agents are nothing but quotation marks and each escape makes six bytes of one."""
    log = tmp_path / "a.log"
    lines = []
    for number in range(1500):
        address = f"10.{number // 256}.{number % 256}.1"
        for step in range(6):
            at = BEGIN + (number * 6 + step) * YEAR / 9000
            lines.append(line(address, at, f"/{step}", agent='"' * 300 + f"bot{number}"))
    log.write_bytes(b"".join(lines))
    text = page_of(log)
    assert len(text) < 3_000_000
    assert "more sources did not fit in here" in text


def test_portraits_add_up(busy):
    with reported(busy) as report:
        plan, portraits = portraits_of(report)
        assert portraits[0].source.source == "198.51.100.7"
        for one in portraits:
            whole = np.array(one.trend) + one.season + one.rest
            assert np.allclose(whole, one.counts, atol=1e-9)
            assert len(one.coefficients) == len(one.errors) == plan.lags
        traffic = traffic_of(report)
        assert sum(map(sum, traffic.counts.values())) == report.read_counts.parsed
        for overlay in overlays_of(report):
            assert np.allclose(np.sum(overlay.series, axis=1), 1.0)


def test_workers_that_go_together_are_a_campaign(busy):
    with reported(busy) as report:
        together = {"203.0.113.1", "203.0.113.2", "203.0.113.3"}
        assert [set(one.members) for one in report.campaigns] == [together]
        assert (
            not {one.source for one in map(report.source, report.ranked.tolist()) if one.label == "person"} & together
        )


def test_a_table_says_what_it_leaves_out():
    rows = [[text(f"{k:03}")] for k in range(120)]
    told = "".join(table("t", "T", [Column("a")], rows, 120, budget=2700, more="{} more"))
    left = re.search(r"(\d+) more</p>", told)
    assert left
    assert told.count("<td>") == 120 - int(left[1])
    assert told.count('class="beyond"') == told.count("<td>") - 100
    assert "The first 100 rows are printed" in told


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.00004, "0.004 %"),
        (0.0324, "3.2 %"),
        (0.5, "50 %"),
        (0.996, "99.6 %"),
        (0.99999, "99.99 %"),
        (1, "100 %"),
    ],
)
def test_no_share_is_rounded_to_nothing_or_all(share, words):
    assert percent(share) == words


def test_words():
    assert lasting(1800) == "30 minutes"
    assert lasting(86_400) == "day"
    assert cut("a" * 300, 10) == "aaaaaaaaaa ..."
    assert escaped("<é>") == "&lt;&#233;&gt;"
    assert round_step(37) == 10
    assert step_of(7 * DAY) == 3600
    assert all(span / step_of(span) < 200 for span in (0, 1, 3600, 5e4, 1e6, YEAR, 1000 * YEAR))


def test_who_goes_the_same_way_hours_later_is_drawn_in_step(tmp_path):
    """Three workers all over the world with one plan, each of which begins at its own hour."""
    chance = np.random.default_rng(7)
    plan = chance.poisson(chance.gamma(0.7, 1, 100) * 25)
    hours = {"198.51.100.9": 0, "203.0.113.77": 4, "192.0.2.200": 11}
    lines = []
    for address, later in hours.items():
        for half_hour, requests in enumerate(plan.tolist()):
            for number in range(requests):
                at = BEGIN + DAY + later * 3600 + half_hour * 1800 + number * 1800 / requests
                lines.append((at, line(address, at, f"/{chance.integers(1 << 30)}")))
    lines += [(at, line("192.0.2.1", at, "/", agent="another")) for at in (BEGIN, BEGIN + 5 * DAY)]
    log = tmp_path / "log"
    log.write_bytes(b"".join(text for _, text in sorted(lines)))
    with reported(log) as report:
        (campaign,) = report.campaigns
        assert set(campaign.members) == set(hours)
        assert len({hours[name] * 3600 + campaign.shifts.get(name, 0) for name in hours}) == 1
        assert '"shifts":{' in "".join(report.to_json())
        (overlay,) = overlays_of(report)
        rows = np.array(overlay.series)
        assert np.allclose(rows.sum(axis=1), 1.0)
        assert np.corrcoef(rows).min() > 0.99
        text = "".join(page(report))
    assert "each shifted to where all are in step" in text

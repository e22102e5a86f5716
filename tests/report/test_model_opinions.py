"""The shape of traffic is listened to, and campaigns are found among those who are no people."""

from __future__ import annotations

import numpy as np

from hedgerow.report.model_opinions import ShapeOpinion
from hedgerow.report.pipeline import Options, make
from hedgerow.report.shape.series import Counts
from hedgerow.report.tables.local_store import LocalStore
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots

from .weeks import BEGIN, DAY, busy_log, line

NEWEST = "Mozilla/5.0 (Windows NT 10.0; rv:150.0) Gecko/20100101 Firefox/150.0"


def test_counts_and_seconds_are_those_of_single_requests(tmp_path):
    """What the tables give is what the requests one by one would."""
    log = busy_log(tmp_path / "a.log")
    with Tables([str(log)], memory=500_000_000) as tables:
        shape = ShapeOpinion(tables)
        assert isinstance(tables.store, LocalStore)
        source, t = (np.concatenate([rows[name] for rows in tables.store.rows()]) for name in ("source", "t"))
        place = np.searchsorted(tables.figures.sources, source)
        times, size = t / 1e6, len(tables.sources)
        wanted = Counts.of_times(place, times, shape.plan, size)
        for one, other in zip(shape.counts, wanted, strict=True):
            assert np.array_equal(one, other)
        for name, scale in (("seconds", 1), ("tens", 10), ("minutes", 60)):
            different = set(zip(place.tolist(), (times // scale).tolist(), strict=True))
            found = np.bincount([source for source, _ in different], minlength=size)
            assert np.array_equal(tables.figures[name], found), name


def test_a_steady_crawler_is_told_by_its_shape(tmp_path):
    log = busy_log(tmp_path / "a.log", agent=NEWEST)
    with Tables([str(log)], memory=500_000_000) as tables:
        shape = ShapeOpinion(tables)
        steady = tables.sources.index("198.51.100.7")
        assert shape.probability[steady] > 0.7
        assert shape.speaks[steady]
        assert len(shape.evidence(np.array([steady])).text) == 1
        assert shape.rules


def test_a_short_log_has_no_shape(tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(line("192.0.2.1", BEGIN + 60 * k, f"/{k}") for k in range(300)))
    with Tables([str(log)], memory=500_000_000) as tables:
        shape = ShapeOpinion(tables)
        assert np.isnan(shape.probability).all()
        assert not shape.speaks.any()


def test_people_with_the_newest_browser_are_no_campaign(tmp_path):
    """They come for a page or two, so nobody knows what they are; but they bring its style along."""
    log = busy_log(tmp_path / "a.log")
    lines = []
    for person in range(40):
        address, at = f"10.{person}.7.1", BEGIN + person * DAY / 20
        lines.append(line(address, at, f"/topic/{person}", referrer="https://search.example/", agent=NEWEST))
        lines.append(line(address, at + 1, "/a.css", referrer=f"http://site.example/topic/{person}", agent=NEWEST))
    with log.open("ab") as file:
        file.writelines(lines)
    with Tables([str(log)], memory=500_000_000) as tables:
        report = make(tables, Bots(known=known_bots()), Options())
        assert report.campaigns
        assert not [name for one in report.campaigns for name in one.members if name.startswith("10.")]

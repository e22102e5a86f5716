"""What all sources together say that nobody holds to be crawlers."""

from types import SimpleNamespace

import numpy as np
import pytest

from hedgerow.report.residual_traffic import residual_traffic
from hedgerow.report.shape.daily_rhythm import NIGHT
from hedgerow.report.shape.series import Counts, plan_of
from hedgerow.report.source_labels import CRAWLER, PERSON, UNKNOWN

DAYS = 6


def crowd(at_night: int, days: int = DAYS):
    """Sources of one request each, so many of them in each half-hour of a night, and a crawler that never sleeps."""
    bins = np.arange(48 * days)
    each = np.where(bins % 48 < 16, at_night, 20)
    rows = np.arange(each.sum())
    label = np.where(rows % 3, UNKNOWN, PERSON)
    busy = np.full(len(bins), len(rows))
    counts = Counts(
        np.concatenate([rows, busy]), np.concatenate([np.repeat(bins, each), bins]),
        np.concatenate([np.ones(len(rows)), np.full(len(bins), 500.0)]), len(rows) + 1,
    )  # fmt: skip
    shapes = SimpleNamespace(plan=plan_of(0.0, days * 86400.0 - 1), counts=counts, night=NIGHT)
    return residual_traffic(SimpleNamespace(label=np.append(label, CRAWLER)), shapes)


@pytest.mark.parametrize(("at_night", "crawl"), [(3, False), (19, True)])
def test_a_crowd_sleeps_and_a_scraper_does_not(at_night, crawl):
    found = crowd(at_night)
    assert found.rhythm.crawl is crawl
    assert found.sources == found.requests == DAYS * (16 * at_night + 32 * 20)
    assert found.text.startswith(f"The {found.sources:,} sources that are not held to be crawlers")
    assert ("may hide among them" in found.text) is crawl


def test_of_a_short_log_nothing_is_said():
    assert crowd(19, days=2).text == ""
    assert crowd(19, days=1) is None

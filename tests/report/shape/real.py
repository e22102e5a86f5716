"""Series of the real log that stands beside the checkout, where it does."""

import numpy as np
import pytest

from datasets import LOGS
from hedgerow.logs.reader import LogReader
from hedgerow.report.shape.series import Counts, plan_of

LOG = LOGS / "french-site_2009-03_2009-04.log.xz"


def real_counts():
    if not LOG.is_file():
        pytest.skip(f"the real log is not there: {LOG}")
    visits = [(visit.address, visit.at) for visit in LogReader([str(LOG)])]
    names = sorted({name for name, _ in visits})
    number = {name: n for n, name in enumerate(names)}
    times = np.array([at for _, at in visits])
    plan = plan_of(times.min(), times.max())
    return Counts.of_times([number[name] for name, _ in visits], times, plan, len(names)), plan


def real_series(points=240):
    counts, _ = real_counts()
    sources = np.argsort(-counts.totals, kind="stable")[:12]
    sources.sort()
    rows = np.zeros((len(sources), points))
    for part, block in counts.blocks(sources, np.zeros(len(sources), dtype=int), points):
        rows[part] = block
    return rows[rows.sum(axis=1) > 0]

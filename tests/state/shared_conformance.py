"""
What a state must do that several processes share. A store's test file says how another process opens the same one:

    class TestLmdbShared(SharedConformance):
        def shared(self, windows): ...      a function that can be pickled, and its arguments
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from hedgerow.core.rate_limit import RATE_PER_VISIT, RateLimit
from ledger.visits import EACH, visit

from .state_conformance import ANN, START, ask

PROCESSES = 8


class SharedConformance:
    def shared(self, windows: Sequence[RateLimit]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        raise NotImplementedError

    @pytest.mark.slow
    def test_counters_blocks_and_standings_of_8_processes_are_one(self):
        windows = (RateLimit(count=100_000, seconds=100.0), RateLimit(count=100_000, seconds=100.0, by="prefix"))
        opened = self.shared(windows)
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            seen = [one for found in pool.starmap(visit, [(opened, n) for n in range(PROCESSES)], 1) for one in found]
        total = PROCESSES * EACH
        # Each visit got a number of its own, from the first to the last: no count was lost, none was made up.
        assert sorted(of_prefix for _, of_prefix in seen) == list(range(1, total + 1))
        make, arguments = opened
        with closing(make(*arguments)) as state:
            memory = state.record_visit(ask(1.0, site_rate=True))
            assert memory.site_rate == pytest.approx((total + 1) * RATE_PER_VISIT)
            assert memory.counts == (total // 2 + 1, total + 1)
            assert memory.score.suspicious_visits == PROCESSES
            assert memory.score.reasons == (("a", PROCESSES),)
            assert state.record_visit(ask(1.0, ANN)).strikes == PROCESSES
            assert {block.key for block in state.blocks(START)} == {f"account:{n}" for n in range(PROCESSES)}

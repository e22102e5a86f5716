"""The state in LMDB: what every state must do, and what several processes and a fixed size ask of it."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from hedgerow.core.rate_limit import RateLimit
from hedgerow.errors import StoreError
from hedgerow.state.lmdb.state import LmdbState, remove_environment
from state.shared_conformance import SharedConformance
from state.state_conformance import WINDOW, StateConformance, ask, block
from state.state_machine import compared

_numbers = itertools.count()


class TestLmdbState(StateConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory):
        TestLmdbState.folder = tmp_path_factory.mktemp("lmdb")
        TestLmdbState.opened = []
        yield
        for state in TestLmdbState.opened:
            state.close()

    def state(self, windows, **options):
        if len(self.opened) > 20:
            self.opened.pop(0).close()
        state = LmdbState(self.folder / f"{next(_numbers)}.lmdb", windows, **options)
        self.opened.append(state)
        return state


class TestLmdbShared(SharedConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def shared(self, windows):
        return LmdbState, (self.folder / "state.lmdb", windows)


class _Temporary(LmdbState):
    """A state that takes its file along when it is closed."""

    def __init__(self, windows, **options):
        self._folder = tempfile.TemporaryDirectory()
        super().__init__(Path(self._folder.name) / "state.lmdb", windows, **options)

    def close(self):
        super().close()
        self._folder.cleanup()


TestLmdbMachine = compared(_Temporary).TestCase


@pytest.mark.slow
def test_many_addresses_stay_within_the_budget_and_the_late_ones_are_known(tmp_path):
    budget = 1_000_000
    with closing(LmdbState(tmp_path / "state.lmdb", (RateLimit(count=40, seconds=1e6),), memory=budget)) as state:
        for n in range(30_000):
            state.record_visit(ask(n, f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"))
        assert state.bytes_used <= budget * 1.1
        assert len(state) + state.forgotten == 30_000
        assert len(state) > 3_000
        last = [state.record_visit(ask(30_000, f"10.0.{n >> 8 & 255}.{n & 255}")).counts for n in range(29_900, 30_000)]
        assert last.count((2,)) > 95
        # Who was here first is gone.
        first = [state.record_visit(ask(30_000, f"10.0.{n >> 8 & 255}.{n & 255}")).counts for n in range(100)]
        assert first.count((1,)) > 95


def test_who_has_left_every_window_is_swept_out_as_others_come(tmp_path):
    with closing(LmdbState(tmp_path / "state.lmdb", WINDOW)) as state:
        for n in range(500):
            state.record_visit(ask(0.0, f"10.0.{n // 250}.{n % 250}"))
        for n in range(500):
            state.record_visit(ask(3.0 + n / 1000, f"10.1.{n // 250}.{n % 250}"))
        assert len(state) < 600
        assert state.forgotten == 0


def _die_in_the_middle(path: Path) -> None:
    state = LmdbState(path, WINDOW)
    state.commit(block("kept", "kept"))
    with state.writing() as txn:
        txn.put(b"half", b"done", db=state.more)
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_leaves_nothing_behind_and_holds_nobody_up(tmp_path):
    path = tmp_path / "state.lmdb"
    with closing(LmdbState(path, WINDOW)) as state:
        state.record_visit(ask(0.0))
        dying = multiprocessing.get_context("spawn").Process(target=_die_in_the_middle, args=(path,))
        dying.start()
        dying.join(60)
        assert dying.exitcode == -signal.SIGKILL
        assert state.record_visit(ask(0.1)).counts == (2,)
        assert [one.key for one in state.blocks(ask().at)] == ["kept"]
        with state.writing() as txn:
            assert txn.get(b"half", db=state.more) is None


def test_a_file_that_is_full_forgets_its_counters_and_goes_on(tmp_path):
    with closing(LmdbState(tmp_path / "state.lmdb", WINDOW, memory=1_000)) as state:
        state.record_visit(ask(0.0))
        state.commit(block("kept", "kept"))

        def fill() -> None:
            with state.writing() as txn:
                for n in range(100_000):
                    txn.put(b"%d" % n, bytes(4_000), db=state.more)

        with pytest.raises(StoreError, match="set memory higher"):
            fill()
        assert state.record_visit(ask(0.1)).counts == (1,)
        assert state.record_visit(ask(0.1, "kept")).block is not None


def test_a_state_that_cannot_be_opened_says_so_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the state"):
        LmdbState(tmp_path / "file" / "state.lmdb", WINDOW)


def test_what_is_left_of_the_last_start_is_removed(tmp_path):
    path = tmp_path / "state.lmdb"
    with closing(LmdbState(path, WINDOW)) as state:
        state.commit(block())
    remove_environment(path)
    remove_environment(path)
    assert list(tmp_path.iterdir()) == []

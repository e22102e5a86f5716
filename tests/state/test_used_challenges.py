"""The stores of spent challenges."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest

from hedgerow.state.used_challenges import MemoryUsedChallenges, SqliteUsedChallenges

from .used_challenges_conformance import NOW, UsedChallengesConformance, name


class TestMemory(UsedChallengesConformance):
    @pytest.fixture
    def opened(self):
        return MemoryUsedChallenges


class TestSqlite(UsedChallengesConformance):
    @pytest.fixture
    def opened(self, tmp_path):
        return lambda **more: SqliteUsedChallenges(tmp_path / "state" / "spent.sqlite", **more)

    @pytest.mark.slow
    def test_another_process_knows(self, opened, tmp_path):
        """Eight processes spend the same challenges: each is spent by one of them."""
        opened().mark_used(name(0), NOW + 30, NOW)
        code = (
            "import sys; from pathlib import Path\n"
            "from hedgerow.state.used_challenges import SqliteUsedChallenges\n"
            "spent = SqliteUsedChallenges(Path(sys.argv[1]))\n"
            f"print(sum(spent.mark_used(n.to_bytes(12, 'big'), {NOW + 30}, {NOW}) for n in range(201)))"
        )
        path = str(tmp_path / "state" / "spent.sqlite")
        running = [
            subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) for _ in range(4)
        ]
        assert sum(int(process.communicate()[0]) for process in running) == 200

    def test_it_outlives_a_restart(self, opened):
        first = opened()
        first.mark_used(name(1), NOW + 30, NOW)
        first.close()
        assert opened().mark_used(name(1), NOW + 30, NOW) is False

    def test_a_file_that_cannot_be_written_accepts_nothing(self, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        spent = SqliteUsedChallenges(tmp_path / "file" / "spent.sqlite")
        assert spent.mark_used(name(1), NOW + 30, NOW) is False
        assert "none is accepted" in caplog.text

    def test_a_file_that_is_no_database_accepts_nothing(self, tmp_path):
        path = tmp_path / "spent"
        path.write_bytes(b"not a database" * 100)
        assert SqliteUsedChallenges(path).mark_used(name(1), NOW + 30, NOW) is False

    def test_it_is_its_owners_alone(self, opened, tmp_path):
        opened().mark_used(name(1), NOW + 30, NOW)
        assert stat.S_IMODE((tmp_path / "state" / "spent.sqlite").stat().st_mode) == 0o600

    def test_nothing_is_opened_before_it_is_needed(self, opened, tmp_path):
        opened().close()
        assert not (tmp_path / "state").exists()

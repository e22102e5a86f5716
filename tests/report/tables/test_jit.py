"""Kernels give the same in plain Python and compiled, and what is compiled is kept in a few directories only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.report.tables.jit import Kernel, _remove_old

LINE = '192.0.2.{} - - [10/Oct/2000:13:55:36 -0700] "GET /{} HTTP/1.1" 200 1 "-" "Mozilla/5.0"\n'


@Kernel
def _doubled(number: int) -> int:
    return 2 * number


@Kernel
def _more(number: int) -> int:
    """One more than the double of *number*."""
    return _doubled(number) + 1


def test_a_kernel_calls_kernels_be_it_compiled_or_not():
    assert _more(3) == _more.compiled(3) == 7
    assert (_more.__name__, _more.__doc__) == ("_more", "One more than the double of *number*.")


def test_only_the_directories_that_were_used_last_are_kept(tmp_path: Path):
    for age in range(6):
        path = tmp_path / f"compiled-{age}"
        path.mkdir()
        (path / "code.nbc").touch()
        os.utime(path, (1000 - age, 1000 - age))
    other = tmp_path / "other"
    other.mkdir()
    _remove_old(tmp_path / "compiled-5")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "compiled-0",
        "compiled-1",
        "compiled-2",
        "compiled-5",
        "other",
    ]


@pytest.mark.parametrize("lines", [2000, 60_000])
def test_only_large_logs_need_numba(tmp_path: Path, lines: int):
    log = tmp_path / "log"
    log.write_text("".join(LINE.format(n % 250, n % 40) for n in range(lines)))
    code = (
        "import sys\n"
        "from hedgerow.report.tables.source_tables import Tables\n"
        "with Tables([sys.argv[1]], memory=500_000_000) as tables: assert len(tables.sources) == 250\n"
        "print('numba' in sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
    assert told.stdout == f"{lines > 10_000}\n"


def test_nothing_happens_on_import(tmp_path: Path):
    code = (
        "import os, sys\n"
        "before = dict(os.environ)\n"
        "import hedgerow.report.pipeline, hedgerow.report.tables.source_tables\n"
        "assert dict(os.environ) == before\n"
        "assert 'numba' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_kept_it_works_all_the_same(tmp_path: Path):
    taken = tmp_path / "taken"
    taken.touch()
    code = "from report.tables.test_jit import _more\nassert _more.compiled(3) == 7\n"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(taken)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)

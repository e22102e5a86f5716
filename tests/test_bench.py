"""Benchmarks can be started. What they call is checked by mypy (`bench/mypy.ini`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The arena takes what `make arena` installs.
BENCHMARKS = sorted(path.stem for path in (ROOT / "bench").glob("[a-z]*.py"))


@pytest.mark.slow
def test_all_that_benchmarks_import_is_there():
    code = "import importlib, sys; [importlib.import_module(f'bench.{name}') for name in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", code, *BENCHMARKS], cwd=ROOT, check=True, timeout=120)

"""What `tools/compare-bench` reads in the output of benchmarks."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools/compare-bench"
OUTPUT = """== page
lxml parses, changes and serialises it                  394 µs    1.00 of lxml
clean marks and bait, page not seen before              613 µs    1.56 of lxml   goal 0.8
page of 37,683 bytes, gzipped 1,424
passed on as it is                       101.5 µs CPU a page    2.50 times nginx
  1,000,000 lines:     3.1 s,     4.5 s of CPU, 0.30 GB,    322,580 lines/s
goal: at most 30 µs; the slowest is 30.6 µs (challenge, pass)
"""


def test_times_are_read_by_the_names_of_their_lines():
    assert runpy.run_path(str(TOOL))["figures"](OUTPUT) == pytest.approx(
        {
            "lxml parses, changes and serialises it": 394e-6,
            "clean marks and bait, page not seen before": 613e-6,
            "passed on as it is": 101.5e-6,
            "1,000,000 lines": 4.5,
        }
    )


def test_wrong_use_is_one_line():
    for arguments, said in (
        (["no-such-revision", "page"], "cannot check out"),
        (["HEAD", "x"], "unknown benchmark"),
        (["HEAD", "--rounds", "0", "page"], "at least 1"),
    ):
        done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert said in done.stderr.splitlines()[-1]

"""
`hedgerow report` on logs of 1, 3 and 10 million lines out of real ones, next to goaccess on the largest.

More lines: `REPORT_LINES=62000000 python -m bench report`. The logs are made in a directory of their own and deleted.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.generate import LOGS, generate

LARGEST = int(os.environ.get("REPORT_LINES", "10000000"))


def main() -> None:
    logs = sorted(LOGS.glob("*.xz"))
    if not logs:
        print(f"no real logs in {LOGS}: nothing to make a large one of")
        return
    with tempfile.TemporaryDirectory(prefix="hedgerow-bench-") as place:
        whole = Path(place) / "access.log"
        generate(LARGEST, whole, logs)
        warm = Path(place) / "warm.log"
        _first_lines(whole, 1000, warm)
        report(warm)
        for lines in sorted({min(size, LARGEST) for size in (1_000_000, 3_000_000, 10_000_000, LARGEST)}):
            log = Path(place) / "part.log"
            _first_lines(whole, lines, log)
            seconds, gigabytes = report(log)
            print(f"{lines:>11,} lines: {seconds:7.1f} s, {lines / seconds:10,.0f} lines/s, {gigabytes:.2f} GB")
            if lines == min(LARGEST, 10_000_000) and shutil.which("goaccess"):
                other = _seconds(["goaccess", str(log), "--log-format=COMBINED", "-o", f"{place}/goaccess.json"])
                print(f"   goaccess: {other:7.1f} s, {lines / other:10,.0f} lines/s; {other / seconds:.1f} times")
            log.unlink()


def report(log: Path) -> tuple[float, float]:
    """Seconds, and the most memory of any child so far."""
    command = [sys.executable, "-m", "hedgerow", "report", str(log), "--json", f"{log}.json", "--top", "0"]
    seconds = _seconds(command)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6


def _first_lines(whole: Path, lines: int, out: Path) -> None:
    with out.open("wb") as file:
        subprocess.run(["head", "-n", str(lines), str(whole)], stdout=file, check=True)


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began

"""
`hedgerow report` on logs of 1, 3 and 10 million lines out of real ones, next to goaccess on 10 million.

More lines: `REPORT_LINES=62000000 python -m bench report`, with 20 and 40 million on the way. The logs are made in a
directory of their own and deleted; with `REPORT_LOG=FILE` the largest is taken from there, as `python -m
bench.generate` has made it, and stays. Next to goaccess the report is made before and after it: the machine's speed may
change meanwhile.
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
from typing import NamedTuple

from bench.generate import LOGS, generate

LARGEST = int(os.environ.get("REPORT_LINES", "10000000"))
BESIDE_GOACCESS = 10_000_000
SIZES = (1_000_000, 3_000_000, BESIDE_GOACCESS, 20_000_000, 40_000_000)


class Took(NamedTuple):
    """Seconds by the clock and of CPU, and the most memory of any child so far, in GB."""

    seconds: float
    cpu: float
    gigabytes: float


def main() -> None:
    made = os.environ.get("REPORT_LOG")
    logs = sorted(LOGS.glob("*.xz"))
    if not made and not logs:
        print(f"no real logs in {LOGS}: nothing to make a large one of")
        return
    with tempfile.TemporaryDirectory(prefix="hedgerow-bench-") as place:
        whole = Path(made) if made else Path(place) / "access.log"
        if not made:
            generate(LARGEST, whole, logs)
        part = Path(place) / "part.log"
        _first_lines(whole, 1000, part)
        report(part)
        for lines in sorted({*(size for size in SIZES if size < LARGEST), LARGEST}):
            log = whole if lines == LARGEST else part
            if log is part:
                _first_lines(whole, lines, part)
            took = report(log)
            told = f"{took.seconds:7.1f} s, {took.cpu:7.1f} s of CPU, {took.gigabytes:.2f} GB"
            print(f"{lines:>11,} lines: {told}, {lines / took.seconds:10,.0f} lines/s", flush=True)
            if lines == min(LARGEST, BESIDE_GOACCESS) and shutil.which("goaccess"):
                goaccess = ["goaccess", str(log), "--no-global-config", "--log-format=COMBINED"]
                other = _took([*goaccess, "-o", f"{place}/goaccess.json"])
                again = report(log)
                print(f"   once more: {again.seconds:7.1f} s, {again.cpu:7.1f} s of CPU", flush=True)
                ratios = ", ".join(
                    f"{other.seconds / its.seconds:.1f} (by CPU {other.cpu / its.cpu:.1f})" for its in (took, again)
                )
                print(
                    f"   goaccess: {other.seconds:7.1f} s, {other.cpu:7.1f} s of CPU; times as long: {ratios}",
                    flush=True,
                )


def report(log: Path) -> Took:
    with tempfile.TemporaryDirectory(prefix="hedgerow-bench-") as place:
        return _took(
            [sys.executable, "-m", "hedgerow", "report", str(log), "--json", f"{place}/report.json", "--top", "0"]
        )


def _first_lines(whole: Path, lines: int, out: Path) -> None:
    with out.open("wb") as file:
        subprocess.run(["head", "-n", str(lines), str(whole)], stdout=file, check=True)


def _took(command: list[str]) -> Took:
    # As it is once installed: with its byte code, which the first run leaves.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began, before = time.perf_counter(), _cpu()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    return Took(time.perf_counter() - began, _cpu() - before, most)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

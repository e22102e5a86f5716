"""
The arena: crawlers of many makes at two real sites behind each protection, while people read there.

`make arena` runs what was not measured yet, and writes docs/arena.md, docs/arena-summary.md and docs/arena.html.
`make arena SMALL=1` runs a few cells only. Every cell is a line in build/arena/cells.jsonl: an arena that was stopped
goes on where it was. All traffic stays on loopback.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import bench.arena
from bench.arena import browsers, cells, protections, publish
from bench.arena.cells import CPU, Cell
from bench.arena.makes import makes
from bench.arena.protections import ROOT
from bench.arena.stage import REAL_SITES
from bench.arena.stage import missing as missing_sites
from real.apps.wiki import missing_parts

assert bench.arena
POOLS = {"fast": 2, "slow": 4, "browser": 1}
"""How many cells of each kind run side by side on two cores. Slow crawlers wait most of the time."""
SECONDS = 15.0
SMALL_SECONDS = 6.0
SMALL = (("wget", "visible links, headers of Chrome, 0.5 s"), ("none", "limit_req", "hedgerow"), ("documentation",))
_TRIES = 2


def jobs(options: argparse.Namespace, found: Sequence[Cell]) -> list[tuple[str, Callable[[], Cell]]]:
    """The cells that are wanted and not *found* yet: the pool of each, and the measurement."""
    small_makes, small_protections, small_sites = SMALL
    done, absent = {cell.key for cell in found}, protections.missing()
    sites = [one for one in (small_sites if options.small else REAL_SITES) if options.site in {None, one}]
    shown = [
        one
        for one in (small_protections if options.small else protections.PROTECTIONS)
        if one not in absent and options.protection in {None, one}
    ]
    chosen = [one for one in makes() if not one.lacks and options.only in one.name]
    # All protections of one crawler come one after the other, so that a part of the arena can be compared.
    places = [(run, site, protection) for run in range(1, options.runs + 1) for site in sites for protection in shown]
    wanted: list[tuple[str, Callable[[], Cell]]] = [
        ("fast", partial(cells.measure_cpu, site, protection, run))
        for run, site, protection in places
        if protection != "none" and options.only in CPU and (site, protection, CPU, run) not in done
    ]
    for make in chosen:
        if options.small and make.name not in small_makes:
            continue
        wanted += [
            (make.pool, partial(cells.measure, make, site, protection, run, options.seconds))
            for run, site, protection in places
            if (site, protection, make.name, run) not in done
        ]
    return wanted


def run_all(wanted: Sequence[tuple[str, Callable[[], Cell]]], file: Path, end: float) -> None:
    """Measure what is wanted until *end*, and write each cell to *file* as soon as it is there."""
    writing = threading.Lock()
    left = len(wanted)

    def one(measure: Callable[[], Cell]) -> None:
        nonlocal left
        if time.monotonic() > end:
            return
        for turn in range(_TRIES):
            try:
                cell = measure()
            except Exception as error:  # noqa: BLE001 - one that fails is named, the others go on
                if turn + 1 == _TRIES:
                    print(f"  failed: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
                continue
            with writing:
                cells.append(file, cell)
                left -= 1
                what = f"{cell.site}, {cell.protection}, {cell.crawler}: {cell.pages} pages"
                print(f"  {left:3} left; {what}, {cell.people_disturbed} people disturbed", file=sys.stderr, flush=True)
            return

    pools = {name: ThreadPoolExecutor(size) for name, size in POOLS.items()}
    try:
        running = [pools[pool].submit(one, measure) for pool, measure in wanted]
        for future in running:
            future.result()
    finally:
        for pool in pools.values():
            pool.shutdown(cancel_futures=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.arena", description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a few cells only, in under two minutes")
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    parser.add_argument("--runs", type=int, default=1, help="how often each cell is measured (1)")
    parser.add_argument("--seconds", type=float, help=f"time of each crawler ({SECONDS:g})")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no cell after so many minutes")
    parser.add_argument("--only", default="", help="only crawlers whose name contains this")
    parser.add_argument("--site", choices=REAL_SITES, help="only this site")
    parser.add_argument("--protection", choices=protections.PROTECTIONS, help="only this protection")
    parser.add_argument(
        "--cells", type=Path, default=ROOT / "build" / "arena" / "cells.jsonl", help="where cells are kept"
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the pages are written")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (SMALL_SECONDS if options.small else SECONDS)
    return options


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    lacking = missing_sites() + ([] if options.small else [missing_parts()] if missing_parts() else [])
    if lacking:
        print(f"not installed: {', '.join(lacking)}; see tools/packages", file=sys.stderr)
        return 1
    browsers.use_packages(ROOT / "build" / "arena")
    options.cells.parent.mkdir(parents=True, exist_ok=True)
    if options.anew:
        options.cells.unlink(missing_ok=True)
    if not options.small:
        for what, package in (*protections.missing().items(), *((one.name, one.lacks) for one in makes() if one.lacks)):
            print(f"left out: {what}: {package} is not installed (tools/arena)", file=sys.stderr)
    wanted = jobs(options, cells.load(options.cells))
    print(f"{len(wanted)} cells to measure", file=sys.stderr)
    run_all(wanted, options.cells, time.monotonic() + 60 * options.minutes)
    for path in publish.write(cells.load(options.cells), options.docs):
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

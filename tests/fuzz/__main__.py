"""
Run fuzz targets under atheris: `make fuzz`, or `python -m fuzz [NAME ...] --seconds 60 --executions 1000000`.

Each target has a process of its own, which mutates the inputs of `corpus/` and what it found in earlier runs
(`build/fuzz/NAME`). An input that fails is kept in `build/fuzz`: fix the fault, and add the input to `corpus/NAME`.

With --resume, --executions is the sum of this run and earlier ones. `build/fuzz/executions.json` has what they did;
delete it to count anew. A run that is ended early counts as far as it came.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from .registry import CORPUS

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "fuzz"
COUNTS = FOUND / "executions.json"
LONGEST = {"growth": 256, "page": 2048, "request": 2048, "upstream": 2048}


def run_target(name: str, seconds: int, executions: int, seed: int) -> None:
    """Fuzz one target in this process; does not return."""
    import atheris

    with atheris.instrument_imports(include=["hedgerow"]):
        from .targets import TARGETS
    own = FOUND / name
    own.mkdir(parents=True, exist_ok=True)
    options = {
        "runs": executions, "max_total_time": seconds, "max_len": LONGEST.get(name, 1024), "timeout": 30,
        "rss_limit_mb": 2048, "artifact_prefix": f"{FOUND}/{name}-", "print_final_stats": 1, "verbosity": 0,
    }  # fmt: skip
    if seed:
        options["seed"] = seed
    arguments = [f"-{key}={value}" for key, value in options.items() if value]
    atheris.Setup([sys.argv[0], str(own), str(CORPUS / name), *arguments], TARGETS[name])
    atheris.Fuzz()


def counted(name: str, more: int = 0) -> int:
    """Add *more* executions to those that are noted for *name*, and return the sum."""
    counts: dict[str, int] = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    if more:
        counts[name] = counts.get(name, 0) + more
        new = COUNTS.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(counts, indent=2, sort_keys=True))
        new.replace(COUNTS)
    return counts.get(name, 0)


def executions_of(output: str) -> int:
    """How many inputs a run has tried, by what libFuzzer printed."""
    found = re.findall(r"(?:stat::number_of_executed_units:|Done) (\d+)", output) or re.findall(
        r"^#(\d+)", output, re.MULTILINE
    )
    return int(found[-1]) if found else 0


def run_all(names: list[str], seconds: int, executions: int, seed: int, *, resume: bool) -> bool:
    """Fuzz targets one after the other and print a table. Return whether none failed."""
    FOUND.mkdir(parents=True, exist_ok=True)
    print(f"{'target':16}{'executions':>12}{'in all':>12}{'seconds':>9}{'corpus':>8}  result")
    failed = []
    for name in names:
        missing = executions - counted(name) if resume else executions
        if executions and missing <= 0:
            print(f"{name:16}{0:12,}{counted(name):12,}{0:9}{'':8}  ok")
            continue
        command = [sys.executable, "-m", "fuzz", name, "--alone", f"--seconds={seconds}", f"--executions={missing}",
                   f"--seed={seed}"]  # fmt: skip
        start = time.monotonic()
        log = FOUND / f"{name}.log"
        with log.open("w") as output:
            status = subprocess.run(
                command, stdout=output, stderr=output, check=False, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}/tests"},
            ).returncode  # fmt: skip
        done = executions_of(log.read_text(errors="replace"))
        size = len(list((FOUND / name).iterdir())) if (FOUND / name).exists() else 0
        result = "ok" if status == 0 else f"FAILED: see {log.relative_to(ROOT)}"
        taken = time.monotonic() - start
        print(f"{name:16}{done:12,}{counted(name, done):12,}{taken:9.0f}{size:8}  {result}", flush=True)
        if status:
            failed.append(name)
    return not failed


def main() -> None:
    names = sorted(path.name for path in CORPUS.iterdir())
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"targets, by default all: {', '.join(names)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60); 0: no limit")
    parser.add_argument("--executions", type=int, default=0, help="for each target; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; 0: another one each time")
    parser.add_argument("--resume", action="store_true", help="--executions includes those of earlier runs")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    unknown = set(asked.names) - set(names)
    if unknown:
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if not asked.seconds and not asked.executions:
        parser.error("give --seconds or --executions, or it would never end")
    if asked.resume and not asked.executions:
        parser.error("--resume needs --executions: how many there should be in all")
    if asked.alone:
        run_target(asked.names[0], asked.seconds, asked.executions, asked.seed)
    elif not run_all(asked.names or names, asked.seconds, asked.executions, asked.seed, resume=asked.resume):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

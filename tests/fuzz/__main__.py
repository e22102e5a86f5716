"""
Run fuzz targets under atheris: `make fuzz`, or `python -m fuzz [NAME ...] --seconds 60 --executions 1000000`.

Each target has a process of its own, which mutates the inputs of `corpus/` and what it found in earlier runs
(`build/fuzz/NAME`). An input that fails is kept in `build/fuzz`: fix the fault, and add the input to `corpus/NAME`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from .registry import CORPUS

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "fuzz"
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


def run_all(names: list[str], seconds: int, executions: int, seed: int) -> bool:
    """Fuzz targets one after the other and print a table. Return whether none failed."""
    FOUND.mkdir(parents=True, exist_ok=True)
    print(f"{'target':16}{'executions':>12}{'seconds':>9}{'corpus':>8}  result")
    failed = []
    for name in names:
        command = [sys.executable, "-m", "fuzz", name, "--alone", f"--seconds={seconds}", f"--executions={executions}",
                   f"--seed={seed}"]  # fmt: skip
        start = time.monotonic()
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}/tests"},
        )  # fmt: skip
        log = FOUND / f"{name}.log"
        log.write_text(done.stdout + done.stderr)
        count = re.findall(r"(?:stat::number_of_executed_units:|Done) (\d+)", done.stderr) or re.findall(
            r"^#(\d+)", done.stderr, re.MULTILINE
        )
        size = len(list((FOUND / name).iterdir())) if (FOUND / name).exists() else 0
        result = "ok" if done.returncode == 0 else f"FAILED: see {log.relative_to(ROOT)}"
        taken = time.monotonic() - start
        print(f"{name:16}{int(count[-1]) if count else 0:12,}{taken:9.0f}{size:8}  {result}", flush=True)
        if done.returncode:
            failed.append(name)
    return not failed


def main() -> None:
    names = sorted(path.name for path in CORPUS.iterdir())
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"targets, by default all: {', '.join(names)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60); 0: no limit")
    parser.add_argument("--executions", type=int, default=0, help="for each target; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; 0: another one each time")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    unknown = set(asked.names) - set(names)
    if unknown:
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if not asked.seconds and not asked.executions:
        parser.error("give --seconds or --executions, or it would never end")
    if asked.alone:
        run_target(asked.names[0], asked.seconds, asked.executions, asked.seed)
    elif not run_all(asked.names or names, asked.seconds, asked.executions, asked.seed):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

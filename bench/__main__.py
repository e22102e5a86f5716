"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import sys

ALL = (
    "decision", "state", "scale", "outage", "lists", "client", "signature", "challenge",
    "memory", "watch", "models", "shape", "page", "maze", "proxy", "report",
)  # fmt: skip

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        print(f"== {name}")
        importlib.import_module(f"bench.{name}").main()
        print()

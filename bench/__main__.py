"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import sys

ALL = (
    "decision", "state", "scale", "outage", "lists", "client", "signature", "challenge",
    "memory", "watch", "models", "shape", "page", "maze", "proxy", "tls", "load", "report",
)  # fmt: skip

WITH_OPTIONS = ("careful", "commands", "crawlers", "people", "dashboard")
"""Take minutes, so they run only where they are named; what follows the name are their options."""

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WITH_OPTIONS:
        importlib.import_module(f"bench.{sys.argv[1]}").main(sys.argv[2:])
        sys.exit()
    for name in sys.argv[1:] or ALL:
        print(f"== {name}")
        importlib.import_module(f"bench.{name}").main()
        print()

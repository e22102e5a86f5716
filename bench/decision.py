"""What a decision on the fast path costs: from the raw request to the decision, ledger entry included."""

from __future__ import annotations

import itertools

from bench.samples import BROWSER
from bench.timing import measure
from hedgerow.build import build_gate
from hedgerow.cli.processes import collect_less
from hedgerow.marker.seal import Key, Seals
from hedgerow.settings import read_settings
from hedgerow.stores.ledger import NoLedger

GOAL = 30e-6


def main() -> None:
    # As `hedgerow protect` runs.
    collect_less()
    gate = build_gate(
        read_settings("", environment={}), seals=Seals([Key(1, bytes(range(64)), 0.0)]), ledger=NoLedger()
    )
    ticks = itertools.count()
    decided = "pass"

    def visit(spread: int, step: float):
        n = next(ticks)
        address = f"192.0.{n % spread // 250}.{n % 250}"
        return gate.identifier.visit(1.8e9 + n * step, address, "GET", "/docs/page.html?x=1", BROWSER)

    def decide(spread: int, step: float) -> None:
        nonlocal decided
        found = visit(spread, step)
        decision = gate.decide(found)
        gate.record(found, decision, 200)
        decided = decision.action

    blocked = gate.identifier.visit(1.8e9, "198.51.100.9", "GET", "/", BROWSER)
    for _ in range(200):
        gate.decide(blocked)
    found = measure(
        {
            "identify the visitor": lambda: visit(1000, 0.01),
            "identify and decide": lambda: decide(1000, 0.01),
            "the same, a busy visitor (30 pages a second)": lambda: decide(1, 0.034),
            "the same, a blocked visitor": lambda: gate.decide(blocked),
        }
    )
    for name, seconds in found.items():
        print(f"{name:48} {seconds * 1e6:8.2f} µs")
    worst = max(found.values())
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {worst * 1e6:.1f} µs ({decided})")

"""One million different addresses: how many bytes each takes, and whether the settings' bound holds."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

from hedgerow.core.state import StateQuery
from hedgerow.detectors.rate_limit import DEFAULT_WINDOWS
from hedgerow.state.memory.state import MemoryState

ADDRESSES = 1_000_000
BOUND = 300_000_000


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def fill(addresses: int, hits: int, memory: int) -> None:
    state = MemoryState(DEFAULT_WINDOWS, memory=memory)
    gc.collect()
    before = resident()
    highest = 0
    for n in range(addresses):
        address = f"{n >> 24 & 255}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"
        for hit in range(hits):
            state.record_visit(StateQuery(1.8e9 + n * 1e-6 + hit * 1e-7, "page", address, address, "", count=True))
        if not n % 50_000:
            highest = max(highest, resident())
    grown = max(highest, resident()) - before
    print(
        f"{addresses:,} addresses, {hits} visit(s) each: {len(state):,} remembered, {state.forgotten:,} forgotten; "
        f"counted {state.bytes_used / 1e6:.0f} MB, really {grown / 1e6:.0f} MB "
        f"({grown / max(len(state), 1):.0f} bytes each), bound {memory / 1e6:.0f} MB"
    )


def main() -> None:
    fill(ADDRESSES, 1, BOUND)
    fill(ADDRESSES // 4, 4, BOUND // 4)
    fill(100_000, 40, BOUND // 10)

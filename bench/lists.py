"""A look-up among a million networks: for addresses seen lately, and for those never seen before."""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address

from bench.memory import resident
from bench.timing import measure
from hedgerow.policy.lists import Listing, Lists, network_text
from hedgerow.visit import Visit

GOAL = 2e-6
NETWORKS = 1_000_000
_LOOP = "to make the visit: "


def networks(rng: random.Random):
    """Mostly single addresses and /24s, the rest of every length from /10 to /31; an eighth of it IPv6."""
    for n in range(NETWORKS):
        if n % 8:
            shift = rng.choice([0] * 14 + [8] * 3 + [*range(1, 16)][n % 15 : n % 15 + 1] * 3)
            shift = shift if n % 5000 else rng.randrange(16, 23)
            yield network_text(4, rng.getrandbits(32) >> shift << shift, shift)
        else:
            shift = 128 - rng.choice([32, 40, 48, 56, 64, 128])
            yield network_text(6, (0x2001 << 112 | rng.getrandbits(96) << 16) >> shift << shift, shift)


def main() -> None:
    rng = random.Random(4)
    gc.collect()
    before, began = resident(), time.process_time()
    lists = Lists()
    for subject in networks(rng):
        lists.put(Listing("black", subject, "bench", "bench", 1.0))
    lists.settle()
    took, grown = time.process_time() - began, resident() - before
    print(f"{len(lists):,} networks, {took:.1f} s to take them in, {grown / 1e6:.0f} MB")

    gc.collect()
    gc.freeze()

    def visit(address: str) -> Visit:
        return Visit(2.0, address, address, address, "GET", "/")

    def written(version: int) -> str:
        number = rng.getrandbits(32) if version == 4 else 0x2001 << 112 | rng.getrandbits(112)
        return network_text(4, number, 0) if version == 4 else str(IPv6Address(number))

    def new(version: int) -> Callable[[], Visit]:
        """Visits from ever new addresses, each written when it is asked for, as a server writes it."""
        return lambda: visit(written(version))

    def again(addresses: Iterable[str]) -> Callable[[], Visit]:
        """Visits from the same addresses again and again."""
        cycle = itertools.cycle(addresses)
        return lambda: visit(next(cycle))

    lists.put(Listing("black", "198.51.0.0/16", "bench", "bench", 1.0))
    lists.settle()
    unlisted = [address for address in (written(4) for _ in range(2000)) if lists.find(visit(address)) is None][:1000]
    makers = {
        "an address seen lately": again(unlisted),
        "one that is on the list, with its entry": again([f"198.51.{n >> 8}.{n & 255}" for n in range(1000)]),
        "an IPv4 address never seen": new(4),
        "an IPv6 address never seen": new(6),
    }
    candidates: dict[str, Callable[[], object]] = {}
    for name, make in makers.items():
        candidates[_LOOP + name] = make
        candidates[name] = lambda make=make: lists.find(make())
    found = measure(candidates, seconds=0.2)
    taken = {name: found[name] - found[_LOOP + name] for name in makers}
    for name, seconds in taken.items():
        print(f"{name:48} {seconds * 1e6:8.2f} µs")
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {max(taken.values()) * 1e6:.1f} µs")

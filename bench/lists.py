"""A look-up among a million networks: for addresses seen lately, and for those never seen before."""

from __future__ import annotations

import gc
import itertools
import random
import time
from ipaddress import IPv6Address

from bench.memory import resident
from bench.timing import measure
from hedgerow.policy.lists import Listing, Lists, network_text
from hedgerow.visit import Visit

GOAL = 2e-6
NETWORKS = 1_000_000


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

    def visits(number: int, version: int):
        addresses = [
            network_text(4, rng.getrandbits(32), 0)
            if version == 4
            else str(IPv6Address(0x2001 << 112 | rng.getrandbits(112)))
            for _ in range(number)
        ]
        return itertools.cycle([Visit(2.0, a, a, a, "GET", "/") for a in addresses])

    listed = itertools.cycle(
        [Visit(2.0, a, a, a, "GET", "/") for a in (f"198.51.{n >> 8}.{n & 255}" for n in range(1000))]
    )
    lists.put(Listing("black", "198.51.0.0/16", "bench", "bench", 1.0))
    lists.settle()
    known, new4, new6 = visits(1000, 4), visits(200_000, 4), visits(200_000, 6)
    found = measure(
        {
            "(the time that the loop itself takes)": lambda: next(known),
            "an address seen lately": lambda: lists.find(next(known)),
            "one that is on the list, with its entry": lambda: lists.find(next(listed)),
            "an IPv4 address never seen": lambda: lists.find(next(new4)),
            "an IPv6 address never seen": lambda: lists.find(next(new6)),
        },
        seconds=0.2,
    )
    loop = found.pop("(the time that the loop itself takes)")
    for name, seconds in found.items():
        print(f"{name:48} {(seconds - loop) * 1e6:8.2f} µs")
    share = sum(lists.find(next(new4)) is not None for _ in range(20_000)) / 20_000
    print(f"({share:.0%} of the IPv4 addresses are on the list)")
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {(max(found.values()) - loop) * 1e6:.1f} µs")

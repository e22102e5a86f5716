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
_LOOP = "(to make the visit)"


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

    def unlisted(number: int, version: int):
        found = []
        while len(found) < number:
            address = (
                network_text(4, rng.getrandbits(32), 0)
                if version == 4
                else str(IPv6Address(0x2001 << 112 | rng.getrandbits(112)))
            )
            if lists.find(visit(address)) is None:
                found.append(address)
        return itertools.cycle(found)

    lists.put(Listing("black", "198.51.0.0/16", "bench", "bench", 1.0))
    lists.settle()
    # More than the cache holds, so that none of the new ones is found there.
    known, new4, new6 = unlisted(1000, 4), unlisted(150_000, 4), unlisted(150_000, 6)
    listed = itertools.cycle([f"198.51.{n >> 8}.{n & 255}" for n in range(1000)])
    found = measure(
        {
            _LOOP: lambda: visit(next(known)),
            "an address seen lately": lambda: lists.find(visit(next(known))),
            "one that is on the list, with its entry": lambda: lists.find(visit(next(listed))),
            "an IPv4 address never seen": lambda: lists.find(visit(next(new4))),
            "an IPv6 address never seen": lambda: lists.find(visit(next(new6))),
        },
        seconds=0.2,
    )
    loop = found.pop(_LOOP)
    for name, seconds in found.items():
        print(f"{name:48} {(seconds - loop) * 1e6:8.2f} µs")
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {(max(found.values()) - loop) * 1e6:.1f} µs")

"""
A look-up among a million networks: for addresses seen lately, for those never seen, and for those on a list.

Next to it, that in a dictionary of as many texts, which finds no networks: how quick the machine and its memory are.
"""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator

from bench.memory import resident
from bench.timing import measure
from hedgerow.lists.model import Listing, Lists, decide, entry_of, network_text

GOAL = 2e-6
NETWORKS = 1_000_000
LATELY, LISTED = 1_000, 50_000
"""How many addresses are asked for again and again; with the second, all others come in between."""
_LOOP = "to write "
_WRITTEN = "on the list, and its entry written"
_DECIDED = "on the list, and the decision on it"


def networks(rng: random.Random) -> Iterator[tuple[int, int, int]]:
    """Mostly single addresses and /24s, the rest of every length from /10 to /31; an eighth of it IPv6."""
    for n in range(NETWORKS):
        if n % 8:
            shift = rng.choice([0] * 14 + [8] * 3 + [*range(1, 16)][n % 15 : n % 15 + 1] * 3)
            shift = shift if n % 4999 else rng.randrange(16, 23)
            yield 4, rng.getrandbits(32) >> shift << shift, shift
        else:
            shift = 128 - rng.choice([32, 40, 48, 56, 64, 128])
            shift = shift if n % 5000 else 99
            yield 6, (0x2001 << 112 | rng.getrandbits(96) << 16) >> shift << shift, shift


def main() -> None:
    rng = random.Random(4)
    gc.collect()
    before, began = resident(), time.process_time()
    lists = Lists()
    for network in networks(rng):
        lists.put(Listing("black", network_text(*network), "bench", "bench", 1.0))
    lists.settle()
    took, grown = time.process_time() - began, resident() - before
    print(f"{len(lists):,} networks, {took:.1f} s to take them in, {grown / 1e6:.0f} MB")
    began = time.process_time()
    for n in range(100):
        lists.put(Listing("white", f"198.51.{n}.0/25"))
        lists.settle()
    print(f"one entry changed: {(time.process_time() - began) * 10:.1f} ms")

    def number(version: int) -> int:
        return rng.getrandbits(32) if version == 4 else 0x2001 << 112 | rng.getrandbits(112)

    def inside(version: int) -> list[int]:
        """Addresses on the list: one of each of many networks."""
        of_version = [(start, shift) for v, start, shift in networks(random.Random(4)) if v == version]
        return [start | rng.getrandbits(128) & ((1 << shift) - 1) for start, shift in rng.sample(of_version, LISTED)]

    def outside(version: int) -> list[int]:
        """Addresses on no list."""
        numbers = (number(version) for _ in itertools.count())
        unknown = (one for one in numbers if lists.find(2.0, network_text(version, one, 0)) is None)
        return list(itertools.islice(unknown, LISTED))

    takers: dict[str, tuple[int, Callable[[], int]]] = {}
    for version in (4, 6):
        unknown = outside(version)
        of_kind = {
            "on no list, seen lately": unknown[:LATELY],
            "on no list, not seen lately": unknown[LATELY:],
            "on the list, not seen lately": inside(version),
            _WRITTEN: inside(version),
            _DECIDED: inside(version),
        }
        for kind, numbers in of_kind.items():
            takers[f"IPv{version}, {kind}"] = version, itertools.cycle(numbers).__next__
    texts = dict.fromkeys(network_text(4, rng.getrandbits(32), 0) for _ in range(NETWORKS))
    gc.collect()
    gc.freeze()
    # Each address is written when it is asked for, as a server writes it.
    candidates: dict[str, Callable[[], object]] = {}
    for name, (version, take) in takers.items():
        candidates[_LOOP + name] = lambda version=version, take=take: network_text(version, take(), 0)
        if name.endswith(_WRITTEN):
            candidates[name] = lambda version=version, take=take: entry_of(
                lists.find(2.0, network_text(version, take(), 0))
            )
        elif name.endswith(_DECIDED):
            candidates[name] = lambda version=version, take=take: decide(
                lists.find(2.0, network_text(version, take(), 0))
            )
        else:
            candidates[name] = lambda version=version, take=take: lists.find(2.0, network_text(version, take(), 0))
    candidates["to write any"] = lambda: network_text(4, number(4), 0)
    candidates["dictionary"] = lambda: texts.get(network_text(4, number(4), 0))
    found = measure(candidates, seconds=0.2)
    taken = {name: found[name] - found[_LOOP + name] for name in takers}
    reference = found["dictionary"] - found["to write any"]
    print(f"{'a dictionary of a million texts, never seen':52} {reference * 1e6:8.2f} µs")
    for name, seconds in taken.items():
        print(f"{name:52} {seconds * 1e6:8.2f} µs   {seconds / reference:5.1f} times the dictionary")
    # The decision is made of what was looked up.
    slowest = max(seconds for name, seconds in taken.items() if not name.endswith(_DECIDED))
    print(f"goal: at most {GOAL * 1e6:.0f} µs for a look-up; the slowest is {slowest * 1e6:.1f} µs")

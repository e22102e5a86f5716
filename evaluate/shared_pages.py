"""
How many pages people behind one address read in common: `python -m evaluate.shared_pages`.

Groups of Wikispeedia's people are drawn at random. Of each group that has read many different pages, the share of page
views is taken that are of pages which somebody else of the group has read, too. A visitor's second view of a page does
not count.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from random import Random

from evaluate.people import DATA
from evaluate.replayed import wikispeedia
from evaluate.tables import table

GAMES, GROUPS, PAGES = 12_000, 20_000, 150
SIZES = (3, 5, 10, 16, 20, 30, 60)


def shares(people: Sequence[set[str]], size: int, *, groups: int, pages: int, seed: int = 1) -> list[float]:
    """Return the share of each of the *groups* that has read so many different *pages*, in order."""
    dice, found = Random(seed), list[float]()
    for _ in range(groups):
        group = dice.sample(people, size)
        different = len(set[str]().union(*group))
        if different >= pages:
            found.append(1 - different / sum(map(len, group)))
    return sorted(found)


def main() -> None:
    if not DATA.is_dir():
        sys.exit("The data are not there; nothing was measured.")
    read = defaultdict[str, set[str]](set)
    for step in wikispeedia(GAMES):
        read[step.person].add(step.target)
    rows = []
    for size in SIZES:
        found = shares(list(read.values()), size, groups=GROUPS, pages=PAGES)
        marks = (found[0], found[len(found) // 100], found[len(found) // 2]) if found else ()
        rows.append([str(size), f"{len(found):,}", *(f"{100 * share:.1f} %" for share in marks)])
    print(table(["people", f"groups of {GROUPS:,} with {PAGES} pages", "least", "1 in 100 below", "median"], rows))


if __name__ == "__main__":
    main()

"""
A site of links drawn by chance, as PathMarker's experiment has it.

Pages are numbers, and page 0 is the home page. Every page has the same fixed links (header, footer, side bar), which
lead to the first pages, and links of its own, which lead to popular pages more often than to others.
"""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random

HOME = 0

Site = tuple[tuple[int, ...], ...]
"""For each page, the pages that it links to. No page links twice to another: that would be one URL."""


def popularity(pages: int, deviation: float) -> list[float]:
    """
    How likely a drawn link leads to each page: P(n) = 2 (cdf(n) - cdf(n - 1)), where cdf is that of N(0, *deviation*).

    The sum is a little off 1, because the paper's formula starts one page to the left of 0 and ends at the last page;
    who draws by it divides by the sum.

    >>> [round(chance, 3) for chance in popularity(4, deviation=1.5)]
    [0.495, 0.495, 0.323, 0.137]
    """
    return [2 * (_cdf(n / deviation) - _cdf((n - 1) / deviation)) for n in range(pages)]


def _cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


def draw_site(chance: Random, *, pages: int, links: int, fixed: int, deviation: float) -> Site:
    """
    A site of *pages* pages with *links* links each, the first *fixed* of them the same on every page.

    The others are drawn independently, so now and then one is drawn twice, or is one of the fixed: it is the same URL,
    and the page has a link less. Nothing sees to it that every page is linked to; with the paper's numbers about 60 of
    10,000 are not.
    """
    everywhere = range(fixed)
    likely = list(accumulate(popularity(pages, deviation)))
    numbers = range(pages)
    own = links - fixed
    return tuple(
        tuple(dict.fromkeys((*everywhere, *chance.choices(numbers, cum_weights=likely, k=own)))) for _ in numbers
    )

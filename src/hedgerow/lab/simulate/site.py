"""
Random sites, as in PathMarker's experiment.

Pages are numbers, and page 0 is the home page. Every page has the same fixed links (header, footer, side bar) to the
first pages, and links of its own, which lead to popular pages more often.
"""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random

HOME = 0

Site = tuple[tuple[int, ...], ...]
"""For each page, the distinct pages that it links to."""


def popularity(pages: int, deviation: float) -> list[float]:
    """
    Return the probability of each page as a link target: P(n) = 2 (cdf(n) - cdf(n - 1)), with the cdf of N(0,
    *deviation*).

    The sum is not exactly 1, because the paper's formula starts one page left of 0 and ends at the last page. Divide by
    the sum to draw from it.

    >>> [round(chance, 3) for chance in popularity(4, deviation=1.5)]
    [0.495, 0.495, 0.323, 0.137]
    """
    return [2 * (_cdf(n / deviation) - _cdf((n - 1) / deviation)) for n in range(pages)]


def _cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


def draw_site(rng: Random, *, pages: int, links: int, fixed: int, deviation: float) -> Site:
    """
    Return a site of *pages* pages with *links* links each, the first *fixed* of them the same on every page.

    The others are drawn independently. A link that is drawn twice or is one of the fixed counts once, so some pages
    have fewer links. Some pages are not linked at all: about 60 of 10,000 with the paper's numbers.
    """
    everywhere = range(fixed)
    cumulative = list(accumulate(popularity(pages, deviation)))
    numbers = range(pages)
    own = links - fixed
    return tuple(
        tuple(dict.fromkeys((*everywhere, *rng.choices(numbers, cum_weights=cumulative, k=own)))) for _ in numbers
    )

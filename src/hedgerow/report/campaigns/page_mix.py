"""
Diets: what groups of sources ask for, and whether two of them do so as one crawler would.

A diet is in which proportions a group asks for kinds of pages, and with what success. That two groups ask for the same
says little where everybody does, and much where nobody else does; that their shares differ a little says nothing where
they have asked for a hundred pages, and much where it was ten thousand. So two explanations are weighed against each
other: that both draw from one diet, or each from its own, where own diets are scattered about what is usual in this
log as widely as those of its groups are (Dirichlet's distribution, fitted to them). The former has to be by far the
likelier, even though it could have been any two of the groups.

What robots.txt says is fetched for others, by whoever has that errand: it is no part of a diet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_KINDS = 2000
_MOST_COMPARED = 2000
_LEAST_REQUESTS = 20
_ANSWERS = 8
_ALIKE = 0.7
_MOST_PAIRS = 20_000
_BLOCK = 1000
_OCTAVES = range(-1, 13)
_STEPS = 8
_SHIFT = 8
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class PageMix(NamedTuple):
    """
    The diets of *groups* (their numbers): how often each asked for each kind, and the *prior*: how often it would have
    been had it asked for nothing yet.
    """

    groups: Ints
    counts: Floats
    prior: Floats


def page_mix(group_of: Ints, kinds: Ints, answers: Ints) -> PageMix:
    """The diets of the busiest groups, from the group (-1: none), the kind and the answer's status of each request."""
    # Groups and kinds are numbers from 0 on, so they are counted where others would have to be sorted.
    sizes = np.bincount(group_of + 1)[1:]
    chosen = np.flatnonzero(sizes >= _LEAST_REQUESTS)
    chosen = np.sort(chosen[np.argsort(-sizes[chosen], kind="stable")[:_MOST_COMPARED]])
    row = np.full(len(sizes) + 1, -1, dtype=np.int64)
    row[chosen] = np.arange(len(chosen))
    rows = row[group_of]
    here = np.flatnonzero(rows >= 0)
    rows, kinds = rows[here], kinds[here] * _ANSWERS + np.clip(answers[here] // 100, 0, _ANSWERS - 1)
    frequent = np.bincount(kinds)
    names = np.flatnonzero(frequent)
    # The rarest kinds count as one.
    column = np.zeros(len(frequent), dtype=np.int64)
    column[names[np.argsort(-frequent[names], kind="stable")]] = np.minimum(np.arange(len(names)), _MOST_KINDS)
    width = min(len(names), _MOST_KINDS + 1)
    places = rows * width + column[kinds]
    counts = np.bincount(places, minlength=len(chosen) * width).astype(np.float64).reshape(len(chosen), width)
    return PageMix(chosen, counts, _prior(counts))


def _prior(counts: Floats) -> Floats:
    """What is usual, times how closely groups keep to it: the concentration under which their diets are likeliest."""
    if not len(counts):
        return np.zeros(counts.shape[1])
    totals = counts.sum(axis=1)
    usual = (counts / totals[:, None]).mean(axis=0)
    one, kind = np.nonzero(counts)
    seen = counts[one, kind]

    def likelihood(concentration: float) -> float:
        prior = concentration * usual
        whole = _log_gamma(np.array([concentration])) - _log_gamma(concentration + totals)
        return float(whole.sum() + _log_gamma(prior[kind] + seen).sum() - _log_gamma(prior)[kind].sum())

    near = max((2.0**octave for octave in _OCTAVES), key=likelihood)
    best = max((near * 2.0 ** (step / _STEPS) for step in range(-_STEPS, _STEPS + 1)), key=likelihood)
    found: Floats = usual * best
    return found


def same(found: PageMix, among: Sequence[int], odds: float) -> Iterator[tuple[int, int, float]]:
    """
    Pairs of groups *among* the rows of *found* that have one diet, and how alike their shares are (Bhattacharyya's
    affinity). One diet has to be *odds* times as likely as two, and as many times that as there are pairs.
    """
    if not among:
        return
    rows = np.array(among, dtype=np.int64)
    counts, prior = found.counts[rows], found.prior
    totals = counts.sum(axis=1)
    roots = np.sqrt(counts / totals[:, None])
    affinity = roots @ roots.T
    one, other = np.nonzero(np.triu(affinity >= _ALIKE, 1))
    alike = affinity[one, other]
    kept = np.sort(np.argsort(-alike, kind="stable")[:_MOST_PAIRS])
    one, other, alike = one[kept], other[kept], alike[kept]
    whole = prior.sum()
    mine = _log_gamma(whole + totals)
    likelier = mine[one] + mine[other] - _log_gamma(whole + totals[one] + totals[other]) - _log_gamma(np.array([whole]))
    for start in range(0, len(one), _BLOCK):
        here = slice(start, start + _BLOCK)
        # A kind that only one of them asks for says the same either way.
        pair, kind = np.nonzero((counts[one[here]] > 0) & (counts[other[here]] > 0))
        first, second, base = counts[one[here][pair], kind], counts[other[here][pair], kind], prior[kind]
        together = _log_gamma(base + first + second) + _log_gamma(base)
        apart = _log_gamma(base + first) + _log_gamma(base + second)
        likelier[here] += np.bincount(pair, together - apart, minlength=len(one[here]))
    least = np.log(odds) + np.log(max(1, len(rows) * (len(rows) - 1) // 2))
    for place in np.flatnonzero(likelier >= least).tolist():
        yield among[one[place]], among[other[place]], float(alike[place])


def _log_gamma(values: Floats) -> Floats:
    """The logarithm of the gamma function of numbers above 0 (Stirling's series, to 1e-11)."""
    large = values + _SHIFT
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / large**2) / large**2) / large**2) / large
    product = np.ones_like(values)
    for k in range(_SHIFT):
        product = product * (values + k)
    found: Floats = (large - 0.5) * np.log(large) - large + _HALF_LOG_TWO_PI + series - np.log(product)
    return found

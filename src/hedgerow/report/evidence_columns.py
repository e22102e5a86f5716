"""
Findings: evidence about many sources at once, column by column.

A report tells of all sources of a log. To ask for the evidence about each of them by itself takes far longer than to
find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HALFWAY = 0.5
_NEARLY = 1e-6


class Findings(NamedTuple):
    """
    Evidence, a row for each piece of it.

    *whom*: which of the sources that were asked about. *kind*: a place in the codes of the opinion that found it, or in
    the kinds of all opinions (`Judgements`).
    """

    whom: NDArray[np.int64]
    kind: NDArray[np.int64]
    weight: NDArray[np.float64]
    text: Sequence[str]


def one_each(weight: NDArray[np.float64], text: Sequence[str]) -> Findings:
    """Of each source that was asked about one piece, and all of the first kind."""
    return Findings(np.arange(len(text)), np.zeros(len(text), np.int64), weight, text)


def rounded(values: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    """
    What Python's `round` says of each of *values*, which are from 0 to 1.

    Numpy's own is wrong about some that lie next to the middle of two: about these Python is asked.
    """
    scale = 10**digits
    scaled = values * scale
    found = np.asarray(np.rint(scaled) / scale, np.float64)
    doubtful = np.flatnonzero(np.abs(scaled - np.floor(scaled) - _HALFWAY) < _NEARLY)
    found[doubtful] = [round(value, digits) for value in values[doubtful].tolist()]
    return found

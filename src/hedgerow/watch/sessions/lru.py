"""
Recent: dictionaries that are kept in the order of use, the latest last: what is used is taken out and put in again.

They take 50 bytes less for each entry than an `OrderedDict` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

_PARTS = 64

Key = TypeVar("Key")


def forget_oldest(recent: dict[Key, Any]) -> Sequence[Key]:
    """
    Make room: whatever was not used for the longest is gone, and is told.

    A sixty-fourth goes at once: where much was taken out, to find the first entry takes a while.

    >>> recent = {"a": 1, "b": 2}
    >>> forget_oldest(recent), recent
    (['a'], {'b': 2})
    """
    gone = list(islice(recent, 1 + len(recent) // _PARTS))
    for key in gone:
        del recent[key]
    return gone

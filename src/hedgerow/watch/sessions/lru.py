"""
LRU eviction for plain dictionaries in order of use, which take 50 bytes less per entry than an `OrderedDict`.

A used entry is removed and inserted again, so that the least recently used entry comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

_PARTS = 64

Key = TypeVar("Key")


def forget_oldest(recent: dict[Key, Any]) -> Sequence[Key]:
    """
    Remove the least recently used entries and return their keys.

    One entry in 64 is removed at once: finding the first entry is slow after many removals.

    >>> recent = {"a": 1, "b": 2}
    >>> forget_oldest(recent), recent
    (['a'], {'b': 2})
    """
    removed = list(islice(recent, 1 + len(recent) // _PARTS))
    for key in removed:
        del recent[key]
    return removed

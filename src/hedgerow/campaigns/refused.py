"""
Refused alike: sources that the site itself tells from all others.

A site that turns a crawler away by its name answers it otherwise than everybody else. A crawler that obeys robots.txt
then never gets further: each of its sources asks for robots.txt, now and then, is refused it, and asks for nothing
else. Others are given it. So these have in common what the site looks at, wherever they stand.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.campaigns.similarity import Found

Ints = NDArray[np.int64]


class Limits(msgspec.Struct, frozen=True):
    """
    *members* and *networks*: the fewest of a campaign. *requests*: the most of one source; who asks by the dozen is
    another's. *others*: how many others at least must have asked, and *given*: the least share of them that got it.
    """

    members: int = 10
    networks: int = 5
    requests: int = 10
    others: int = 10
    given: float = 0.5


class Robots(NamedTuple):
    """For each source: its requests, those for robots.txt, and those that were answered with an error."""

    requests: Ints
    robots: Ints
    errors: Ints


def find(networks: list[str], people: NDArray[np.bool_], robots: Robots, limits: Limits | None = None) -> list[Found]:
    """The campaign of sources, in *networks*, that are refused robots.txt as others are not; or none."""
    wanted = limits or Limits()
    asked = (robots.robots > 0) & ~people
    refused = asked & (robots.robots == robots.requests) & (robots.errors == robots.requests)
    others = asked & ~refused
    given = int((others & (robots.errors < robots.robots)).sum())
    members = np.flatnonzero(refused & (robots.requests <= wanted.requests)).tolist()
    there = {networks[member] for member in members} - {""}
    if len(members) < wanted.members or len(there) < wanted.networks:
        return []
    if others.sum() < wanted.others or given < wanted.given * others.sum():
        return []
    text = (
        f"{len(members)} sources in {len(there)} networks that ask for nothing but robots.txt and are refused it, "
        f"as others are not."
    )
    return [Found("refused alike", tuple(members), 1.0, text)]

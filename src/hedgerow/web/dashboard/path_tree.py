"""The path of a visitor as a tree: which page it came from to each page, hidden links, and links of others."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from hedgerow.core.decision import ISSUED_TO_ANOTHER, Decision
from hedgerow.core.visit import HIDDEN_KINDS, Visit
from hedgerow.markers.token import page_digest
from hedgerow.watch.models.bundle import Bundle
from hedgerow.watch.sessions.path import PathSession, step_of

MAX_DEPTH = 12
"""Deeper pages are drawn at this depth."""
_FEATURE_TEXTS = {
    "depth": "depth: most links in a row, per page",
    "width": "width: most links used on one page, per page",
    "variation": "irregularity of the pace",
    "depth_difference": "depth, against its fastest part",
    "width_difference": "width, against its fastest part",
    "short_variation": "irregularity of its fastest part",
    "gap_middle": "seconds between pages: median",
    "gap_low": "seconds between pages: lower tenth",
    "gap_high": "seconds between pages: upper tenth",
    "pauses": "pauses of ten seconds or more",
    "entries": "pages that no link led to",
    "strays": "links of pages that it had not read just now",
    "revisits": "pages read again",
    "onward": "links of the page before",
    "sideward": "links of the same page as before",
    "beside": "requests beside pages",
    "longest": "length of its fastest part",
}


class TreeNode(msgspec.Struct, frozen=True):
    """
    A page visit. *depth* is how many links lead to it from an entry; *width* how many of its links were followed.

    *trap*: a hidden link led to it. *foreign*: the link was issued to another visitor. *seconds* since the page before.
    """

    at: float
    target: str
    depth: int
    width: int
    trap: bool
    foreign: bool
    tampered: bool
    action: str
    status: int
    seconds: float | None


class FeatureValue(msgspec.Struct, frozen=True):
    """
    A feature of the path, and the shares of people and of crawlers in the training data with at most as much of it.

    *text* says what it is. Bundles of older versions do not know the share of crawlers.
    """

    name: str
    text: str
    value: float
    people_at_most: float
    crawlers_at_most: float | None


class Intervals(msgspec.Struct, frozen=True):
    """Seconds between pages: lower tenth, median, upper tenth, and how many of them are below a second."""

    low: float
    median: float
    high: float
    below_a_second: int
    count: int


def tree_of(visits: Sequence[tuple[Visit, Decision]]) -> list[TreeNode]:
    """Return the page visits in their order, each with its place in the tree."""
    pages = [(visit, decision) for visit, decision in visits if visit.kind == "page" or _is_hidden(visit)]
    depth_of, widths, depths = dict[bytes, int](), Counter[bytes](), list[int]()
    for visit, _ in pages:
        parent = _parent_of(visit)
        depths.append(depth_of[parent] + 1 if parent in depth_of else 0)
        widths[parent] += 1
        depth_of[page_digest(visit.target)] = depths[-1]
    times = [visit.at for visit, _ in pages]
    gaps = [None, *(round(after - before, 2) for before, after in pairwise(times))]
    return [
        TreeNode(
            at=visit.at, target=visit.target, depth=min(depth, MAX_DEPTH), width=widths[page_digest(visit.target)],
            trap=_is_hidden(visit), foreign=any(one.code == ISSUED_TO_ANOTHER for one in decision.evidence),
            tampered=visit.tampered, action=decision.action, status=visit.status, seconds=gap,
        )
        for (visit, decision), depth, gap in zip(pages, depths, gaps, strict=False)
    ]  # fmt: skip


def _parent_of(visit: Visit) -> bytes:
    """Return the digest of the page that led here, or b"" if it is unknown."""
    if _is_hidden(visit) and visit.marker is not None:
        return visit.marker.parent
    step = step_of(visit)
    return step.parent or b"" if step is not None else b""


def _is_hidden(visit: Visit) -> bool:
    return visit.marker is not None and visit.marker.kind in HIDDEN_KINDS


def intervals_of(nodes: Sequence[TreeNode]) -> Intervals | None:
    gaps = sorted(node.seconds for node in nodes if node.seconds is not None)
    if not gaps:
        return None
    low, median, high = (gaps[min(len(gaps) - 1, int(share * len(gaps)))] for share in (0.1, 0.5, 0.9))
    return Intervals(low, median, high, sum(gap < 1 for gap in gaps), len(gaps))


def features_of(visits: Sequence[tuple[Visit, Decision]], bundle: Bundle | None) -> list[FeatureValue]:
    """Return the features of the last session, against people and crawlers in the training data of *bundle*."""
    session = PathSession()
    for visit, _ in visits:
        if session.full:
            session.clear()
        if (step := step_of(visit)) is not None:
            session.add(*step)
    stage = bundle.stage_at(session.size) if bundle is not None else None
    if bundle is None or stage is None or not stage.bins:
        return []
    return [
        FeatureValue(
            name,
            _FEATURE_TEXTS.get(name, name),
            round(value, 3),
            _share_at_most(bins.edges, bins.shares, value),
            _share_at_most(bins.edges, bins.crawlers, value) if bins.crawlers else None,
        )
        for name, value, bins in zip(bundle.features, bundle.row(session), stage.bins, strict=True)
    ]


def _share_at_most(edges: Sequence[float], shares: Sequence[float], value: float) -> float:
    """Return about which share have at most *value*; of the bin that it is in, one half."""
    at = bisect_right(edges, value)
    return round(min(1.0, sum(shares[:at]) + shares[at] / 2), 2)

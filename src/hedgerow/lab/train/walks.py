"""Simulated and recorded walks: what one visitor did on a site, page by page."""

from __future__ import annotations

from typing import NamedTuple

from hedgerow.watch.sessions.path import PathSession


class Stride(NamedTuple):
    """One page view: its time, page, parent page, and the number of side requests (assets) that came with it."""

    at: float
    page: int
    parent: int | None
    side_requests: int = 0


class Walk(NamedTuple):
    """
    All strides of one visitor, in order.

    *label* is the visitor's true identity, *source* the walker or log that it is from, and *site* the site. *visitor*
    distinguishes visitors of one source.
    """

    visitor: str
    label: str
    source: str
    site: str
    strides: tuple[Stride, ...]

    def sessions(self) -> list[list[Stride]]:
        """Return the strides of each long session; the last one may be shorter."""
        return [list(self.strides[n : n + 60]) for n in range(0, len(self.strides), 60)]


def digest(page: int) -> bytes:
    return page.to_bytes(6, "big", signed=True)


def add_stride(session: PathSession, stride: Stride) -> None:
    parent = None if stride.parent is None else digest(stride.parent)
    session.add(stride.at, digest(stride.page), parent)
    for _ in range(stride.side_requests):
        session.add_side_request()

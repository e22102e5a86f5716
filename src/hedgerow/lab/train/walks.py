"""Walks: what one visitor did on a site, page by page. Nouns; the walkers are `people` and `crawlers`."""

from __future__ import annotations

from typing import NamedTuple

from hedgerow.watch.sessions.path import PathSession


class Stride(NamedTuple):
    """One page of a walk: when, which, led to by which, and how many assets came with it."""

    at: float
    page: int
    parent: int | None
    beside: int = 0


class Walk(NamedTuple):
    """
    All strides of one visitor, in order.

    *label* is what it truly is: "person" or a kind of crawler. *source* says which walker or which log it is from,
    *site* where it walked. Without a name of its own a visitor is told from others by *visitor*.
    """

    visitor: str
    label: str
    source: str
    site: str
    strides: tuple[Stride, ...]

    def sessions(self) -> list[list[Stride]]:
        """The strides of each long session, the last one perhaps short."""
        return [list(self.strides[n : n + 60]) for n in range(0, len(self.strides), 60)]


def digest(page: int) -> bytes:
    """The page's short name in a session."""
    return page.to_bytes(6, "big", signed=True)


def take(session: PathSession, stride: Stride) -> None:
    """Take one stride further."""
    parent = None if stride.parent is None else digest(stride.parent)
    session.add(stride.at, digest(stride.page), parent)
    for _ in range(stride.beside):
        session.add_side_request()

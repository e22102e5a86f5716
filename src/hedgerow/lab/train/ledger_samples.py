"""
Ledgers: what a ledger tells more than an access log does.

Which visits were made by the operator's own training crawlers (`hedgerow crawl` writes that down beside the ledger),
and cookies and sessions, so that windows can be judged, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import get_args

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.core.visit import Visit
from hedgerow.lab.train.samples import LOG, Sample
from hedgerow.ledger.labels import Label
from hedgerow.watch.sessions.path import step_of
from hedgerow.watch.sessions.window import LEAST, SessionWindow, access_of

_IDENTITIES = frozenset(get_args(Identity))


def tell_crawls(visits: Iterable[Visit], crawls: Sequence[Label], labels: dict[str, str]) -> Iterator[Visit]:
    """
    The visits; those of each crawl are a visitor of its own, whose label is put into *labels*.

    All crawls may have come from one address, and be told from each other, and from the people there, by their times
    and their user agent only. A label that is no identity stands for a suspect.
    """
    for number, crawl in enumerate(crawls):
        labels[_name(number)] = crawl.label if crawl.label in _IDENTITIES else "suspect"
    for visit in visits:
        made_by = next((n for n in range(len(crawls) - 1, -1, -1) if crawls[n].matches(visit)), None)
        yield visit if made_by is None else msgspec.structs.replace(visit, visitor=_name(made_by))


def _name(number: int) -> str:
    return f"crawl {number + 1}"


def visits_to_windows(
    visits: Iterable[Visit], label_of: Callable[[Visit], str], *, host: str = "", source: str = LOG
) -> list[Sample]:
    """The rows of a ledger for the window's model: as the watch would ask it, whenever 27 pages have come."""
    windows: dict[str, SessionWindow] = {}
    numbers: dict[str, int] = {}
    samples = []
    for visit in visits:
        step = step_of(visit, host)
        if step is None:
            continue
        window = windows.get(visit.visitor)
        if window is None:
            window = windows[visit.visitor] = SessionWindow()
        window.add(access_of(visit, step, host))
        if window.is_due:
            window.fresh = 0
            number = numbers[visit.visitor] = numbers.get(visit.visitor, -1) + 1
            samples.append(Sample(visit.visitor, label_of(visit), source, source, number, LEAST, window.features()))
    return samples

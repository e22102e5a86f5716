"""
Training samples from a ledger, which contains more than an access log.

The labels next to the ledger identify the visits of the operator's training crawlers (`hedgerow crawl`). Cookies and
sessions allow samples for the window model.
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
from hedgerow.watch.sessions.window import MIN_WINDOW, SessionWindow, access_of

_IDENTITIES = frozenset(get_args(Identity))


def label_crawls(visits: Iterable[Visit], crawls: Sequence[Label], labels: dict[str, str]) -> Iterator[Visit]:
    """
    Yield the visits; those of each crawl become a visitor of its own, whose label is added to *labels*.

    Several crawls may come from one address. Only their times and their user agent distinguish them from each other and
    from people. A label that is not an identity counts as "suspect".
    """
    for number, crawl in enumerate(crawls):
        labels[_name(number)] = crawl.label if crawl.label in _IDENTITIES else "suspect"
    for visit in visits:
        crawl_number = next((n for n in range(len(crawls) - 1, -1, -1) if crawls[n].matches(visit)), None)
        yield visit if crawl_number is None else msgspec.structs.replace(visit, visitor=_name(crawl_number))


def _name(number: int) -> str:
    return f"crawl {number + 1}"


def visits_to_windows(
    visits: Iterable[Visit], label_of: Callable[[Visit], str], *, host: str = "", source: str = LOG
) -> list[Sample]:
    """Return the samples for the window model: one whenever 27 pages have come, as in the watch."""
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
            samples.append(
                Sample(visit.visitor, label_of(visit), source, source, number, MIN_WINDOW, window.features())
            )
    return samples

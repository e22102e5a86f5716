"""
Training samples from a site's ledger or access logs.

Labels give the identity of visitors. Visitors without a label are people if the filter trusts them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.core.visit import Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train.fit import BUDGET, MIN_VISITORS, train
from hedgerow.lab.train.person_filter import Heuristics, trusted_samples
from hedgerow.lab.train.samples import PERSON, Sample, visits_to_samples
from hedgerow.lab.train.simulated_data import Size, draw_walks, path_rows
from hedgerow.lab.train.walks import Walk
from hedgerow.watch.models.bundle import Bundle

_LABELS = frozenset(get_args(Identity))


class Gathered(msgspec.Struct):
    """The samples of a log, and the number of visitors that the filter removed."""

    samples: list[Sample]
    people: int
    crawlers: int
    kept_out: int


def read_labels(path: Path) -> dict[str, str]:
    """Return the labels in a CSV file of `visitor,label`, in which labels are identities. Errors name the line."""
    labels = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or row == ["visitor", "label"]:
                    continue
                if len(row) != 2 or row[1] not in _LABELS:  # noqa: PLR2004
                    identities = ", ".join(sorted(_LABELS))
                    where = f"{str(path)!r}, line {number}"
                    raise ModelError(f"{where}: expected a visitor, a comma and one of {identities}")
                labels[row[0]] = row[1]
    except (OSError, UnicodeError, csv.Error) as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}") from None
    return labels


def gather(
    visits: Iterable[Visit],
    labels: dict[str, str],
    anchor: Bundle,
    *,
    host: str = "",
    to_samples: Callable[..., list[Sample]] = visits_to_samples,
) -> Gathered:
    """Return the samples of *visits*. *anchor* is a bundle that was trained elsewhere; see `person_filter`."""
    heuristics = Heuristics()

    def checked_visits() -> Iterator[Visit]:
        for visit in visits:
            heuristics.add(visit)
            yield visit

    samples = to_samples(checked_visits(), lambda visit: labels.get(visit.visitor, PERSON), host=host)
    named = {visitor for visitor, label in labels.items() if label == PERSON}
    # Visitors labelled as people need no filter.
    unnamed = [sample for sample in samples if sample.visitor not in named]
    trusted = trusted_samples(unnamed, heuristics.all_suspects(), anchor)
    kept_out = len({s.visitor for s in unnamed}) - len({s.visitor for s in trusted})
    rows = trusted + [sample for sample in samples if sample.visitor in named]
    people = len({sample.visitor for sample in rows if sample.label == PERSON})
    return Gathered(rows, people, len({sample.visitor for sample in rows}) - people, kept_out)


def train_from_logs(
    gathered: Gathered,
    *,
    recipe: str,
    seed: int,
    budget: float = BUDGET,
    after: Callable[[str], None] = lambda _: None,
    to_rows: Callable[[list[Walk]], list[Sample]] = path_rows,
) -> Bundle:
    """
    Train a bundle for the site of these samples.

    If there are too few people or crawlers, simulated ones are added, and the provenance says so.
    """
    samples = list(gathered.samples)
    provenance: dict[str, Any] = {
        "people": f"{gathered.people} of this site; {gathered.kept_out} visitors kept out by the filter",
        "crawlers": f"{gathered.crawlers} of this site",
    }
    size = Size()
    few_people, few_crawlers = gathered.people < MIN_VISITORS, gathered.crawlers < MIN_VISITORS
    if few_people or few_crawlers:
        drawn = draw_walks(seed, size._replace(people=size.people * few_people, crawlers=size.crawlers * few_crawlers))
        samples += to_rows(drawn)
        for kind, few in (("people", few_people), ("crawlers", few_crawlers)):
            if few:
                provenance[kind] += f", and {getattr(size, kind)} simulated"
        after(f"{len(drawn):,} simulated walks added")
    return train(samples, recipe=recipe, budget=budget, seed=seed, provenance=provenance)

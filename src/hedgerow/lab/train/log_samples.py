"""
Site logs: training rows from a site's own ledger or access logs.

Who is what is told by labels, one visitor each. Visitors without a label are people, if the filter trusts them.
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
from hedgerow.lab.train.fit import BUDGET, LEAST_OF_EACH, train
from hedgerow.lab.train.person_filter import Heuristics, honest
from hedgerow.lab.train.samples import PERSON, Sample, visits_to_samples
from hedgerow.lab.train.simulated_data import Size, draw_walks, path_rows
from hedgerow.lab.train.walks import Walk
from hedgerow.watch.models.bundle import Bundle

_LABELS = frozenset(get_args(Identity))


class Gathered(msgspec.Struct):
    """The rows of a log, and how many people the filter kept out."""

    samples: list[Sample]
    people: int
    crawlers: int
    kept_out: int


def read_labels(path: Path) -> dict[str, str]:
    """The labels in a CSV file of `visitor,label`; the labels are identities. Every fault is said with its line."""
    labels = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or row == ["visitor", "label"]:
                    continue
                if len(row) != 2 or row[1] not in _LABELS:  # noqa: PLR2004
                    wanted = ", ".join(sorted(_LABELS))
                    raise ModelError(f"{str(path)!r}, line {number}: wants a visitor, a comma and one of {wanted}")
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
    """The rows of *visits*. *anchor* is a bundle that was trained elsewhere; see `filter`."""
    heuristics = Heuristics()

    def watched() -> Iterator[Visit]:
        for visit in visits:
            heuristics.add(visit)
            yield visit

    samples = to_samples(watched(), lambda visit: labels.get(visit.visitor, PERSON), host=host)
    named = {visitor for visitor, label in labels.items() if label == PERSON}
    # Who was labelled a person by name is one.
    unnamed = [sample for sample in samples if sample.visitor not in named]
    trusted = honest(unnamed, heuristics.settle(), anchor)
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
    A bundle for the site whose rows these are.

    Where there are too few people or crawlers of its own, simulated ones are added; the provenance says so.
    """
    samples = list(gathered.samples)
    told: dict[str, Any] = {
        "people": f"{gathered.people} of this site; {gathered.kept_out} visitors kept out by the filter",
        "crawlers": f"{gathered.crawlers} of this site",
    }
    size = Size()
    few_people, few_crawlers = gathered.people < LEAST_OF_EACH, gathered.crawlers < LEAST_OF_EACH
    if few_people or few_crawlers:
        drawn = draw_walks(seed, size._replace(people=size.people * few_people, crawlers=size.crawlers * few_crawlers))
        samples += to_rows(drawn)
        for word, few in (("people", few_people), ("crawlers", few_crawlers)):
            if few:
                told[word] += f", and {getattr(size, word)} simulated"
        after(f"{len(drawn):,} simulated walks added")
    return train(samples, recipe=recipe, budget=budget, seed=seed, provenance=told)

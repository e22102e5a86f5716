"""
Training samples from a site's ledger or access logs, with the filter for visitors that may count as people.

Labels give the identity of visitors. The labels next to a ledger identify the visits of the operator's training
crawlers (`hedgerow crawl`). Visitors without a label are people if the filter trusts them (PathMarker's "users filtered
by the heuristics"). A crawler that knows that a site learns from its visitors can behave slightly worse each week,
until the site takes its behaviour for that of people. So the filter is not learned from the same visitors: it is the
heuristics, and a bundle that was trained elsewhere, the anchor.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.core.visit import HIDDEN_KINDS, Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train.adapt import Adapted, adapt
from hedgerow.lab.train.fit import BUDGET
from hedgerow.lab.train.samples import PERSON, Sample, visits_to_samples, windows_of
from hedgerow.lab.train.simulated_data import Size, draw_walks, path_rows
from hedgerow.ledger.labels import Label
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.models.bundle import Bundle
from hedgerow.watch.sessions.path import LONG, PathLengths
from hedgerow.watch.sessions.window import WindowLengths

Recipe = Literal["boosted", "pathmarker", "window"]

SIMULATED = Size(sites=20, people=500, crawlers=500)
"""The simulated visitors among the samples of a site."""
MAX_SUSPICIOUS_VISITS = 30
"""Suspicious visits in a day from which on a visitor is a suspect (PathMarker's number)."""
_SIGNS = frozenset({"automation", "program", "no-agent", "odd-agent", "browser-version", "browser-hints"})
_DAY = 86_400
_OFTEN = 0.25
_LABELS = frozenset(get_args(Identity))


class Heuristics:
    """
    PathMarker's heuristics, for a log that is read from beginning to end.

    One trap, tampered marker, or declared or proven bot is enough. For links issued to another visitor, or headers that
    no browser sends, the limit is 30 in a day or a third of all visits.
    """

    def __init__(self) -> None:
        self.suspects: set[str] = set()
        self._suspicious_by_day: Counter[tuple[str, int]] = Counter()
        self._suspicious: Counter[str] = Counter()
        self._visits: Counter[str] = Counter()

    def add(self, visit: Visit) -> None:
        marker = visit.marker
        visitor = visit.visitor
        if visit.bot or visit.claim or visit.tampered or (marker is not None and marker.kind in HIDDEN_KINDS):
            self.suspects.add(visitor)
            return
        foreign = (
            marker is not None and marker.issued_to != visitor_digest(visitor) and marker.issued_to not in visit.linked
        )
        is_suspicious = foreign or not _SIGNS.isdisjoint(visit.anomalies)
        self._visits[visitor] += 1
        if is_suspicious:
            day = (visitor, int(visit.at // _DAY))
            self._suspicious[visitor] += 1
            self._suspicious_by_day[day] += 1
            if self._suspicious_by_day[day] >= MAX_SUSPICIOUS_VISITS:
                self.suspects.add(visitor)

    def all_suspects(self) -> set[str]:
        """Return all suspects, once the log has been read."""
        return self.suspects | {name for name, count in self._suspicious.items() if count * 3 > self._visits[name]}


class Gathered(msgspec.Struct):
    """
    The samples of a log, and the numbers of their people and crawlers.

    Left out are visitors that the heuristics suspect (*kept_out*), and *doubtful* ones: the anchor often takes them for
    crawlers, and they have neither an account nor a clearance. *suspected* are people that the anchor suspects and that
    count nevertheless: a model that never learns about them suspects them forever.
    """

    samples: list[Sample]
    people: int
    crawlers: int
    kept_out: int
    doubtful: int = 0
    suspected: int = 0

    def with_pages(self, pages: int) -> Gathered:
        """Return the samples of sessions of at least *pages* pages, and count their visitors."""
        samples = [sample for sample in self.samples if sample.size >= pages]
        people = len({sample.visitor for sample in samples if sample.label == PERSON})
        crawlers = len({sample.visitor for sample in samples if sample.label != PERSON})
        return msgspec.structs.replace(self, samples=samples, people=people, crawlers=crawlers)


def doubted_people(samples: Sequence[Sample], anchor: Bundle) -> tuple[set[str], set[str]]:
    """
    Return the people whom *anchor* suspects at all, and those of them whom it suspects often.

    Often is twice at least, and in more than a quarter of all judgements: a person is misjudged once, a crawler again
    and again.
    """
    judged: Counter[str] = Counter()
    suspicious: Counter[str] = Counter()
    width = len(anchor.features)
    for sample in samples:
        if sample.label == PERSON and anchor.has_stage(sample.size):
            judged[sample.visitor] += 1
            suspicious[sample.visitor] += anchor.judge(sample.features[:width], sample.size).identity != PERSON
    suspected = {visitor for visitor, count in suspicious.items() if count}
    often = {name for name in suspected if suspicious[name] > max(1, judged[name] * _OFTEN)}
    return suspected, often


def read_labels(path: Path, *, campaigns: bool = False) -> dict[str, str]:
    """
    Return the labels in a CSV file of `visitor,label`. Errors name the line.

    Labels are identities, or any names if they are *campaigns*.
    """
    labels = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or row == ["visitor", "label"]:
                    continue
                if len(row) != 2 or not (campaigns or row[1] in _LABELS):  # noqa: PLR2004
                    identities = ", ".join(sorted(_LABELS))
                    where = f"{str(path)!r}, line {number}"
                    raise ModelError(f"{where}: expected a visitor, a comma and one of {identities}")
                labels[row[0]] = row[1]
    except (OSError, UnicodeError, csv.Error) as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}") from None
    return labels


def label_crawls(visits: Iterable[Visit], crawls: Sequence[Label], labels: dict[str, str]) -> Iterator[Visit]:
    """
    Yield the visits; those of each crawl become a visitor of its own, whose label is added to *labels*.

    Several crawls may come from one address. Only their times and their user agent distinguish them from each other and
    from people. A label that is not an identity counts as "suspect".
    """
    for number, crawl in enumerate(crawls):
        labels[_name(number)] = crawl.label if crawl.label in _LABELS else "suspect"
    for visit in visits:
        crawl_number = next((n for n in range(len(crawls) - 1, -1, -1) if crawls[n].matches(visit)), None)
        yield visit if crawl_number is None else msgspec.structs.replace(visit, visitor=_name(crawl_number))


def _name(number: int) -> str:
    return f"crawl {number + 1}"


def gather(
    visits: Iterable[Visit],
    labels: dict[str, str],
    anchor: Bundle,
    *,
    host: str = "",
    to_samples: Callable[..., list[Sample]] = visits_to_samples,
) -> Gathered:
    """Return the samples of *visits*. *anchor* is a bundle that was trained elsewhere."""
    heuristics = Heuristics()

    def checked_visits() -> Iterator[Visit]:
        for visit in visits:
            heuristics.add(visit)
            yield visit

    samples = to_samples(checked_visits(), lambda visit: labels.get(visit.visitor, PERSON), host=host)
    # Visitors labelled as people need no filter.
    named = {visitor for visitor, label in labels.items() if label == PERSON}
    unnamed = [sample for sample in samples if sample.visitor not in named and sample.label == PERSON]
    kept_out = {sample.visitor for sample in unnamed} & heuristics.all_suspects()
    suspected, often = doubted_people(unnamed, anchor)
    doubtful = {visitor for visitor in often if not visitor.startswith((ACCOUNT, CLEARANCE))} - kept_out
    left_out = kept_out | doubtful
    rows = [sample for sample in samples if sample.label != PERSON or sample.visitor not in left_out]
    people = {sample.visitor for sample in rows if sample.label == PERSON}
    crawlers = {sample.visitor for sample in rows if sample.label != PERSON}
    return Gathered(rows, len(people), len(crawlers), len(kept_out), len(doubtful), len(suspected & people))


class Lengths(NamedTuple):
    """The lengths of the sessions of a site."""

    paths: PathLengths = PathLengths()
    window: WindowLengths = WindowLengths()

    def judged_at(self, recipe: Recipe) -> tuple[int, ...]:
        """Return the numbers of pages at which a bundle of *recipe* judges."""
        if recipe == "boosted":
            return self.paths.judge_at
        return (self.paths.long,) if recipe == "pathmarker" else (self.window.least,)


def check_own(gathered: Gathered, recipe: Recipe, lengths: Lengths) -> None:
    """Raise ModelError if there is nobody to learn from: simulated visitors cannot stand for all people of a site."""
    if not gathered.people:
        raise ModelError(
            f"no person has read {lengths.judged_at(recipe)[0]} pages yet, as far as the log goes back; let the site"
            " run for some days, or use --simulated"
        )


def train_for_site(
    gathered: Gathered,
    *,
    recipe: Recipe,
    start: Bundle | None,
    seed: int = 1,
    budget: float = BUDGET,
    lengths: Lengths = Lengths(),  # noqa: B008 - immutable
    size: Size | None = None,
    after: Callable[[str], None] = lambda _: None,
) -> Adapted:
    """Train a bundle for a site, going on from the bundle *start*. Simulated visitors are always among the samples."""
    check_own(gathered, recipe, lengths)
    size = size or SIMULATED
    # Other walks than those on which the shipped bundles were trained.
    walks = draw_walks(f"for a site {seed}", size, math.ceil(2 * max(lengths.paths.long, lengths.window.most) / LONG))
    if recipe == "window":
        simulated = windows_of(walks, Random(f"windows for a site {seed}"), lengths.window)  # noqa: S311 - not secret
    else:
        simulated = path_rows(walks, lengths.paths)
    after(f"{len(walks):,} simulated walks added: people and crawlers weigh the same")
    left_out = f"{gathered.kept_out + gathered.doubtful} visitors left out by the filter"
    provenance: dict[str, Any] = {
        "people": f"{gathered.people} of this site ({left_out}), and {size.people} simulated",
        "crawlers": f"{gathered.crawlers} of this site, and {size.crawlers} simulated",
    }
    sizes = lengths.judged_at(recipe)
    adapted = adapt(
        [*gathered.samples, *simulated], recipe=recipe, start=start, sizes=sizes, budget=budget, seed=seed,
        provenance=provenance,
    )  # fmt: skip
    bundle = msgspec.structs.replace(
        adapted.bundle, long=lengths.paths.long, short_gap=lengths.paths.short_gap, window=lengths.window
    )
    return adapted._replace(bundle=bundle)

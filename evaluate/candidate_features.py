"""
Candidate features that need more memory per session, tested before they are built.

They use page names: sections visited, sorted order, the share of a page's links that is followed, night, and the number
of user agents of an address. Models are trained on people and declared crawlers of two real logs and tested on the
third, each in turn, and on live crawls of makes not trained on. Drawn walks have no names and are not used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from evaluate import live, real
from evaluate.tables import SEED, percent, table
from evaluate.texts import text
from evaluate.train import STITCHED
from hedgerow.lab.train.learners import fit_trees, matrix
from hedgerow.lab.train.measures import area, at_false_positives, roc
from hedgerow.lab.train.samples import PERSON, Sample, Stride, Walk, add_stride
from hedgerow.watch.sessions.path import ALL_FEATURES, PathSession

SIZE = 20
CANDIDATES = ("sections", "sorted", "followed", "night", "agents")
NIGHT = 6
"""Night lasts from midnight to this hour, by the clock of the log."""

BY_NAMES = {
    "nothing": (),
    "sections visited": ("sections",),
    "sorted order": ("sorted",),
    "share of a page's links followed": ("followed",),
    "all three": ("sections", "sorted", "followed"),
}
BY_VISITOR = {"nothing": (), "night": ("night",), "user agents of the address": ("agents",)}


class SitePages(NamedTuple):
    """The pages of a site: their *targets*, and the *links* of each that any visitor followed."""

    targets: Mapping[int, str]
    links: Mapping[int, set[int]]


def site_pages(targets: Mapping[int, str], walks: Iterable[Walk]) -> SitePages:
    links: dict[int, set[int]] = defaultdict(set)
    for walk in walks:
        for stride in walk.strides:
            if stride.parent is not None:
                links[stride.parent].add(stride.page)
    return SitePages(targets, links)


def candidate_values(strides: Sequence[Stride], pages_of_site: SitePages, agents: int) -> tuple[float, ...]:
    """
    Return the `CANDIDATES` of the first strides of a walk.

    sections: distinct first path segments per page. sorted: share of pages whose target sorts after the last one.
    followed: mean share of a page's links that were followed. night: share of pages at night. agents: number of user
    agents at the address.
    """
    names = [pages_of_site.targets.get(stride.page, "") for stride in strides]
    sections = {name.partition("?")[0].split("/")[1] if "/" in name[1:] else "" for name in names}
    ascending = sum(one < other for one, other in pairwise(names))
    taken: dict[int, set[int]] = defaultdict(set)
    for stride in strides:
        if stride.parent is not None and len(pages_of_site.links.get(stride.parent, ())) > 1:
            taken[stride.parent].add(stride.page)
    shares = [len(pages) / len(pages_of_site.links[parent]) for parent, pages in taken.items()]
    at_night = sum(stride.at % 86_400 < NIGHT * 3600 for stride in strides)
    return (
        len(sections) / len(names),
        ascending / len(names),
        sum(shares) / len(shares) if shares else 0.0,
        at_night / len(strides),
        float(agents),
    )


def rows_of(walks: Iterable[Walk], pages_of_site: SitePages, agents: Mapping[str, int]) -> list[Sample]:
    """Return one sample per visitor: at 20 pages, all features, then the candidates."""
    rows = []
    for walk in walks:
        if len(walk.strides) >= SIZE:
            session = PathSession()
            for stride in walk.strides[:SIZE]:
                add_stride(session, stride)
            features = session.all_features() + candidate_values(
                walk.strides[:SIZE], pages_of_site, agents.get(walk.visitor, 1)
            )
            rows.append(Sample(walk.visitor, walk.label, walk.source, walk.site, 0, SIZE, features))
    return rows


def logged() -> dict[str, list[Sample]]:
    """The rows of each log: readers, readers' sittings put together, declared crawlers."""
    found = {}
    for site in real.LOGS:
        log = real.read_log(site)
        walks = [walk for walk in log.walks if walk.label != PERSON or walk.visitor in log.readers]
        found[site] = rows_of(
            [*walks, *real.stitched(site, STITCHED, SEED)], site_pages(log.targets, log.walks), log.agents
        )
    return found


def recorded() -> list[Sample]:
    """The rows of the live crawls that nothing was trained on. Numbers of pages are another run's own: so are links."""
    six = {kind.name for kind in live.TRAINING_CRAWLERS}
    names = live.names()
    by_name: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    walks = [walk for name, its in live.load().items() for walk in its]
    for walk in walks:
        for stride in walk.strides:
            if stride.parent is not None:
                of = names[walk.visitor]
                by_name[walk.site][of[stride.parent]].add(of[stride.page])
    rows = []
    for walk in walks:
        if walk.source not in six:
            targets = dict(enumerate(names[walk.visitor]))
            numbers = {name: number for number, name in targets.items()}
            links = {
                number: {numbers.get(page, -1 - at) for at, page in enumerate(sorted(by_name[walk.site][name]))}
                for number, name in targets.items()
            }
            rows += rows_of([walk], SitePages(targets, links), {})
    return rows


def judge(train: Sequence[Sample], test: Sequence[Sample], more: Sequence[str]) -> list[float]:
    columns = [*range(len(ALL_FEATURES)), *(len(ALL_FEATURES) + CANDIDATES.index(name) for name in more)]
    truth = [sample.label != PERSON for sample in train]
    model, _ = fit_trees(matrix(train)[:, columns], truth, SEED)
    return [model.score([sample.features[n] for n in columns]) for sample in test]


def compared(
    logs: Mapping[str, Sequence[Sample]], crawls: Sequence[Sample], ways: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """For each way: the mean area over the three logs, and what is found at 0.5 % of people in all three together."""
    made = []
    for name, more in ways.items():
        areas, found, crawlers, live_found, live_all = [], 0, 0, 0, 0
        for site, rows in logs.items():
            train = [row for other, its in logs.items() if other != site for row in its]
            scores = judge(train, rows, more)
            truth = [row.label != PERSON for row in rows]
            areas.append(area(roc(scores, truth)))
            its_found, its_all, _, _, threshold = at_false_positives(scores, truth, 0.005)
            found, crawlers = found + its_found, crawlers + its_all
            live_found += sum(score > threshold for score in judge(train, crawls, more))
            live_all += len(crawls)
        cells = [f"{sum(areas) / len(areas):.4f}", percent(found, crawlers)]
        made.append([name, *cells, *([percent(live_found, live_all)] if crawls else [])])
    return made


def table_of(parts: list[str]) -> None:
    logs, crawls = logged(), recorded()
    people = sum(row.label == PERSON for rows in logs.values() for row in rows)
    parts.append(text("candidates", people=people))
    head = ["added", "area under ROC, mean", "declared crawlers found at 0.5 %", "live crawls found at 0.5 %"]
    parts.append(table(head, compared(logs, crawls, BY_NAMES)))
    alone = {site: [row for row in rows if "stitched" not in row.visitor] for site, rows in logs.items()}
    count = sum(row.label == PERSON for rows in alone.values() for row in rows)
    parts.append(text("candidates_alone", count=count))
    parts.append(table(head[:3], compared(alone, [], BY_VISITOR)))

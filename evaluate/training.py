"""
Training on a small site, before and after: `python -m evaluate.training` prints a table for docs/training.md.

The people of the site are 33 people of Wikispeedia's test half, drawn anew for each repetition; its crawls are one run
of each of the six crawlers from the first recording. The test has the other people of that half with ten pages or more,
the readers of a log, and all 120 crawls of the second recording. No model was trained on any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random

from evaluate import live, real
from evaluate.tables import percent, table
from hedgerow.lab.train.adapt import compare
from hedgerow.lab.train.fit import train
from hedgerow.lab.train.log_samples import Gathered, train_for_site
from hedgerow.lab.train.samples import LOG, PERSON, Sample, Walk, samples_of
from hedgerow.lab.train.simulated_data import Size, draw_walks, path_rows
from hedgerow.watch.models.bundle import Bundle, shipped
from hedgerow.watch.sessions.path import PREFIXES

OWN = 33
REPEATS = 3
FORMER_CRAWLERS = 3000


def former(own: Sequence[Sample], current: Bundle) -> Bundle:
    """The former procedure: without people whom the shipped bundle suspects, and with 3,000 simulated crawlers."""
    suspects = {s.visitor for s in own if s.label == PERSON and current.judge(s.features, s.size).identity != PERSON}
    crawlers = path_rows(draw_walks(1, Size(people=0, crawlers=FORMER_CRAWLERS)))
    return train([*(s for s in own if s.visitor not in suspects), *crawlers])


def suspected(bundle: Bundle, walks: Sequence[Walk], pages: int = 60) -> int:
    """How many of *walks* the bundle holds to be a crawler's within the first *pages* pages."""
    return sum(
        any(
            bundle.has_stage(s.size) and bundle.judge(s.features, s.size).identity != PERSON
            for s in samples_of(walk._replace(strides=walk.strides[:pages]))
        )
        for walk in walks
    )


def main() -> None:
    if not real.is_available():
        sys.exit("The real data are not there; nothing was measured.")
    current = shipped("boosted")
    everybody = real.wiki_walks(1, min_pages=10)
    log = real.read_log("french")
    readers = [walk for walk in log.walks if walk.visitor in log.readers]
    first, test = live.load(live.FIRST), [walk for walks in live.load().values() for walk in walks]
    crawls = [first[kind.name][0]._replace(visitor=f"own {kind.name}") for kind in live.TRAINING_CRAWLERS]
    rows = []
    for repeat in range(REPEATS):
        people = list(everybody)
        Random(f"own {repeat}").shuffle(people)
        own = [s._replace(source=LOG) for walk in [*people[:OWN], *crawls] for s in samples_of(walk)]
        adapted = train_for_site(Gathered(own, OWN, len(crawls), 0), recipe="boosted", start=current)
        found = compare(adapted.judged, current)
        print(f"repeat {repeat + 1}: {found} {found.fault or 'accepted'}", file=sys.stderr, flush=True)
        bundles = {"shipped": current, "former": former(own, current), "now": adapted.bundle}
        for name, bundle in bundles.items():
            cells = [f"{suspected(bundle, test, pages) / len(test):.1%}" for pages in PREFIXES]
            unseen = [suspected(bundle, people[:OWN]), suspected(bundle, people[OWN:]), suspected(bundle, readers)]
            sizes = [OWN, len(people) - OWN, len(readers)]
            stages = ", ".join(str(stage.size) for stage in bundle.stages)
            shares = [percent(count, size) for count, size in zip(unseen, sizes, strict=True)]
            rows.append([f"{name} {repeat + 1}", *cells, *shares, stages])
            print(rows[-1], file=sys.stderr, flush=True)
    head = ["bundle", *(f"within {pages}" for pages in PREFIXES), "own people", "unseen people", "readers of a log"]
    print(table([*head, "stages"], rows))


if __name__ == "__main__":
    main()

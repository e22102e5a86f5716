"""
Trains the bundles of the package: `python -m evaluate.train`, which takes some minutes.

`pathmarker` uses drawn walks only, `window` also half of the people of Wikispeedia. `boosted` also uses the real logs:
readers, merged sittings of readers, and declared crawlers, without user agents. A bundle contains only parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random

from evaluate import real
from hedgerow.lab.train.fit import BUDGET, train
from hedgerow.lab.train.samples import PERSON, Sample, samples_of, windows_of
from hedgerow.lab.train.simulated_data import Size, draw_walks, path_rows, train_simulated
from hedgerow.lab.train.simulated_people import people_statistics
from hedgerow.watch.models.bundle import SHIPPED, Bundle, encoded

FOLDER = real.HERE.parents[0] / "src" / "hedgerow" / "data" / "models"
SIZE = Size(sites=40, people=1000, crawlers=1000)
STITCHED = 200
SEED = 1


def log_rows(site: str) -> list[Sample]:
    """
    Return readers, people merged from sittings of readers, and declared crawlers of one log: two long sessions each.
    """
    log = real.read_log(site)
    walks = [walk for walk in log.walks if walk.label != PERSON or walk.visitor in log.readers]
    return [
        sample
        for walk in [*walks, *real.stitched(site, STITCHED, SEED)]
        for sample in samples_of(walk)
        if sample.number < 2
    ]


def mixed(drawn: Sequence[Sample], sites: Sequence[str], *, seed: int = SEED) -> Bundle:
    """`boosted` from drawn rows and the logs of *sites*."""
    wiki = [row for walk in real.wiki_walks(0, min_pages=20) for row in samples_of(walk)]
    rows = [*drawn, *wiki, *(row for site in sites for row in log_rows(site))]
    logged = [row for row in rows if row.source in sites]
    readers = {row.visitor for row in logged if row.label == PERSON and "stitched" not in row.visitor}
    crawlers = {row.visitor for row in logged if row.label != PERSON}
    provenance = {
        "people": f"{SIZE.people} by the generator; {people_statistics().source}; "
        f"{len({row.visitor for row in wiki})} of Wikispeedia (the other half is for the test); "
        f"{len(readers)} readers of {len(sites)} logs, and {STITCHED} of "
        "each put together from readers' sittings",
        "crawlers": f"{SIZE.crawlers} simulated; {len(crawlers)} of the logs that name themselves crawlers",
        "logs": list(sites),
    }
    return train(rows, recipe="boosted", seed=seed, provenance=provenance, held_out_logs=tuple(sites))


def windows() -> Bundle:
    """
    `window` from drawn walks and people of Wikispeedia. What these do not tell, cookies and so on, is drawn. It is
    asked beside `boosted`, which is better: its budget is half of that one's.
    """
    wiki = real.wiki_walks(0, min_pages=20)
    walks = [*draw_walks(SEED, Size()), *wiki]
    provenance = {
        "people": f"{Size().people} by the generator; {people_statistics().source}; {len(wiki)} of "
        "Wikispeedia (the other half is for the test)",
        "crawlers": f"{Size().crawlers} simulated",
    }
    rows = windows_of(walks, Random(f"windows {SEED}"))
    return train(rows, recipe="window", budget=BUDGET / 2, seed=SEED, provenance=provenance)


if __name__ == "__main__":
    if not real.is_available():
        sys.exit("The real logs are not there; nothing was changed.")
    for name in SHIPPED:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if name == "boosted":
            bundle = mixed(path_rows(draw_walks(SEED, SIZE)), tuple(real.LOGS))
        elif name == "window":
            bundle = windows()
        else:
            bundle = train_simulated(name, seed=SEED, after=print)
        (FOLDER / f"{name}.json").write_bytes(encoded(bundle))
        print(name, {size: measured["crawlers_found"]["value"] for size, measured in bundle.metrics.items()})

"""
What cookies, sessions, addresses and user agents add to paths: the window features next to path features at 27 pages.

Only the live crawls have real cookies: the gate gave one to everybody, and the ledger shows who returned it. Logs
contain none, and Iliou's sessions are named by theirs, so all of them have one. For people and drawn crawlers, cookies
and headers are drawn as for the window model (`samples.windows_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from evaluate import live, real
from evaluate.crawls import readers
from evaluate.tables import SEED, TRAININGS, mean_row, table
from evaluate.texts import text
from hedgerow.lab.train.learners import fit_trees, matrix
from hedgerow.lab.train.samples import PERSON, Sample, Walk, add_stride, windows_along
from hedgerow.lab.train.simulated_data import Size, draw_walks
from hedgerow.watch.sessions.path import ALL_FEATURES, PathSession
from hedgerow.watch.sessions.window import MIN_WINDOW, WINDOW_FEATURES

COOKIES = ("cookie_absent", "cookie_wrong", "cookie_good", "cookies")
SESSIONS = ("sessions", "session_shared", "session_most")
REFERRERS = ("referrer_absent", "referrer_foreign", "referrer_own")
AGENTS = ("agent_absent", "agent_unknown", "agent_false", "agent_true")
ADDED = {
    "nothing": (),
    "cookies: brought back, refused, how many": COOKIES,
    "sessions: how many, from how many addresses": SESSIONS,
    "referrers: absent, foreign, own": REFERRERS,
    "user agents: absent, a program's, a false bot's": AGENTS,
    "all of these": (*COOKIES, *SESSIONS, *REFERRERS, *AGENTS),
}
TRAINED = Size(sites=40, people=1000, crawlers=1000)


def path_at(walk: Walk) -> tuple[float, ...]:
    """Return the path features of a walk at the first classification of its window."""
    session = PathSession()
    for stride in walk.strides[:MIN_WINDOW]:
        add_stride(session, stride)
    return session.all_features()


def joined(walk: Walk, window: Sequence[float]) -> Sample:
    return Sample(walk.visitor, walk.label, walk.source, walk.site, 0, MIN_WINDOW, (*path_at(walk), *window))


def drawn(walks: Iterable[Walk], rng: Random) -> list[Sample]:
    """Return one sample per visitor; properties that walks do not contain are drawn."""
    return [
        joined(walk, next(windows_along(walk, rng))[1].features) for walk in walks if len(walk.strides) >= MIN_WINDOW
    ]


def recorded() -> list[Sample]:
    """Return one sample of each live crawl, with the cookies and headers that it sent."""
    windows = live.windows()
    return [
        joined(walk, windows[walk.visitor][0][1])
        for walks in live.load().values()
        for walk in walks
        if windows.get(walk.visitor)
    ]


def table_of(parts: list[str], people: list[Walk]) -> None:
    rng = Random(f"consistency {SEED}")
    wiki = real.wiki_walks(0, min_pages=MIN_WINDOW) if real.is_available() else []
    train = drawn([*draw_walks(SEED, TRAINED), *wiki], rng)
    walks = list(people)
    if wiki:
        walks += real.wiki_walks(1)
        walks += [walk for site in real.LOGS for walk in [*readers(site), *real.stitched(site, 100, SEED)]]
    crawlers = recorded()
    test = [*drawn(walks, rng), *crawlers]
    names = (*ALL_FEATURES, *WINDOW_FEATURES)
    truth, labels = [row.label != PERSON for row in train], [row.label != PERSON for row in test]
    rows = []
    for name, more in ADDED.items():
        # Both have a gap_middle: the path's comes first.
        columns = [n for n, feature in enumerate(names) if n < len(ALL_FEATURES) or feature in more]
        models = [fit_trees(matrix(train)[:, columns], truth, seed)[0] for seed in TRAININGS]
        scores = [[model.score([row.features[n] for n in columns]) for row in test] for model in models]
        rows.append([name, *mean_row(scores, labels)])
    good = len(ALL_FEATURES) + WINDOW_FEATURES.index("cookie_good")
    kept = sum(row.features[good] > 0.5 for row in crawlers)
    parts.append(text("consistency", runs=len(crawlers), kept=kept))
    parts.append(
        table(["added", "people / crawlers", "area under ROC, mean", "live crawls found at 0.5 %, mean"], rows)
    )

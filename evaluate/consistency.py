"""
What cookies, sessions, addresses and user agents tell beside a path: the sliding window's features, added to those of
paths at 27 pages.

The live crawls are the only data here in which cookies are real: the gate gave one to everybody, and the ledger says
who brought it back. Logs have none, and Iliou's sessions are named by theirs, so all of them have one. For people, and
for drawn crawlers to train on, cookies and headers are drawn as for the window's own model (`rows.windows_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from evaluate import live, real
from evaluate.crawls import readers
from evaluate.tables import SEED, TRAININGS, mean_row, table
from hedgerow.lab.train.learners import fit_trees, matrix
from hedgerow.lab.train.samples import PERSON, Sample, windows_along
from hedgerow.lab.train.simulated_data import Size, draw_walks
from hedgerow.lab.train.walks import Walk, take
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
    """The features of a path when the window is first asked."""
    session = PathSession()
    for stride in walk.strides[:MIN_WINDOW]:
        take(session, stride)
    return session.all_features()


def joined(walk: Walk, window: Sequence[float]) -> Sample:
    return Sample(walk.visitor, walk.label, walk.source, walk.site, 0, MIN_WINDOW, (*path_at(walk), *window))


def drawn(walks: Iterable[Walk], chance: Random) -> list[Sample]:
    """One row a visitor; what walks do not tell is drawn."""
    return [
        joined(walk, next(windows_along(walk, chance))[1].features) for walk in walks if len(walk.strides) >= MIN_WINDOW
    ]


def recorded() -> list[Sample]:
    """One row of each live crawl, with the cookies and headers that it really sent."""
    windows = live.windows()
    return [
        joined(walk, windows[walk.visitor][0][1])
        for walks in live.load().values()
        for walk in walks
        if windows.get(walk.visitor)
    ]


def table_of(parts: list[str], people: list[Walk]) -> None:
    chance = Random(f"consistency {SEED}")
    wiki = real.wiki_walks(0, least=MIN_WINDOW) if real.there() else []
    train = drawn([*draw_walks(SEED, TRAINED), *wiki], chance)
    walks = list(people)
    if wiki:
        walks += real.wiki_walks(1)
        walks += [walk for site in real.LOGS for walk in [*readers(site), *real.stitched(site, 100, SEED)]]
    crawlers = recorded()
    test = [*drawn(walks, chance), *crawlers]
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
    parts.append(
        "### Cookies and headers\n\nThe sliding window's features, added to those of paths at 27 pages. Trained on "
        f"drawn walks and half of the people of Wikispeedia; tested on all live crawls ({len(crawlers)} runs of 27 "
        "pages, none trained on) and on people as above. The live crawls are the only data here with real cookies: the "
        f"gate gave one to everybody, and {kept} of {len(crawlers)} runs brought it back, as browsers do. Cookies and "
        "headers of people, and of all that was trained on, are drawn (`training/rows.py` says how), so people look "
        "here as they were assumed to. Logs tell no cookies, and each of Iliou's sessions has one by its making.\n"
    )
    parts.append(
        table(["added", "people / crawlers", "area under ROC, mean", "live crawls found at 0.5 %, mean"], rows)
    )

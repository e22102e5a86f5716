"""PathMarker's table 1 and the speed of detection, on recorded crawls of live sites and on people."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random

from evaluate import live, real
from evaluate.charts import line_chart
from evaluate.tables import SEED, first_alarm, found_by, long_sessions, percent, table, verdict
from evaluate.texts import text
from evaluate.unseen import TEST_CRAWLERS, folder_site
from hedgerow.lab.train.samples import PERSON, Sample, Walk, windows_along, windows_of
from hedgerow.lab.train.simulated_data import draw_crawlers, draw_people
from hedgerow.watch.models.bundle import Bundle, load_window, shipped
from hedgerow.watch.sessions.path import LONG
from hedgerow.watch.sessions.window import MIN_WINDOW

KINDS = ("person", "depth-first", "width-first", "random-like")
PAPER = {
    "person": "96.43 / 0 / 3.57 / 0",
    "depth-first": "0 / 100 / 0 / 0",
    "width-first": "0 / 6.25 / 93.75 / 0",
    "random-like": "1.51 / 1.77 / 0 / 96.72",
}
"""Table 1 of PathMarker 2019 in the order of KINDS. Its text and its table swap types 1 and 2."""


def generated() -> tuple[list[Walk], list[Walk]]:
    """People by the generator, and simulated crawlers that nothing was trained on, on the two sites."""
    people, others = [], []
    chance = Random(f"test {SEED}")
    for name, (root, home) in live.SITES.items():
        site = folder_site(root, home)
        both = {"long_sessions": 2, "marked": True, "name": name}
        people += draw_people(chance, [site], 300, **both)
        others += draw_crawlers(chance, [site], 20 * len(TEST_CRAWLERS), crawlers=TEST_CRAWLERS, vary=False, **both)
    return people, others


def row_of(name: str, kind: str, judged: list[str]) -> list[str]:
    counts = Counter(judged)
    total = len(judged)
    shares = [f"{counts[kind] / total:.2%}" for kind in KINDS]
    right = counts[PERSON] if kind == PERSON else total - counts[PERSON]
    named = "" if kind in {PERSON, "crawler"} else percent(counts[kind], total)
    return [name, *shares, percent(right, total), named, PAPER.get(kind, "")]


def table_one(parts: list[str], people: list[Walk], left_out: dict[str, Bundle]) -> list[list[str]]:
    """The rows of the goals."""
    crawls = live.load()
    six = [kind for kind in live.TRAINING_CRAWLERS if kind.name in crawls]
    unseen = [walk for name, walks in crawls.items() if name not in {kind.name for kind in six} for walk in walks]
    runs = sum(len(walks) for walks in crawls.values())
    parts.append(text("live", runs=runs, sites=", ".join(live.SITES)))
    replayed = real.wiki_walks(1) if real.is_available() else []
    for name in ("pathmarker", "boosted"):
        bundle = shipped(name)
        rows = [row_of("people, generated", PERSON, [said for walk in people for said in long_sessions(bundle, walk)])]
        if replayed:
            judged = [said for walk in replayed for said in long_sessions(bundle, walk)]
            rows.append(row_of("people, Wikispeedia replayed", PERSON, judged))
            judged = [
                said
                for site, without in left_out.items()
                for walk in [*readers(site), *real.stitched(site, 100, SEED)]
                for said in long_sessions(without if name == "boosted" else bundle, walk)
            ]
            rows.append(row_of("people, logs replayed", PERSON, judged))
        for label in KINDS[1:]:
            walks = [walk for kind in six if kind.label == label for walk in crawls[kind.name]]
            rows.append(row_of(label, label, [said for walk in walks for said in long_sessions(bundle, walk)]))
        judged = [said for walk in unseen for said in long_sessions(bundle, walk)]
        rows.append(row_of("the fifteen others", "crawler", judged))
        parts.append(f"`{name}`:\n")
        head = ["truth", *(f"as {kind}" for kind in KINDS), "right", "named", "paper, same order (%)"]
        parts.append(table(head, rows))
    parts.append(text("people"))
    groups = {"people, generated": people, **({"people, Wikispeedia": replayed} if replayed else {})}
    windows = alarms_by_window(groups, crawls)
    goals = either(parts, groups, left_out, crawls, windows)
    goals += how_soon(parts, crawls, groups, windows)
    first(parts)
    return goals


def alarms_by_window(people: dict[str, list[Walk]], crawls: dict[str, list[Walk]]) -> dict[str, list[int]]:
    """By visitor: after how many pages the window's model says that it is a crawler, whenever it is asked."""
    bundle, chance, recorded = load_window(), Random(SEED), live.windows()
    rows = {walk.visitor: recorded.get(walk.visitor, []) for walks in crawls.values() for walk in walks}
    for walk in (walk for walks in people.values() for walk in walks):
        rows[walk.visitor] = [(pages, sample.features) for pages, sample in windows_along(walk, chance)]
    return {
        visitor: [pages for pages, row in its if bundle.judge(row, MIN_WINDOW).identity != PERSON]
        for visitor, its in rows.items()
    }


def either(
    parts: list[str],
    people: dict[str, list[Walk]],
    left_out: dict[str, Bundle],
    crawls: dict[str, list[Walk]],
    windows: dict[str, list[int]],
) -> list[list[str]]:
    """Long sessions as the watch acts, which asks the paths' model and the window's. The rows of the goals."""
    bundle = shipped("boosted")
    chance, window = Random(SEED), load_window()
    six = {kind.name for kind in live.TRAINING_CRAWLERS}
    groups = {
        **people,
        "the six": [walk for name, walks in crawls.items() if name in six for walk in walks],
        "the fifteen others": [walk for name, walks in crawls.items() if name not in six for walk in walks],
    }
    judged = {
        name: [pair for walk in walks for pair in both(long_sessions(bundle, walk), windows[walk.visitor])]
        for name, walks in groups.items()
    }
    if left_out:
        judged["people, logs"] = [
            pair
            for site, without in left_out.items()
            for walk in [*readers(site), *real.stitched(site, 100, SEED)]
            for pair in both(
                long_sessions(without, walk),
                [pages for pages, row in windows_along(walk, chance) if verdict(window, row) != PERSON],
            )
        ]
    rows, goals = [], []
    for name, pairs in judged.items():
        found = [sum(pair) for pair in zip(*pairs, strict=True)]
        cells = [*found, sum(path or window for path, window in pairs)]
        rows.append([name, *(percent(cell, len(pairs)) for cell in cells)])
        wrong = name.startswith("people")
        by_path, _, by_either = [len(pairs) - cell if wrong else cell for cell in cells]
        goals += [
            [
                f"99 % of the long sessions of {name}, by {how}",
                percent(right, len(pairs)),
                "96.43 %" if wrong else "96.74 %, of the six",
                "met" if right >= 0.99 * len(pairs) else "missed",
            ]
            for how, right in (("paths", by_path), ("paths and windows", by_either))
        ]
    parts.append(text("either"))
    parts.append(table(["long sessions of", "held to be a crawler's by `boosted`", "by `window`", "by either"], rows))
    return goals


def both(said: list[str], alarms: list[int]) -> list[tuple[bool, bool]]:
    """For each long session: whether its path was a crawler's, and whether a window that ended in it was."""
    return [
        (one != PERSON, any(number * LONG < pages <= (number + 1) * LONG for pages in alarms))
        for number, one in enumerate(said)
    ]


def first(parts: list[str]) -> None:
    """The recording that had been looked at before: the same figures in a table."""
    crawls, bundle = live.load(live.FIRST), shipped("boosted")
    six = {kind.name for kind in live.TRAINING_CRAWLERS}
    others = [walk for name, walks in crawls.items() if name not in six for walk in walks]
    judged = [said for walk in others for said in long_sessions(bundle, walk)]
    runs = [walk for walks in crawls.values() for walk in walks]
    late = len(runs) - found_by(bundle, runs, 2 * LONG)
    rows = [
        [
            "long sessions of the fifteen others, right",
            percent(sum(s != PERSON for s in judged), len(judged)),
            "92.1 %",
        ],
        ["runs known within 20 pages", percent(found_by(bundle, runs, 20), len(runs)), "33.9 %"],
        ["runs not known after their second long session, or by their end", str(late), "2"],
    ]
    parts.append(text("first", file=live.FIRST.name, runs=len(runs)))
    parts.append(table(["", "measured", "earlier models"], rows))


def readers(site: str) -> list[Walk]:
    log = real.read_log(site)
    return [walk for walk in log.walks if walk.visitor in log.readers]


def how_soon(
    parts: list[str], crawls: dict[str, list[Walk]], people: dict[str, list[Walk]], windows: dict[str, list[int]]
) -> list[list[str]]:
    bundle, pathmarker = shipped("boosted"), shipped("pathmarker")
    rows, curves = [], {}
    paths: list[float] = []
    any_of: list[float] = []
    for name, walks in [*people.items(), *crawls.items()]:
        by_path = [first_alarm(bundle, walk) or inf for walk in walks]
        by_either = [min(alarm, *windows[walk.visitor], inf) for alarm, walk in zip(by_path, walks, strict=True)]
        if name not in people:
            paths += by_path
            any_of += by_either
        cells = [percent(within(by_path, pages), len(walks)) for pages in (10, 20, 60, 120)]
        cells += [percent(within(by_either, pages), len(walks)) for pages in (60, 120)]
        rows.append([name, *cells, percent(found_by(pathmarker, walks, 120), len(walks))])
        curves[name] = [(pages, within(by_either, pages) / len(walks)) for pages in range(10, 121, 10)]
    head = ["held to be a crawler within", "10 pages", "20", "60", "120", "60, either", "120, either"]
    ended = sum(len(walk.strides) < 2 * LONG for walks in crawls.values() for walk in walks)
    parts.append(
        text(
            "how_soon",
            ended=ended,
            early=percent(within(paths, 20), len(paths)),
            late_paths=len(paths) - within(paths, 120),
            crawls=len(paths),
            late=len(paths) - within(any_of, 120),
        )
    )
    parts.append(table([*head, "`pathmarker` within 120"], rows))
    parts.append("![How soon](how-soon.svg)\n")
    (real.HERE.parent / "docs" / "evaluation" / "how-soon.svg").write_text(
        line_chart("Held to be a crawler within so many pages", curves, max_x=120)
    )
    early, late = within(paths, 20), len(paths) - within(any_of, 120)
    by_both, by_paths = percent(late, len(paths)), percent(len(paths) - within(paths, 120), len(paths))
    return [
        [
            "no crawler unknown after its second long session, by paths and windows",
            by_both,
            "none missed for more than two",
            "met" if not late else "missed",
        ],
        ["the same, by paths alone", by_paths, "", "no figure was set"],
        [
            "half of all crawlers known within 20 visits",
            percent(early, len(paths)),
            "none: it asks at 60",
            "met" if 2 * early >= len(paths) else "missed",
        ],
    ]


def within(alarms: list[float], pages: int) -> int:
    return sum(alarm <= pages for alarm in alarms)


def simulated(parts: list[str], others: list[Walk]) -> None:
    bundle = shipped("boosted")
    rows = []
    for crawler in TEST_CRAWLERS:
        walks = [walk for walk in others if walk.source == crawler.name]
        rows.append([crawler.name, *(percent(found_by(bundle, walks, pages), len(walks)) for pages in (20, 60, 120))])
    parts.append(text("harder"))
    parts.append(table(["`boosted` finds within", "20 pages", "60", "120"], rows))


def window(parts: list[str], people: list[Walk], others: list[Walk]) -> None:
    bundle = load_window()
    crawls = live.load()
    six = {kind.name for kind in live.TRAINING_CRAWLERS}
    alarms = alarms_by_window({}, crawls)

    def live_ones(training: bool) -> str:
        runs = [walk for name, its in crawls.items() if (name in six) is training for walk in its]
        asked = [walk for walk in runs if len(walk.strides) >= MIN_WINDOW]
        return percent(sum(bool(alarms[walk.visitor]) for walk in asked), len(asked))

    def drawn(walks: list[Walk]) -> str:
        its: dict[str, list[Sample]] = {}
        for sample in windows_of(walks, Random(SEED)):
            its.setdefault(sample.visitor, []).append(sample)
        found = sum(any(verdict(bundle, sample) != PERSON for sample in rows) for rows in its.values())
        return percent(found, len(its))

    cells = [live_ones(training=True), live_ones(training=False), drawn(others), drawn(people)]
    if real.is_available():
        cells.append(drawn(real.wiki_walks(1)))
        cells.append(drawn([walk for site in real.LOGS for walk in [*readers(site), *real.stitched(site, 100, SEED)]]))
    head = ["the six, live", "the others, live", "harder ones, simulated", "people, generated"]
    parts.append(text("window"))
    parts.append(table([*head, "Wikispeedia", "logs"][: len(cells)], [cells]))

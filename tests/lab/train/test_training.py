"""Walkers, rows and filters."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.visit import Marker, Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train import simulated_crawlers as crawlers
from hedgerow.lab.train.fit import balance, fold_of, folds_of, train
from hedgerow.lab.train.log_samples import Heuristics, doubted_people
from hedgerow.lab.train.measures import area, at_false_positives, calibration, confusion, roc, wilson
from hedgerow.lab.train.samples import (
    PERSON,
    Sample,
    Stride,
    Walk,
    add_stride,
    samples_of,
    visits_to_samples,
    windows_along,
)
from hedgerow.lab.train.simulated_crawlers import crawl
from hedgerow.lab.train.simulated_data import Size, draw_crawlers, draw_people, draw_sites, draw_walks, train_simulated
from hedgerow.lab.train.simulated_people import SimulatedPerson
from hedgerow.watch.models.bundle import encoded, load
from hedgerow.watch.sessions.path import LONG, PATHMARKER_FEATURES, PathSession

SITES = draw_sites(Random(1), 4)


def session_of(strides: list[Stride]) -> PathSession:
    session = PathSession()
    for stride in strides:
        add_stride(session, stride)
    return session


def walk(order, *, marked=False, workers=1, delay=crawlers.no_delay, parents=True):
    crawler = crawlers.Crawler("x", order, delay, workers=workers, parents=parents)
    return crawl(SITES[1], crawler, Random(2), pages=LONG, marked=marked, assets=0.0)


def test_a_depth_first_crawl_is_deep_and_a_breadth_first_one_wide():
    deep = session_of(walk("depth")).features()
    wide = session_of(walk("breadth")).features()
    assert deep[0] > 0.8 > wide[0]
    assert wide[1] > deep[1]


def test_an_unmarked_page_is_fetched_once():
    pages = [stride.page for stride in walk("random")]
    assert len(set(pages)) == len(pages)


def test_a_marked_page_may_be_fetched_from_each_parent():
    steps = [(stride.page, stride.parent) for stride in walk("random", marked=True)]
    assert len(set(steps)) == len(steps)


def test_the_delay_of_the_paper():
    times = [stride.at for stride in walk("random", delay=crawlers.eight_seconds)]
    gaps = [b - a for a, b in pairwise(times)]
    assert 7.5 < sum(gaps) / len(gaps) < 10


CRAWLERS = (
    crawlers.Crawler("16 workers", "breadth", crawlers.no_delay, workers=16),
    crawlers.Crawler("even delays", "depth", lambda its: its.uniform(2, 20)),
    crawlers.Crawler("with assets", "random", crawlers.eight_seconds, assets=True),
    crawlers.Crawler("popular pages first", "popular", crawlers.no_delay),
    crawlers.Crawler("from a list", "list", crawlers.no_delay, parents=False),
)


@pytest.mark.parametrize("crawler", CRAWLERS, ids=lambda crawler: crawler.name)
def test_every_parent_was_fetched_before_its_child(crawler):
    strides = crawl(SITES[0], crawler, Random(3), pages=LONG, marked=False, assets=3.0)
    assert [stride.at for stride in strides] == sorted(stride.at for stride in strides)
    seen = set()
    for stride in strides:
        assert stride.parent is None or stride.parent in seen
        seen.add(stride.page)


def test_a_crawl_of_a_small_site_ends():
    assert len(crawl(((1,), (0,)), crawlers.TRAINING_CRAWLERS[0], Random(1), pages=LONG, marked=False, assets=0.0)) == 2


@given(st.integers(0, 1000))
def test_simulated_people_follow_existing_links(seed):
    person = SimulatedPerson(Random(seed), marked=True, assets=2.0)
    site = SITES[seed % len(SITES)]
    strides = person.walk(site, pages=LONG)
    assert len(strides) == LONG
    seen = set()
    for stride in strides:
        assert stride.parent is None or stride.parent == stride.page or stride.page in site[stride.parent]
        assert stride.parent is None or stride.parent in seen
        seen.add(stride.page)


def test_same_seed_same_bundle():
    size = Size(sites=2, people=60, crawlers=60)
    first, second = (encoded(train_simulated("pathmarker", seed=5, size=size)) for _ in range(2))
    assert first == second
    assert first != encoded(train_simulated("pathmarker", seed=6, size=size))


@pytest.mark.parametrize("recipe", ["boosted", "pathmarker", "window"])
def test_each_recipe_gives_a_valid_bundle(recipe):
    bundle = train_simulated(recipe, size=Size(sites=2, people=60, crawlers=60))
    assert not list(bundle.faults())
    for measured in bundle.metrics.values():
        assert measured["people_right"]["low"] <= measured["people_right"]["value"] <= measured["people_right"]["high"]
        assert measured["confusion"]["person"]


def test_too_few_visitors_are_an_error():
    samples = [s for w in draw_people(Random(1), SITES, 30) for s in samples_of(w)]
    with pytest.raises(ModelError, match="30 people and 0 crawlers"):
        train(samples)


def test_all_samples_of_a_visitor_are_in_one_fold():
    assert len({fold_of("ann", 1) for _ in range(5)}) == 1
    assert {fold_of(str(n), 1) for n in range(100)} == {0, 1, 2, 3, 4}


def visit(at, target="/", *, who="192.0.2.1", **more):
    return Visit(at, who, who, who, "GET", target, **more)


def test_samples_of_a_log():
    visits = [visit(n * 1.0, f"/{n}", referrer="http://example.org/0") for n in range(75)]
    visits.insert(5, visit(4.5, "/x.png", kind="asset"))
    samples = visits_to_samples(visits, lambda _: "width-first", host="example.org")
    assert [(s.number, s.size) for s in samples] == [(0, n) for n in (10, 20, 30, 40, 50, 60)] + [(1, 10)]
    assert samples[0].features[PATHMARKER_FEATURES.index("width")] == 9 / 10
    assert not visits_to_samples(visits, lambda _: "")


@pytest.mark.parametrize(
    ("more", "times", "suspect"),
    [
        ({}, 100, False),
        ({"bot": "x"}, 1, True),
        ({"claim": "x", "proof": "false"}, 1, True),
        ({"tampered": True}, 1, True),
        ({"marker": Marker("trap", b"", b"", "")}, 1, True),
        ({"anomalies": ("program",)}, 40, True),
        ({"marker": Marker("page", b"other!", b"", "/")}, 20, False),
        ({"marker": Marker("page", b"other!", b"", "/")}, 30, True),
    ],
)
def test_the_heuristics_suspect_traps_and_repeated_anomalies(more, times, suspect):
    heuristics = Heuristics()
    for number in range(100):
        heuristics.add(visit(float(number)))
    for number in range(times):
        heuristics.add(visit(200.0 + number, **more))
    assert ("192.0.2.1" in heuristics.all_suspects()) is suspect


def test_a_crawler_that_drifts_does_not_become_a_person():
    """
    Week by week a crawler goes a little slower and more like people, without ever being labelled. None of its sessions
    enters the people's training set; those of nearly all people do.
    """
    anchor = load()
    chance = Random(11)
    drifting: list[Stride] = []
    at = 0.0
    for week in range(10):
        pause = 0.2 * 1.6**week
        crawler = crawlers.Crawler("drift", "breadth", lambda its, pause=pause: its.expovariate(1 / pause))
        strides = crawl(SITES[1], crawler, chance, pages=LONG, marked=True, assets=0.0)
        drifting += [stride._replace(at=stride.at + at) for stride in strides]
        at = drifting[-1].at + 7 * 86_400
    poison = list(samples_of(Walk("drifter", PERSON, "x", "x", tuple(drifting))))
    people = [s for w in draw_people(chance, SITES, 100, marked=True) for s in samples_of(w)]
    _, often = doubted_people([*poison, *people], anchor)
    assert "drifter" in often
    assert len(often) <= 6


def test_measures_equal_those_computed_by_hand():
    scores, truth = [0.9, 0.8, 0.7, 0.1], [True, False, True, False]
    assert area(roc(scores, truth)) == 0.75
    assert at_false_positives(scores, truth, 0.0)[:4] == (1, 2, 0, 2)
    assert at_false_positives(scores, truth, 0.5)[:4] == (2, 2, 1, 2)
    assert confusion([("a", "b"), ("a", "b"), ("b", "b")]) == {"a": {"b": 2}, "b": {"b": 1}}
    assert calibration([0.05, 0.95, 1.0], [False, True, True]) == [(0.0, 0.05, 0.0, 1), (0.9, 0.975, 1.0, 2)]
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_log_is_held_out_as_a_whole():
    """
    People of a log whose like the others have not: their scores are by models that saw nothing of that log, so the
    threshold stands above them.
    """
    size = Size(sites=2, people=60, crawlers=60)
    drawn = [s for w in draw_walks(3, size) for s in samples_of(w, (20,))]
    odd = draw_crawlers(Random(4), SITES, 30, vary=False, marked=True)
    logged = [s for w in odd for s in samples_of(w._replace(label=PERSON, source="odd"), (20,))]
    folds = folds_of([*drawn, *logged], 1, ("odd",))
    assert set(folds[len(drawn) :]) == {5}
    assert set(folds[: len(drawn)]) == {0, 1, 2, 3, 4}
    without = train(drawn, sizes=(20,))
    bundle = train([*drawn, *logged], sizes=(20,), held_out_logs=("odd",))
    assert any(without.judge(s.features, 20).identity != PERSON for s in logged)
    assert all(bundle.judge(s.features, 20).identity == PERSON for s in logged)
    assert bundle.metrics["20"]["logs"]["odd"]["people_right"]["value"] == 1.0


def test_simulated_and_logged_samples_have_equal_weight():
    rows = [Sample(str(n), PERSON if n < 6 else "x", "log" if n % 3 else "drawn", "", 0, 20, ()) for n in range(9)]
    weights = balance(rows, ("log",))
    assert weights is not None
    totals = {}
    for row, weight in zip(rows, weights, strict=True):
        group = (row.source, row.label)
        totals[group] = totals.get(group, 0.0) + weight
    assert list(totals.values()) == pytest.approx([9 / 4] * 4)
    assert balance(rows, ()) is None


def test_the_middle_of_a_crawl_is_classified():
    """Second long sessions, where the parents are out of sight: the paper's six features cannot tell them apart."""
    bundle = load()
    walks = draw_crawlers(Random(8), SITES, 60, long_sessions=2, marked=True, vary=False)
    for label in ("depth-first", "width-first", "random-like"):
        rows = [s for w in walks if w.label == label for s in samples_of(w, (60,)) if s.number == 1]
        named = [bundle.stages[-1].kinds.name(s.features) for s in rows]
        assert named.count(label) >= 0.8 * len(rows)


def test_the_same_seed_draws_the_same_walks():
    size = Size(sites=2, people=5, crawlers=6)
    assert draw_walks(1, size) == draw_walks(1, size) != draw_walks(2, size)
    assert {w.source for w in draw_crawlers(Random(1), SITES, 6)} == {c.name for c in crawlers.TRAINING_CRAWLERS}


def test_crawlers_are_drawn_with_varied_configurations():
    plain = crawlers.Crawler("x", "breadth", crawlers.no_delay)

    def pages(**more):
        strides = crawl(SITES[1], plain._replace(**more), Random(2), pages=LONG, marked=False, assets=0.0)
        assert [stride.at for stride in strides] == sorted(stride.at for stride in strides)
        return [stride.page for stride in strides]

    first = pages()
    assert pages() == first
    assert pages(anywhere=True)[0] != first[0]
    assert pages(loose=50) != first
    assert pages(loose=50)[1] in SITES[1][0]
    twice = pages(again=1.0)
    assert twice[::2] == twice[1::2]
    assert len(set(pages(chosen=0.3)) & set(SITES[1][0])) < len(SITES[1][0])
    stalled = crawl(SITES[1], plain._replace(stalls=1.0), Random(2), pages=LONG, marked=False, assets=0.0)
    assert stalled[-1].at > 600


def test_window_samples_are_taken_as_in_the_watch():
    (person,) = draw_people(Random(1), SITES, 1, long_sessions=2)
    assert [pages for pages, _ in windows_along(person, Random(1))] == [27, 54, 81, 108]

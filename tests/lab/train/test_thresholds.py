"""How stages share one budget of false positives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lab.train.samples import PERSON, Sample
from hedgerow.lab.train.thresholds import allocate_budget


def stage(size, people, crawlers, *, source="drawn"):
    """Rows of one stage, and their scores: one session of a visitor each."""
    rows = [Sample(f"person {n}", PERSON, source, "", 0, size, ()) for n in range(len(people))]
    rows += [Sample(f"crawler {n}", "random-like", source, "", 0, size, ()) for n in range(len(crawlers))]
    return rows, [*people, *crawlers]


def test_a_person_misclassified_at_one_stage_costs_nothing_at_another():
    """
    Ten people, one of whom may be got wrong. The same one has the highest score at both stages: without it either
    threshold falls, and both crawlers are found.
    """
    low = [0.0] * 8
    first, second = allocate_budget(
        {10: stage(10, [*low, 1.0, 5.0], [2.0, 0.0]), 60: stage(60, [*low, 1.0, 5.0], [0.0, 2.0])}, 0.1
    )
    assert (first.threshold, second.threshold) == (1.0, 1.0)
    assert (first.share, second.share) == (0.1, 0.0)


def test_the_budget_goes_to_the_stage_that_finds_most():
    """Two people have the highest score at one stage each, and one may be got wrong: where three crawlers wait."""
    low = [0.0] * 8
    first, second = allocate_budget(
        {30: stage(30, [*low, 5.0, 0.0], [2.0, 0.0, 0.0, 0.0]), 60: stage(60, [*low, 0.0, 5.0], [0.0, 2.0, 2.0, 2.0])},
        0.1,
    )
    assert (first.threshold, second.threshold) == (5.0, 0.0)


def test_an_early_finding_counts_more():
    low = [0.0] * 8
    first, second = allocate_budget(
        {20: stage(20, [*low, 5.0, 0.0], [2.0, 0.0]), 60: stage(60, [*low, 0.0, 5.0], [0.0, 2.0])}, 0.1
    )
    assert (first.threshold, second.threshold) == (0.0, 5.0)


def test_without_a_budget_nobody_is_misclassified():
    (only,) = allocate_budget({20: stage(20, [1.0, 7.0], [9.0])}, 0.0)
    assert (only.threshold, only.share) == (7.0, 0.0)


scores = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=40)


@given(scores, scores, scores, st.sampled_from([0.0, 0.05, 0.2, 0.9]))
def test_no_source_exceeds_the_budget(drawn, logged, crawlers, budget):
    stages = {}
    for column, size in enumerate((20, 60)):
        rows, its = stage(size, [one[column] for one in drawn], [one[column] for one in crawlers])
        more, further = stage(size, [one[column] for one in logged], [], source="site")
        stages[size] = (rows + more, its + further)
    spent = allocate_budget(stages, budget, ("site",))
    for people in (drawn, logged):
        wrong = sum(any(one > its.threshold for one, its in zip(person, spent, strict=True)) for person in people)
        assert wrong <= budget * len(people)
    assert sum(its.share for its in spent) <= budget + 1e-9

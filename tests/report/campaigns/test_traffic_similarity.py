"""Algorithm 1 against its definition; shifts; k learned by bisection."""

import numpy as np
import pytest

from hedgerow.report.campaigns import traffic_similarity as similarity
from hedgerow.report.campaigns.traffic_similarity import (
    Clusters,
    SimilarityLimits,
    cluster,
    find,
    learn_k,
    merge_shifted,
)


def drawn(groups, seed=1, volume=2_000_000, points=240):
    """Groups of sources that follow one plan each, in an order that mixes them; and each one's group."""
    chance = np.random.default_rng(seed)
    rows, labels = [], []
    for number, size in enumerate(groups):
        plan = chance.gamma(0.7, 1, points)
        plan *= volume * chance.uniform(0.3, 3) / plan.sum()
        rows += [chance.poisson(plan * chance.uniform(0.95, 1.05)) for _ in range(size)]
        labels += [number] * size
    order = chance.permutation(len(rows))
    return np.array(rows, dtype=float)[order], np.array(labels)[order]


def by_the_book(series, volumes, limits):
    """Lines 1 to 13 of algorithm 1."""
    medoids, found = [], []
    for i, mine in enumerate(series):
        best, whom = 0.0, -1
        for j in medoids:
            pairs = ((volumes[i], volumes[j], limits.volume), (mine.max(), series[j].max(), limits.amplitude),
                     (mine.std(), series[j].std(), limits.deviation))  # fmt: skip
            if all(abs(a - b) <= share * max(a, b) for a, b, share in pairs):
                distance = ((mine - series[j]) ** 2).sum()
                likeness = np.inf if distance == 0 else 1 / distance
                if likeness > best:
                    best, whom = likeness, j
        if best > limits.k / mine.std():
            found.append(whom)
        else:
            medoids.append(i)
            found.append(i)
    return found


@pytest.mark.parametrize("block", [16, 1024])
def test_as_algorithm_1_is_written(monkeypatch, block):
    monkeypatch.setattr(similarity, "_BLOCK", block)
    monkeypatch.setattr(similarity, "_ROWS", 8)
    counts, _ = drawn([1] * 60 + [2] * 10 + [3, 5, 8, 13], volume=30_000)
    series, volumes = similarity._shares(counts)
    limits = SimilarityLimits(k=60.0, volume_of_k=0.0)
    clusters = cluster(series, volumes, limits)
    expected = by_the_book(series, volumes, limits)
    assert clusters.medoids.tolist() == expected
    assert 4 < len(set(expected)) < len(expected)


def test_campaigns_are_found_with_a_sentence():
    counts, labels = drawn([1] * 40 + [4, 7])
    found = find(counts)
    assert [len(one.members) for one in found] == [7, 4]
    for one in found:
        assert len({labels[member] for member in one.members}) == 1
        assert one.similarity > 0.9
        assert one.text.startswith(f"{len(one.members)} sources whose requests rise and fall together")
    assert find(counts) == found


@pytest.mark.parametrize("volume", [400, 4_000, 2_000_000])
def test_campaigns_of_small_sites_are_found_because_k_follows_the_volume(volume):
    """Bursts as in the paper's figure 3: most intervals are silent, and workers share the others."""
    chance = np.random.default_rng(5)
    plans = chance.gamma(0.05, 1, (8, 240))
    plans *= volume / plans.sum(axis=1, keepdims=True)
    sizes = [5, 3, 1, 1, 1, 1, 1, 1]
    labels = np.repeat(np.arange(8), sizes)
    counts = chance.poisson(plans[labels]).astype(float)
    found = find(counts)
    assert [[labels[member] for member in one.members] for one in found] == [[0] * 5, [1] * 3]
    alike = find(counts, SimilarityLimits(volume_of_k=0.0))
    assert bool(alike) == (volume > 4_000)


def test_steady_strangers_are_not_in_step():
    chance = np.random.default_rng(4)
    counts = chance.poisson(chance.uniform(100, 3000, (200, 1)) / 240, (200, 240)).astype(float)
    assert find(counts) == []


def shifted_by_the_book(series, volumes, limits):
    """Each to the nearest of those before it that went nowhere, after the shift that is best."""
    went = {}
    for i, mine in enumerate(series):
        best = 1.0
        for j in range(i):
            pairs = ((volumes[i], volumes[j], limits.volume), (mine.max(), series[j].max(), limits.amplitude),
                     (mine.std(), series[j].std(), limits.deviation))  # fmt: skip
            if j in went or any(abs(a - b) > share * max(a, b) for a, b, share in pairs):
                continue
            for shift in range(-limits.shift, limits.shift + 1):
                one, other = similarity._aligned(mine, series[j], shift)
                if min(one.sum(), other.sum()) >= 0.5:
                    one, other = one / one.sum(), other / other.sum()
                    beyond = ((one - other) ** 2).sum() * limits.k / one.std()
                    if beyond < best:
                        best, went[i] = beyond, (j, shift)
    return [went.get(i, (i, 0)) for i in range(len(series))]


@pytest.mark.parametrize("points", [100, 240])
def test_shifts_as_they_are_defined(points):
    counts, _ = drawn([4, 3, 5, 1, 1, 2], volume=30_000, points=points + 60)
    chance = np.random.default_rng(3)
    counts = np.array(
        [
            row[30 + shift : 30 + shift + points]
            for row, shift in zip(counts, chance.integers(-30, 30, len(counts)), strict=True)
        ]
    )
    series, volumes = similarity._shares(counts)
    limits = SimilarityLimits(k=20.0, shift=40)
    alone = Clusters(np.arange(len(series)), np.zeros(len(series), dtype=np.int64))
    found = merge_shifted(series, volumes, alone, limits)
    expected = shifted_by_the_book(series, volumes, limits)
    assert list(zip(found.medoids.tolist(), found.shifts.tolist(), strict=True)) == expected
    assert 3 < len({medoid for medoid, _ in expected}) < len(series) - 3


def test_members_that_start_later_are_found():
    chance = np.random.default_rng(2)
    plan = np.zeros(240)
    plan[60:140] = chance.gamma(0.7, 1, 80) * 3000
    counts = np.array([np.roll(chance.poisson(plan), shift) for shift in (0, 9, 33, -20, 60)], dtype=float)
    found = find(counts)
    assert [one.members for one in found] == [(0, 1, 2, 3)]
    assert "shifted by up to 16.5 hours" in found[0].text
    assert find(counts, SimilarityLimits(shift=0)) == []


def test_what_a_shift_moves_out_of_the_log_is_not_missed():
    """All of it goes on before the log begins and after it ends."""
    chance = np.random.default_rng(2)
    plan = chance.gamma(0.7, 1, 300) * 3000
    counts = np.array([chance.poisson(plan[30 - n : 270 - n]) for n in (0, 10, 22)], dtype=float)
    others = chance.poisson(chance.gamma(0.7, 1, (9, 240)) * 3000)
    (found,) = find(np.vstack((counts, others)))
    assert found.members == (0, 1, 2)
    assert found.similarity > 0.99
    assert "shifted by up to 11.0 hours" in found.text


def test_who_came_once_is_synchronous_with_nobody():
    counts = np.zeros((5, 240))
    counts[:, 17] = 30
    assert find(counts) == []
    assert find(np.zeros((0, 240))) == []


def test_k_holds_the_reference_together():
    counts, labels = drawn([6, 5, 7, 4], seed=3)
    k = learn_k(counts, [str(label) for label in labels])
    assert k is not None
    assert k > similarity.K
    found = find(counts, SimilarityLimits(k=k * 0.6))
    assert sorted(len(one.members) for one in found) == [4, 5, 6, 7]
    assert learn_k(counts, [""] * len(counts)) is None

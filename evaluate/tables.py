"""Classifications of walks, and tables with intervals, for all parts of the evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from hedgerow.lab.train.measures import area, at_false_positives, roc, wilson
from hedgerow.lab.train.samples import PERSON, Sample, Walk, samples_of
from hedgerow.watch.models.bundle import Bundle
from hedgerow.watch.sessions.path import LONG

SEED = 21
TRAININGS = range(SEED, SEED + 5)
"""Seeds of a randomised learner. Features are compared by the mean, because one training says little."""


def percent(right: int, total: int) -> str:
    low, high = wilson(right, total)
    return f"{right / total:.1%} ({low:.1%} to {high:.1%}; {right} of {total})" if total else "none"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def verdict(bundle: Bundle, sample: Sample) -> str:
    return bundle.judge(sample.features[: len(bundle.features)], sample.size).identity


def first_alarm(bundle: Bundle, walk: Walk) -> int | None:
    """Return after how many pages of all its sessions the walk is first classified as a crawler's."""
    for sample in samples_of(walk):
        if bundle.has_stage(sample.size) and verdict(bundle, sample) != PERSON:
            return sample.number * LONG + sample.size
    return None


def found_by(bundle: Bundle, walks: Iterable[Walk], pages: float = float("inf")) -> int:
    return sum((alarm := first_alarm(bundle, walk)) is not None and alarm <= pages for walk in walks)


def long_sessions(bundle: Bundle, walk: Walk) -> list[str]:
    """Return the identity of each complete long session: the last one that is not a person."""
    judged: dict[int, str] = {}
    whole = set()
    for sample in samples_of(walk):
        identity = verdict(bundle, sample) if bundle.has_stage(sample.size) else PERSON
        if identity != PERSON or sample.number not in judged:
            judged[sample.number] = identity
        if sample.size == LONG:
            whole.add(sample.number)
    return [judged[number] for number in sorted(whole)]


def roc_row(scores: list[float], truth: list[bool]) -> list[str]:
    """
    Return counts, area with an interval by resampling visitors, and recall and precision at 0.5 % false positives.
    """
    rng = Random(SEED)
    areas = []
    for _ in range(300):
        indices = rng.choices(range(len(scores)), k=len(scores))
        its = [truth[n] for n in indices]
        if any(its) and not all(its):
            areas.append(area(roc([scores[n] for n in indices], its)))
    areas.sort()
    low, high = areas[int(0.025 * len(areas))], areas[int(0.975 * len(areas))]
    found, crawlers, wrong, people, _ = at_false_positives(scores, truth, 0.005)
    spread = f"{area(roc(scores, truth)):.3f} ({low:.3f} to {high:.3f})"
    return [f"{people} / {crawlers}", spread, percent(found, crawlers), percent(found, found + wrong)]


def mean_row(scores: Sequence[Sequence[float]], truth: list[bool]) -> list[str]:
    """Return counts, mean area, and mean recall at 0.5 % false positives of models trained alike."""
    areas = [area(roc(its, truth)) for its in scores]
    found = [at_false_positives(its, truth, 0.005)[0] for its in scores]
    crawlers = sum(truth)
    return [
        f"{len(truth) - crawlers} / {crawlers}",
        f"{sum(areas) / len(areas):.4f} ({min(areas):.4f} to {max(areas):.4f})",
        percent(round(sum(found) / len(found)), crawlers),
    ]

"""What the evaluation's parts share: verdicts on walks, and tables with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from hedgerow.lab.train.measures import area, at_false_positives, roc, wilson
from hedgerow.lab.train.samples import PERSON, Sample, samples_of
from hedgerow.lab.train.walks import Walk
from hedgerow.watch.models.bundle import Bundle
from hedgerow.watch.sessions.path import LONG

SEED = 21
TRAININGS = range(SEED, SEED + 5)
"""Seeds of a learner that draws: features are compared by the mean, one training says little."""


def percent(right: int, total: int) -> str:
    low, high = wilson(right, total)
    return f"{right / total:.1%} ({low:.1%} to {high:.1%}; {right} of {total})" if total else "none"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def verdict(bundle: Bundle, sample: Sample) -> str:
    return bundle.judge(sample.features[: len(bundle.features)], sample.size).identity


def first_alarm(bundle: Bundle, walk: Walk) -> int | None:
    """After how many pages of all its sessions the walk is first held to be a crawler's."""
    for sample in samples_of(walk):
        if bundle.has_stage(sample.size) and verdict(bundle, sample) != PERSON:
            return sample.number * LONG + sample.size
    return None


def found_by(bundle: Bundle, walks: Iterable[Walk], pages: float = float("inf")) -> int:
    return sum((alarm := first_alarm(bundle, walk)) is not None and alarm <= pages for walk in walks)


def long_sessions(bundle: Bundle, walk: Walk) -> list[str]:
    """What each whole long session is held to be: what the last of its stages said that said anything but person."""
    judged: dict[int, str] = {}
    whole = set()
    for sample in samples_of(walk):
        said = verdict(bundle, sample) if bundle.has_stage(sample.size) else PERSON
        if said != PERSON or sample.number not in judged:
            judged[sample.number] = said
        if sample.size == LONG:
            whole.add(sample.number)
    return [judged[number] for number in sorted(whole)]


def roc_row(scores: list[float], truth: list[bool]) -> list[str]:
    """How many; area with an interval by resampling visitors; recall and precision at 0.5 % false positives."""
    chance = Random(SEED)
    areas = []
    for _ in range(300):
        picked = chance.choices(range(len(scores)), k=len(scores))
        its = [truth[n] for n in picked]
        if any(its) and not all(its):
            areas.append(area(roc([scores[n] for n in picked], its)))
    areas.sort()
    low, high = areas[int(0.025 * len(areas))], areas[int(0.975 * len(areas))]
    found, crawlers, wrong, people, _ = at_false_positives(scores, truth, 0.005)
    spread = f"{area(roc(scores, truth)):.3f} ({low:.3f} to {high:.3f})"
    return [f"{people} / {crawlers}", spread, percent(found, crawlers), percent(found, found + wrong)]


def mean_row(scores: Sequence[Sequence[float]], truth: list[bool]) -> list[str]:
    """How many; mean area and, at 0.5 % false positives, mean recall of models that were trained alike."""
    areas = [area(roc(its, truth)) for its in scores]
    found = [at_false_positives(its, truth, 0.005)[0] for its in scores]
    crawlers = sum(truth)
    return [
        f"{len(truth) - crawlers} / {crawlers}",
        f"{sum(areas) / len(areas):.4f} ({min(areas):.4f} to {max(areas):.4f})",
        percent(round(sum(found) / len(found)), crawlers),
    ]

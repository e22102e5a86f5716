"""
Shape: from labelled sources to the bundle that judges the shape of traffic.

Who is what is told by a CSV, or by the log itself: a source whose user agents say that they are bots is a crawler; one
that looks like a browser (sessions with pages, assets and referrers) is a person; others teach nothing. The user agent
is used for nothing else.

Real logs of small sites have no offices behind one address, and would teach that whoever comes often is a crawler. So
people are also put together: the requests of several, as if they had come from one address, with and without assets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from hedgerow.core.visit import Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train.cn2_rules import fit_rules
from hedgerow.lab.train.measures import area, at_false_positives, roc, share
from hedgerow.report.shape.autocorrelation import Levels, autocorrelation, learn_levels
from hedgerow.report.shape.classifiers import Bayes, ClassifierEvidence, Machine, transformed
from hedgerow.report.shape.daily_rhythm import NIGHT
from hedgerow.report.shape.decomposition import local_regression
from hedgerow.report.shape.features import LEAST_REQUESTS, NAMES, Fine, features
from hedgerow.report.shape.model_file import FORMAT, INPUTS, ShapeModel, ShapeModels
from hedgerow.report.shape.series import LAGS, WINDOW, Counts, SeriesPlan, normalised, plan_of
from hedgerow.report.shape.vote import columns, judge
from hedgerow.request.bots import known_bots

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CRAWLER, PERSON, TOGETHER = "crawler", "person", "people together"
"""The labels of sources; the last are people put together, who are people too."""

FOLDS = 5
FALSE_POSITIVES = 0.01
LEAST_OF_EACH = 20
SESSION_GAP = 1800.0

_DISCRETE = {"decay": 4, "alternation": 4, "daily": 2}
_POINTS = 40
_SMOOTHING = 13
_MOST_LOG_ODDS = 4.0
_SIZES = (3, 10, 30, 100)
_TOGETHER = 40
_ACTIVE = 8
_WORTH_IT = 0.005
_NAMED = re.compile(
    r"bot\b|bot/|crawl|spider|slurp|\+?https?://|^(?:curl|wget|python|java|go-http|libwww|okhttp|scrapy|ruby|php)\b",
    re.IGNORECASE,
)


class LabelledSource(NamedTuple):
    """One source: its requests' times, which of them were pages, its label ("" where nobody knows) and its fold."""

    name: str
    times: Floats
    pages: Flags
    label: str
    fold: int


class Rows(NamedTuple):
    """The features of labelled sources, with label and fold of each."""

    rows: Floats
    labels: NDArray[np.str_]
    folds: NDArray[np.int64]
    requests: Floats

    @property
    def crawlers(self) -> Flags:
        return np.asarray(self.labels == CRAWLER)

    def of(self, which: Flags) -> Rows:
        return Rows(self.rows[which], self.labels[which], self.folds[which], self.requests[which])


def declared() -> Callable[[str], bool]:
    """Whether a user agent says that it is a bot: one that is known, or by its words."""
    known = re.compile("|".join(f"(?:{bot.agent})" for bot in known_bots() if bot.agent), re.IGNORECASE)
    return lambda agent: bool(known.search(agent) or _NAMED.search(agent))


class _Sighted:
    """What is known of one source while its log is read."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.pages: list[bool] = []
        self.declared = self.likely = 0
        self._session = [0, 0, 0, 0]

    def add(self, visit: Visit, *, is_declared: bool) -> None:
        if self.times and visit.at - self.times[-1] > SESSION_GAP:
            self.settle()
        self.times.append(visit.at)
        self.pages.append(visit.kind == "page")
        self.declared += is_declared
        for number, what in enumerate((True, visit.kind == "asset", visit.kind == "page", bool(visit.referrer))):
            self._session[number] += what

    def settle(self) -> None:
        """End a session: at least 3 requests, 2 assets, 1 page and 30 % with a referrer look like a browser."""
        requests, assets, pages, referred = self._session
        if requests >= 3 and assets >= 2 and pages >= 1 and referred >= 0.3 * requests:  # noqa: PLR2004
            self.likely += requests
        self._session = [0, 0, 0, 0]

    def label(self) -> str:
        self.settle()
        count = len(self.times)
        if self.declared * 2 > count:
            return CRAWLER
        return PERSON if not self.declared and self.likely * 2 > count else ""


def gather(
    visits: Iterable[Visit], labels: dict[str, str] | None = None, *, is_declared: Callable[[str], bool] | None = None
) -> list[LabelledSource]:
    """
    The sources (addresses) of a log. *labels* by source, "person" or anything else for a crawler; without, the log's.
    """
    told = is_declared or declared()
    known: dict[str, bool] = {}
    sighted: dict[str, _Sighted] = defaultdict(_Sighted)
    for visit in visits:
        agent = visit.user_agent
        if agent not in known:
            known[agent] = told(agent)
        sighted[visit.address or visit.visitor].add(visit, is_declared=known[agent])
    found = []
    for number, (name, source) in enumerate(sorted(sighted.items())):
        told_label = source.label() if labels is None else labels.get(name, "")
        label = told_label if told_label in {"", PERSON} else CRAWLER
        found.append(LabelledSource(name, np.array(source.times), np.array(source.pages), label, number % FOLDS))
    return found


def together(sources: Sequence[LabelledSource], seed: int) -> list[LabelledSource]:
    """People put together, 3 to 100 at a time, all from one fold: every other time only their pages."""
    chance = np.random.default_rng(seed)
    found = []
    for fold in range(FOLDS):
        people = [source for source in sources if source.label == PERSON and source.fold == fold]
        for size in _SIZES:
            for turn in range(_TOGETHER if size <= len(people) else 0):
                group = [people[number] for number in chance.choice(len(people), size, replace=False)]
                times = np.concatenate([one.times[one.pages] if turn % 2 else one.times for one in group])
                found.append(LabelledSource("", np.sort(times), np.ones(len(times), np.bool_), TOGETHER, fold))
    return found


def rows_of(sources: Sequence[LabelledSource], *, levels: Levels | None = None, least: int = LEAST_REQUESTS) -> Rows:
    """The features of all labelled sources that have enough requests; the log's span is that of all its sources."""
    labelled = [source for source in sources if source.label]
    plan, counts = _counted(labelled, *_span(sources))
    numbers, times = _flat(labelled)
    found = features(counts, plan, Fine.of_times(numbers, times, len(labelled)), levels=levels, least=least)
    return Rows(
        found.rows,
        np.array([labelled[number].label for number in found.sources], dtype=np.str_),
        np.array([labelled[number].fold for number in found.sources], dtype=np.int64),
        found.requests,
    )


def _span(sources: Sequence[LabelledSource]) -> tuple[float, float]:
    first = min((float(source.times.min()) for source in sources if len(source.times)), default=0.0)
    return first, max((float(source.times.max()) for source in sources if len(source.times)), default=0.0)


def _flat(sources: Sequence[LabelledSource]) -> tuple[NDArray[np.int64], Floats]:
    numbers = np.repeat(np.arange(len(sources)), [len(source.times) for source in sources])
    return numbers, np.concatenate([source.times for source in sources]) if sources else np.zeros(0)


def _counted(sources: Sequence[LabelledSource], first: float, last: float) -> tuple[SeriesPlan, Counts]:
    plan = plan_of(first, last)
    return plan, Counts.of_times(*_flat(sources), plan, len(sources))


def fit_bayes(rows: Floats, crawlers: Flags, names: Sequence[str]) -> Bayes:
    """Odds of each feature: tables for the discrete ones, histograms smoothed by local regression for the others."""
    found = []
    for column, name in enumerate(names):
        if name in _DISCRETE:
            size = _DISCRETE[name]
            values = rows[:, column].astype(np.int64)
            parts = [np.bincount(values[which], minlength=size)[:size] + 1.0 for which in (crawlers, ~crawlers)]
            low, high = 0.0, float(size)
        else:
            scaled = transformed(rows[:, column])
            low, high = (float(end) for end in np.quantile(scaled, [0.002, 0.998]))
            high = max(high, low + 1e-6)
            smooth = local_regression(_POINTS, _SMOOTHING)
            parts = []
            for which in (crawlers, ~crawlers):
                heights, _ = np.histogram(np.clip(scaled[which], low, high), bins=_POINTS, range=(low, high))
                parts.append(np.maximum(smooth @ heights, 0.0) + 0.5)
        odds = np.log(parts[0] / parts[0].sum()) - np.log(parts[1] / parts[1].sum())
        odds = np.clip(odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        found.append(ClassifierEvidence(low, high, tuple(round(float(x), 4) for x in odds), name in _DISCRETE))
    return Bayes(tuple(found))


def fit_machine(rows: Floats, crawlers: Flags, folds: NDArray[np.int64]) -> Machine:
    """A C-SVM; C and the kernel's width are chosen, and its decisions made probabilities, on folds left out."""
    scaled = transformed(rows)
    means, scales = scaled.mean(axis=0), np.maximum(scaled.std(axis=0), 1e-9)
    scaled = (scaled - means) / scales
    best: tuple[float, float, float, Floats] | None = None
    for cost in (1.0, 10.0):
        for gamma in (0.5 / rows.shape[1], 1.0 / rows.shape[1], 2.0 / rows.shape[1]):
            left_out = np.zeros(len(rows))
            for fold in np.unique(folds):
                inside = folds == fold
                machine = SVC(C=cost, gamma=gamma, class_weight="balanced", cache_size=100)
                machine.fit(scaled[~inside], crawlers[~inside])
                left_out[inside] = machine.decision_function(scaled[inside])
            value = area(roc(left_out.tolist(), crawlers.tolist()))
            if best is None or value > best[0] + 1e-6:
                best = (value, cost, gamma, left_out)
    assert best is not None
    _, cost, gamma, left_out = best
    platt = LogisticRegression(class_weight="balanced").fit(left_out[:, None], crawlers)
    machine = SVC(C=cost, gamma=gamma, class_weight="balanced", cache_size=100).fit(scaled, crawlers)
    return Machine(
        _short(means),
        _short(scales),
        tuple(_short(vector) for vector in machine.support_vectors_),
        _short(machine.dual_coef_[0]),
        float(machine.intercept_[0]),
        gamma,
        float(platt.coef_[0, 0]),
        float(platt.intercept_[0]),
    )


def _short(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{x:.7g}") for x in values)


def fit_model(data: Rows, name: str, *, threshold: float = 0.5) -> ShapeModel:
    """The three classifiers on all of *data*; its threshold is found elsewhere, on rows it has not seen."""
    rows = data.rows[:, columns(name)]
    machine = fit_machine(rows, data.crawlers, data.folds)
    return ShapeModel(fit_bayes(rows, data.crawlers, INPUTS[name]), fit_rules(rows, data.crawlers), machine, threshold)


def left_out_scores(data: Rows, name: str) -> tuple[Floats, Floats]:
    """For each row score and the three probabilities, by a model that was trained without the row's fold."""
    scores, probabilities = np.zeros(len(data.rows)), np.zeros((len(data.rows), 3))
    for fold in np.unique(data.folds):
        inside = data.folds == fold
        model = fit_model(data.of(~inside), name)
        verdicts = judge(data.rows[inside][:, columns(name)], model, INPUTS[name])
        scores[inside], probabilities[inside] = verdicts.scores, verdicts.probabilities
    return scores, probabilities


def measures(data: Rows, scores: Floats, probabilities: Floats) -> dict[str, Any]:
    """How good left-out scores are: by the vote, and by the score where one person in a hundred is wrong."""
    votes = (probabilities > 0.5).sum(axis=1) >= 2  # noqa: PLR2004
    real = data.labels != TOGETHER
    crawlers = data.crawlers
    points = roc(scores[real].tolist(), crawlers[real].tolist())
    found, all_crawlers, wrong, people, threshold = at_false_positives(
        scores[real].tolist(), crawlers[real].tolist(), FALSE_POSITIVES
    )
    put_together = data.labels == TOGETHER
    return {
        "crawlers_by_vote": share(int((votes & crawlers).sum()), int(crawlers.sum())),
        "people_by_vote": share(int((~votes & ~crawlers & real).sum()), int((~crawlers & real).sum())),
        "people_together_by_vote": share(int((~votes & put_together).sum()), int(put_together.sum())),
        "auc": round(area(points), 4),
        "crawlers_at_1_percent": share(found, all_crawlers),
        "people_at_1_percent": share(people - wrong, people),
        "threshold": round(max(threshold, 0.0), 4),
    }


def train_shape(
    logs: dict[str, list[LabelledSource]],
    *,
    seed: int = 1,
    least: int = LEAST_REQUESTS,
    similarity: float = 350.0,
    provenance: dict[str, Any] | None = None,
    after: Callable[[str], None] = lambda _: None,
) -> ShapeModels:
    """A bundle from the sources of some logs, with how good it is on sources it had not seen, by folds of sources."""
    groups = [[*sources, *together(sources, seed)] for sources in logs.values()]
    data = pooled(groups, least=least)
    crawlers, people = int(data.crawlers.sum()), int((data.labels == PERSON).sum())
    if min(crawlers, people) < LEAST_OF_EACH:
        raise ModelError(
            f"{crawlers} crawlers and {people} people have {least} requests or more; {LEAST_OF_EACH} of each are needed"
        )
    after(f"{crawlers:,} crawlers, {people:,} people and {int((data.labels == TOGETHER).sum()):,} of people together")
    models, metrics = {}, {}
    levels, data = _choose_levels(groups, data, least)
    for name in INPUTS:
        scores, probabilities = left_out_scores(data, name)
        metrics[name] = measures(data, scores, probabilities)
        # People put together count as people here: whoever is behind one address must not be refused.
        threshold = at_false_positives(scores.tolist(), data.crawlers.tolist(), FALSE_POSITIVES)[-1]
        models[name] = fit_model(data, name, threshold=min(max(threshold, 0.5), 1.0))
        after(f"{name}: area under ROC {metrics[name]['auc']:.4f}")
    told = {"crawlers": crawlers, "people": people, "seed": seed, **(provenance or {})}
    return ShapeModels(FORMAT, models, levels, least, similarity, NIGHT, told, metrics)


def _choose_levels(groups: list[list[LabelledSource]], data: Rows, least: int) -> tuple[Levels, Rows]:
    """
    What appendix A calls low, average and high: as among these sources, if that tells crawlers better; else the usual.

    Better: by at least half a point of the area under the ROC of the paper's eight, on sources left out.
    """
    usual = Levels()
    learned = _levels_of(groups, least)
    if learned is None:
        return usual, data
    other = pooled(groups, levels=learned, least=least)
    areas = [area(roc(left_out_scores(rows, "eight")[0].tolist(), rows.crawlers.tolist())) for rows in (data, other)]
    return (learned, other) if areas[1] > areas[0] + _WORTH_IT else (usual, data)


def _levels_of(groups: list[list[LabelledSource]], least: int) -> Levels | None:
    """The levels among all labelled sources with enough active intervals; None where there are too few."""
    found: list[Floats] = []
    for sources in groups:
        labelled = [source for source in sources if source.label]
        plan, counts = _counted(labelled, *_span(sources))
        if plan.points != WINDOW:
            continue
        chosen = np.nonzero(counts.totals >= least)[0]
        for _, block in counts.blocks(chosen, counts.busiest(plan)[chosen], plan.points):
            active = block[np.count_nonzero(block, axis=1) >= _ACTIVE]
            found.append(autocorrelation(normalised(active), plan.lags))
    coefficients = np.concatenate(found) if found else np.zeros((0, LAGS))
    return learn_levels(coefficients, WINDOW) if len(coefficients) >= LEAST_OF_EACH else None


def pooled(
    logs: Iterable[Sequence[LabelledSource]], *, levels: Levels | None = None, least: int = LEAST_REQUESTS
) -> Rows:
    parts = [rows_of(sources, levels=levels, least=least) for sources in logs]
    if not parts:
        return Rows(np.zeros((0, len(NAMES))), np.zeros(0, np.str_), np.zeros(0, np.int64), np.zeros(0))
    return Rows(*(np.concatenate(columns_) for columns_ in zip(*parts, strict=True)))

"""
Training of the traffic-shape models from labelled sources of logs.

Labels come from a CSV file or from the log itself. A source whose user agents declare bots is a crawler. A source that
looks like a browser (sessions with pages, assets and referrers) is a person. Other sources are not used. The user agent
is used for nothing else.

Logs of small sites contain no offices behind one address, and would teach that frequent visitors are crawlers. So the
requests of several people are also merged, as if they came from one address, with and without assets.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.svm import SVC

from hedgerow.core.visit import Visit
from hedgerow.errors import ModelError
from hedgerow.lab.train.cn2_rules import fit_rules
from hedgerow.lab.train.measures import area, at_false_positives, roc, share
from hedgerow.report.shape.autocorrelation import Levels, autocorrelation, learn_levels
from hedgerow.report.shape.classifiers import (
    FORMAT,
    INPUTS,
    Bayes,
    ClassifierEvidence,
    Machine,
    ShapeModel,
    ShapeModels,
    transformed,
)
from hedgerow.report.shape.features import LEAST_REQUESTS, NAMES, Fine, features
from hedgerow.report.shape.series import LAGS, NIGHT, WINDOW, Counts, SeriesPlan, local_regression, normalised, plan_of
from hedgerow.report.shape.vote import columns, judge
from hedgerow.request.bots import known_bots

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CRAWLER, PERSON, MERGED = "crawler", "person", "people together"
"""The labels of sources. The last is for several people merged into one source, which also counts as people."""

FOLDS = 5
FALSE_POSITIVES = 0.01
MIN_SOURCES = 20
SESSION_GAP = 1800.0

_DISCRETE = {"decay": 4, "alternation": 4, "daily": 2}
_POINTS = 40
_SMOOTHING = 13
_MAX_LOG_ODDS = 4.0
_MERGED_SIZES = (3, 10, 30, 100)
_MERGED_PER_SIZE = 40
_MIN_ACTIVE = 8
_MIN_GAIN = 0.005
_BOT_WORDS = re.compile(
    r"bot\b|bot/|crawl|spider|slurp|\+?https?://|^(?:curl|wget|python|java|go-http|libwww|okhttp|scrapy|ruby|php)\b",
    re.IGNORECASE,
)


class LabelledSource(NamedTuple):
    """One source: the times of its requests, which of them were pages, its label ("" if unknown) and its fold."""

    name: str
    times: Floats
    pages: Flags
    label: str
    fold: int


class Rows(NamedTuple):
    """The features of labelled sources, with label, fold and number of requests of each."""

    rows: Floats
    labels: NDArray[np.str_]
    folds: NDArray[np.int64]
    requests: Floats

    @property
    def crawlers(self) -> Flags:
        return np.asarray(self.labels == CRAWLER)

    def of(self, which: Flags) -> Rows:
        return Rows(self.rows[which], self.labels[which], self.folds[which], self.requests[which])


def bot_declaration() -> Callable[[str], bool]:
    """Return a function that tells whether a user agent declares a bot: a known one, or by its words."""
    known = re.compile("|".join(f"(?:{bot.agent})" for bot in known_bots() if bot.agent), re.IGNORECASE)
    return lambda agent: bool(known.search(agent) or _BOT_WORDS.search(agent))


class _SourceBuilder:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.pages: list[bool] = []
        self.declared = self.browser_requests = 0
        self._session: Counter[str] = Counter()

    def add(self, visit: Visit, *, is_declared: bool) -> None:
        if self.times and visit.at - self.times[-1] > SESSION_GAP:
            self.end_session()
        self.times.append(visit.at)
        self.pages.append(visit.kind == "page")
        self.declared += is_declared
        self._session.update(("all", visit.kind, "referred" if visit.referrer else "entered"))

    def end_session(self) -> None:
        """End a session. It looks like a browser's with 3 requests, 2 assets, 1 page and 30 % referrers."""
        seen, requests = self._session, self._session["all"]
        if requests >= 3 and seen["asset"] >= 2 and seen["page"] >= 1 and seen["referred"] >= 0.3 * requests:  # noqa: PLR2004
            self.browser_requests += requests
        seen.clear()

    def label(self) -> str:
        self.end_session()
        count = len(self.times)
        if self.declared * 2 > count:
            return CRAWLER
        return PERSON if not self.declared and self.browser_requests * 2 > count else ""


def gather(
    visits: Iterable[Visit], labels: dict[str, str] | None = None, *, is_declared: Callable[[str], bool] | None = None
) -> list[LabelledSource]:
    """Return the sources (addresses) of a log. *labels* maps sources to labels; default: labels from the log."""
    is_bot = is_declared or bot_declaration()
    known: dict[str, bool] = {}
    builders: dict[str, _SourceBuilder] = defaultdict(_SourceBuilder)
    for visit in visits:
        agent = visit.user_agent
        if agent not in known:
            known[agent] = is_bot(agent)
        builders[visit.address or visit.visitor].add(visit, is_declared=known[agent])
    sources = []
    for number, (name, source) in enumerate(sorted(builders.items())):
        given = source.label() if labels is None else labels.get(name, "")
        label = given if given in {"", PERSON} else CRAWLER
        sources.append(LabelledSource(name, np.array(source.times), np.array(source.pages), label, number % FOLDS))
    return sources


def merged_people(sources: Sequence[LabelledSource], seed: int) -> list[LabelledSource]:
    """Merge 3 to 100 people of one fold into one source, repeatedly; every other time with their pages only."""
    rng = np.random.default_rng(seed)
    merged = []
    for fold in range(FOLDS):
        people = [source for source in sources if source.label == PERSON and source.fold == fold]
        for size in _MERGED_SIZES:
            for turn in range(_MERGED_PER_SIZE if size <= len(people) else 0):
                group = [people[number] for number in rng.choice(len(people), size, replace=False)]
                times = np.concatenate([one.times[one.pages] if turn % 2 else one.times for one in group])
                merged.append(LabelledSource("", np.sort(times), np.ones(len(times), np.bool_), MERGED, fold))
    return merged


def rows_of(sources: Sequence[LabelledSource], *, levels: Levels | None = None) -> Rows:
    """Return the features of labelled sources with enough requests."""
    plan, counts, fine = _counted(sources)
    result = features(counts, plan, fine, levels=levels, least=LEAST_REQUESTS)
    labelled = [source for source in sources if source.label]
    labels = np.array([labelled[number].label for number in result.sources], dtype=np.str_)
    folds = np.array([labelled[number].fold for number in result.sources], dtype=np.int64)
    return Rows(result.rows, labels, folds, result.requests)


def _counted(sources: Sequence[LabelledSource]) -> tuple[SeriesPlan, Counts, Fine]:
    """Return the counts of labelled sources; the span is that of the whole log."""
    all_times = np.concatenate([source.times for source in sources]) if sources else np.zeros(0)
    plan = plan_of(*((float(all_times.min()), float(all_times.max())) if len(all_times) else (0.0, 0.0)))
    labelled = [source.times for source in sources if source.label]
    numbers = np.repeat(np.arange(len(labelled)), [len(times) for times in labelled])
    times = np.concatenate(labelled) if labelled else np.zeros(0)
    return plan, Counts.of_times(numbers, times, plan, len(labelled)), Fine.of_times(numbers, times, len(labelled))


def fit_bayes(rows: Floats, crawlers: Flags, names: Sequence[str]) -> Bayes:
    """Fit the log-odds of each feature: tables for discrete features, smoothed histograms for the others."""
    evidence = []
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
        odds = np.clip(odds, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        evidence.append(ClassifierEvidence(low, high, tuple(round(float(x), 4) for x in odds), name in _DISCRETE))
    return Bayes(tuple(evidence))


def fit_machine(rows: Floats, crawlers: Flags, folds: NDArray[np.int64]) -> Machine:
    """Fit a C-SVM. C, kernel width and calibration are chosen on held-out folds."""
    scaled = transformed(rows)
    means, scales = scaled.mean(axis=0), np.maximum(scaled.std(axis=0), 1e-9)
    scaled = (scaled - means) / scales
    best_area, machine, scores = -1.0, SVC(), np.zeros(len(rows))
    for cost, factor in product((1.0, 10.0), (0.5, 1.0, 2.0)):
        tried = SVC(C=cost, gamma=factor / rows.shape[1], class_weight="balanced", cache_size=100)
        held_out = cross_val_predict(tried, scaled, crawlers, cv=PredefinedSplit(folds), method="decision_function")
        value = area(roc(held_out.tolist(), crawlers.tolist()))
        if value > best_area + 1e-6:
            best_area, machine, scores = value, tried, held_out
    platt = LogisticRegression(class_weight="balanced").fit(scores[:, None], crawlers)
    machine.fit(scaled, crawlers)
    return Machine(
        _short(means), _short(scales), tuple(_short(vector) for vector in machine.support_vectors_),
        _short(machine.dual_coef_[0]), float(machine.intercept_[0]), machine.gamma, float(platt.coef_[0, 0]),
        float(platt.intercept_[0]),
    )  # fmt: skip


def _short(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{x:.7g}") for x in values)


def fit_model(data: Rows, name: str, *, threshold: float = 0.5) -> ShapeModel:
    """Fit the three classifiers on all of *data*. The threshold comes from rows that the model has not seen."""
    rows = data.rows[:, columns(name)]
    machine = fit_machine(rows, data.crawlers, data.folds)
    return ShapeModel(fit_bayes(rows, data.crawlers, INPUTS[name]), fit_rules(rows, data.crawlers), machine, threshold)


def held_out_scores(data: Rows, name: str) -> tuple[Floats, Floats]:
    """Return score and three probabilities of each row, by a model that was trained without its fold."""
    scores, probabilities = np.zeros(len(data.rows)), np.zeros((len(data.rows), 3))
    for fold in np.unique(data.folds):
        inside = data.folds == fold
        model = fit_model(data.of(~inside), name)
        verdicts = judge(data.rows[inside][:, columns(name)], model, INPUTS[name])
        scores[inside], probabilities[inside] = verdicts.scores, verdicts.probabilities
    return scores, probabilities


def measures(data: Rows, scores: Floats, probabilities: Floats) -> dict[str, Any]:
    """Return the quality of held-out scores: by vote, and by score at 1 % false positives."""
    votes = (probabilities > 0.5).sum(axis=1) >= 2  # noqa: PLR2004
    real = data.labels != MERGED
    crawlers = data.crawlers
    judged = scores[real].tolist(), crawlers[real].tolist()
    found, all_crawlers, wrong, people, threshold = at_false_positives(*judged, FALSE_POSITIVES)
    is_merged = data.labels == MERGED
    return {
        "crawlers_by_vote": share(int((votes & crawlers).sum()), int(crawlers.sum())),
        "people_by_vote": share(int((~votes & ~crawlers & real).sum()), int((~crawlers & real).sum())),
        "people_together_by_vote": share(int((~votes & is_merged).sum()), int(is_merged.sum())),
        "auc": round(area(roc(*judged)), 4),
        "crawlers_at_1_percent": share(found, all_crawlers),
        "people_at_1_percent": share(people - wrong, people),
        "threshold": round(max(threshold, 0.0), 4),
    }


def train_shape(
    logs: dict[str, list[LabelledSource]],
    *,
    seed: int = 1,
    similarity: float = 350.0,
    provenance: dict[str, Any] | None = None,
    after: Callable[[str], None] = lambda _: None,
) -> ShapeModels:
    """Train a bundle on the sources of logs, and measure its quality on held-out folds of sources."""
    groups = [[*sources, *merged_people(sources, seed)] for sources in logs.values()]
    data = pooled(groups)
    crawlers, people = int(data.crawlers.sum()), int((data.labels == PERSON).sum())
    if min(crawlers, people) < MIN_SOURCES:
        raise ModelError(
            f"{crawlers} crawlers and {people} people have {LEAST_REQUESTS} requests or more; "
            f"{MIN_SOURCES} of each are needed"
        )
    groups_count = int((data.labels == MERGED).sum())
    after(f"{crawlers:,} crawlers, {people:,} people and {groups_count:,} merged groups of people")
    models, metrics = {}, {}
    levels, data = _choose_levels(groups, data)
    for name in INPUTS:
        scores, probabilities = held_out_scores(data, name)
        metrics[name] = measures(data, scores, probabilities)
        # Merged people count as people here: several people behind one address must not be refused.
        threshold = at_false_positives(scores.tolist(), data.crawlers.tolist(), FALSE_POSITIVES)[-1]
        models[name] = fit_model(data, name, threshold=min(max(threshold, 0.5), 1.0))
        after(f"{name}: area under ROC {metrics[name]['auc']:.4f}")
    full_provenance = {"crawlers": crawlers, "people": people, "seed": seed, **(provenance or {})}
    return ShapeModels(FORMAT, models, levels, LEAST_REQUESTS, similarity, NIGHT, full_provenance, metrics)


def _choose_levels(groups: list[list[LabelledSource]], data: Rows) -> tuple[Levels, Rows]:
    """
    Choose the levels that appendix A calls low, average and high: those of these sources if better, else the defaults.

    Better means at least half a point of the area under the ROC with the paper's eight features, on held-out sources.
    """
    default = Levels()
    learned = _levels_of(groups)
    if learned is None:
        return default, data
    other = pooled(groups, levels=learned)
    areas = [area(roc(held_out_scores(rows, "eight")[0].tolist(), rows.crawlers.tolist())) for rows in (data, other)]
    return (learned, other) if areas[1] > areas[0] + _MIN_GAIN else (default, data)


def _levels_of(groups: list[list[LabelledSource]]) -> Levels | None:
    """Return the levels of all labelled sources with enough active intervals; None if there are too few."""
    coefficient_blocks: list[Floats] = []
    for sources in groups:
        plan, counts, _ = _counted(sources)
        if plan.points != WINDOW:
            continue
        chosen = np.nonzero(counts.totals >= LEAST_REQUESTS)[0]
        for _, block in counts.blocks(chosen, counts.busiest(plan)[chosen], plan.points):
            active = block[np.count_nonzero(block, axis=1) >= _MIN_ACTIVE]
            coefficient_blocks.append(autocorrelation(normalised(active), plan.lags))
    coefficients = np.concatenate(coefficient_blocks) if coefficient_blocks else np.zeros((0, LAGS))
    return learn_levels(coefficients, WINDOW) if len(coefficients) >= MIN_SOURCES else None


def pooled(logs: Iterable[Sequence[LabelledSource]], *, levels: Levels | None = None) -> Rows:
    parts = [rows_of(sources, levels=levels) for sources in logs]
    if not parts:
        return Rows(np.zeros((0, len(NAMES))), np.zeros(0, np.str_), np.zeros(0, np.int64), np.zeros(0))
    return Rows(*(np.concatenate(columns_) for columns_ in zip(*parts, strict=True)))

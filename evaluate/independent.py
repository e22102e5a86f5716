"""Real, independent people and crawlers, judged by the shipped model and by baselines: the first table of the page."""

from __future__ import annotations

from evaluate import baselines, live, real, walks
from evaluate.baselines import Judge
from evaluate.tables import SEED, first_alarm, percent, table
from evaluate.texts import text
from hedgerow.lab.train.samples import Walk
from hedgerow.watch.models.bundle import Bundle, shipped
from hedgerow.watch.sessions.path import LONG

BEGIN, END = "<!-- real people and crawlers -->", "<!-- end of real people and crawlers -->"
WITHOUT_ASSETS = frozenset({"Wikispeedia's players"})
"""Their data have no assets, so rules about assets have nothing to go by."""


def people() -> dict[str, list[Walk]]:
    """Real people, and walks in a real browser. None of them was used for training."""
    found = {"walks recorded in Chromium": walks.load()}
    if real.is_available():
        found["Wikispeedia's players"] = real.wiki_walks(1, baselines.MIN_PAGES)
        found["Iliou's people"] = real.iliou_walks(baselines.MIN_PAGES)["human"]
    return {name: its for name, its in found.items() if its}


def crawlers() -> dict[str, list[Walk]]:
    """Live crawls, and bots that their makers labelled."""
    six = {kind.name for kind in live.TRAINING_CRAWLERS}
    crawls = live.load()
    found = {
        "live: the six of PathMarker": [walk for name, its in crawls.items() if name in six for walk in its],
        "live: fifteen others": [walk for name, its in crawls.items() if name not in six for walk in its],
    }
    if real.is_available():
        labelled = real.iliou_walks(baselines.MIN_PAGES)
        found["Iliou's moderate bots"] = labelled["moderate_bot"]
        found["Iliou's advanced bots"] = labelled["advanced_bot"]
    return found


def judges() -> dict[str, Judge]:
    bundle = shipped("boosted")
    players = real.wiki_walks(0, baselines.MIN_PAGES) if real.is_available() else []
    return {
        "Hedgerow's path model": lambda walk: _alarm(bundle, walk),
        "rate": baselines.rate_threshold,
        "no assets": baselines.no_assets,
        "logistic regression": baselines.logistic_regression(SEED, players),
        "CrowdSec's rule": baselines.crowdsec_rule,
    }


def _alarm(bundle: Bundle, walk: Walk) -> bool:
    return first_alarm(bundle, walk) is not None


def section() -> str:
    """The first part of docs/evaluation/README.md."""
    asked = judges()

    def row(name: str, its: list[Walk]) -> list[str]:
        first = [walk._replace(strides=walk.strides[:LONG]) for walk in its if len(walk.strides) >= baselines.MIN_PAGES]
        cells = []
        for judge_name, judge in asked.items():
            if name in WITHOUT_ASSETS and judge_name == "no assets":
                cells.append("no assets in the data")
                continue
            cells.append(percent(sum(judge(walk) for walk in first), len(first)))
        return [name, *cells]

    recorded = walks.stored()
    seen = sum(bool(its["disturbed"]) for its in recorded)
    wrong = [row(name, its) for name, its in people().items()]
    found = [row(name, its) for name, its in crawlers().items()]
    return "\n".join([
        BEGIN,
        text("independent"),
        table(["people held to be crawlers (wrong)", *asked], wrong),
        table(["crawlers found (right)", *asked], found),
        text(
            "recorded", walks=len(recorded), pages=sum(len(its["strides"]) for its in recorded),
            disturbed=percent(seen, len(recorded)),
        ),
        END,
    ]) + "\n"  # fmt: skip

"""
The pointer model: `python -m evaluate.pointer` writes docs/evaluation/pointer.md.

With `--ship` the model that comes with the package is trained anew, on all sessions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from evaluate import pointer_data
from evaluate.pointer_data import Move, Session
from evaluate.tables import percent, table
from hedgerow.request.pointer_model import (
    FEATURES,
    LEAST_MOVES,
    LOOKS_DRIVEN,
    SUMS,
    PointerModel,
    features,
    movement_sums,
    read_model,
    shipped_model,
)

OUT = Path(__file__).parents[1] / "docs" / "evaluation" / "pointer.md"
TEMPLATE = Path(__file__).with_name("pointer.template.md")
DRIVERS = Path(__file__).with_name("pointer-drivers.json")
"""What drivers did on a page with our script, by `python -m evaluate.pointer_drivers`: one row of sums per session."""
SHIPPED = Path(__file__).parents[1] / "src" / "hedgerow" / "data" / "models" / "pointer.json"
PERSON = "human"
_WINDOW = 400
_MOST_WINDOWS = 40
_FOLDS = 5
_TOGETHER = 5
Row = tuple[float, ...]


def row_of(moves: Sequence[Move]) -> Row:
    return features(movement_sums(moves))


def rows_of(moves: Sequence[Move]) -> list[Row]:
    """Return the features of a whole session, and of parts as long as what a visitor does on a few pages."""
    starts = range(0, max(1, len(moves) - _WINDOW // 2), _WINDOW)
    return [row_of(moves[start : start + _WINDOW]) for start in list(starts)[:_MOST_WINDOWS]] + [row_of(moves)]


class Trainer:
    """Sessions with their features, to train on any of them."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = sessions
        self.rows = [rows_of(session.moves) for session in sessions]
        self.is_bot = np.array([session.group.endswith("_bot") for session in sessions])

    def fit(self, chosen: Iterable[int]) -> PointerModel:
        """Train on the *chosen* sessions, each with the same weight, people with as much weight as bots."""
        chosen = list(chosen)
        bots = max(1, sum(bool(self.is_bot[n]) for n in chosen))
        people = max(1, len(chosen) - bots)
        table_, labels, weights = [], [], []
        for n in chosen:
            table_ += self.rows[n]
            labels += [bool(self.is_bot[n])] * len(self.rows[n])
            weights += [1 / len(self.rows[n]) / (bots if self.is_bot[n] else people)] * len(self.rows[n])
        forest = RandomForestClassifier(40, max_depth=5, min_samples_leaf=5, random_state=21)
        forest.fit(np.array(table_), np.array(labels), sample_weight=np.array(weights) * len(weights))
        return _exported(forest)


def _exported(forest: RandomForestClassifier) -> PointerModel:
    """Return a forest as plain arrays."""
    arrays: dict[str, list[float]] = {name: [] for name in ("feature", "threshold", "left", "right", "value")}
    roots = []
    for tree in (one.tree_ for one in forest.estimators_):
        start = len(arrays["feature"])
        roots.append(start)
        is_leaf = tree.children_left < 0
        arrays["feature"] += np.where(is_leaf, -1, tree.feature).tolist()
        arrays["threshold"] += np.where(is_leaf, 0.0, tree.threshold).round(6).tolist()
        arrays["left"] += np.where(is_leaf, -1, tree.children_left + start).tolist()
        arrays["right"] += np.where(is_leaf, -1, tree.children_right + start).tolist()
        shares = tree.value[:, 0, 1] / tree.value[:, 0, :].sum(axis=1)
        arrays["value"] += shares.round(4).tolist()
    return read_model(json.dumps({"features": FEATURES, "roots": roots, **arrays}).encode())


def unseen_scores(trainer: Trainer) -> list[float]:
    """Return the score of each session, whole, by a model that has not seen it, nor any other of the same person."""
    groups = [session.group for session in trainer.sessions]
    scores = [0.0] * len(groups)
    # The ten people at work are one session each. They are folded with the other people.
    labels = [group if group.endswith("_bot") else PERSON for group in groups]
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=21)
    for train, test in folds.split(np.zeros(len(labels)), labels):
        model = trainer.fit(train)
        for n in test:
            scores[n] = model.score(trainer.rows[n][-1])
    return scores


def together(sessions: Sequence[Session]) -> list[Session]:
    """Join every few short recordings of one group to a session, with a pause between."""
    joined = []
    for group in sorted({session.group for session in sessions}):
        own = [session.moves for session in sessions if session.group == group]
        for start in range(0, len(own) - _TOGETHER + 1, _TOGETHER):
            moves: list[Move] = []
            for part in own[start : start + _TOGETHER]:
                later = moves[-1][0] + 1000 - part[0][0] if moves else 0.0
                moves += [(at + later, x, y) for at, x, y in part]
            joined.append(Session(group, moves))
    return joined


def _found(groups: Sequence[str], scores: Sequence[float]) -> list[list[str]]:
    rows = []
    for group in sorted(set(groups)):
        own = [score for name, score in zip(groups, scores, strict=True) if name == group]
        rows.append([group.replace("_", " "), percent(sum(s >= LOOKS_DRIVEN for s in own), len(own))])
    return rows


def main() -> None:
    if not pointer_data.is_available():
        sys.exit(f"not here: {pointer_data.DATA}")
    iliou, balabit, circles = pointer_data.iliou(), pointer_data.balabit(), pointer_data.circles()
    trainer = Trainer([*iliou, *balabit])
    if "--ship" in sys.argv[1:]:
        model = trainer.fit(range(len(trainer.sessions)))
        SHIPPED.write_bytes(msgspec.json.encode(model) + b"\n")
    model = shipped_model()
    scores = unseen_scores(trainer)
    count = len(iliou)
    drawn = together(circles)
    drivers = json.loads(DRIVERS.read_text())
    rows = []
    for name, sessions in drivers.items():
        sums = [[session[what] for what in SUMS] for session in sessions]
        enough = [one for one in sums if one[0] >= LEAST_MOVES]
        flagged = sum(model.score(features(one)) >= LOOKS_DRIVEN for one in enough)
        jumps = sum(s["presses"] >= 10 and s["moves"] <= 2 * s["presses"] for s in sessions)
        moves = f"{np.median([one[0] for one in sums]):.0f}"
        rows.append([name, str(len(sessions)), moves, f"{flagged} of {len(enough)}", f"{jumps} of {len(sessions)}"])
    fields = {
        "iliou": table(["sessions", "called programs"], _found([s.group for s in iliou], scores[:count])),
        "balabit": table(["people at work", "called programs"], _found(["ten people"] * len(balabit), scores[count:])),
        "circles": table(
            ["circles, five each", "called programs"],
            _found([s.group for s in drawn], [model.score(row_of(s.moves)) for s in drawn]),
        ),
        "drivers": table(
            ["recorded with the page script", "sessions", "movements", "`pointer`", "`pointer-jumps`"], rows
        ),
        "least": str(LEAST_MOVES),
        "threshold": str(LOOKS_DRIVEN),
        "nodes": f"{len(model.feature):,}",
        "size": f"{SHIPPED.stat().st_size / 1000:.0f}",
    }
    OUT.write_text(TEMPLATE.read_text().format_map(fields))


if __name__ == "__main__":
    main()

"""
The model bundle: trained models in one JSON file, with their training data's provenance and their quality.

A bundle is checked when it is loaded: its parts must be consistent, and nothing in it is ever executed. It has one
stage for each session length at which sessions are classified. Each stage has its own threshold, and together they use
one budget of false positives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from importlib.resources import files
from math import exp, isfinite
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.errors import ModelError
from hedgerow.watch.models.inference import Branches, Kernel, Kinds, Linear, Trees
from hedgerow.watch.sessions.path import ALL_FEATURES, PATHMARKER_FEATURES, PathSession
from hedgerow.watch.sessions.window import WINDOW_FEATURES, SessionWindow

FORMAT = "hedgerow-bundle-1"
DEFAULT = "boosted"
WINDOW = "window"
SHIPPED = ("boosted", "pathmarker", "window")
"""The bundles in the package: our own, PathMarker's models, and that of the sliding window."""

Input = Literal["six", "wide", "window"]
"""The features of a bundle: PathMarker's six, all features of a path, or those of a window."""

_FEATURES: dict[Input, tuple[str, ...]] = {"six": PATHMARKER_FEATURES, "wide": ALL_FEATURES, "window": WINDOW_FEATURES}
_IDENTITIES = frozenset(get_args(Identity))
_MAX_BYTES = 16 << 20
_MAX_EXPONENT = 500.0


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A visitor's identity, the probability (0 to 1) that it is a crawler, and the name of the model."""

    identity: Identity
    probability: float
    model: str


class Bins(msgspec.Struct, frozen=True):
    """
    The distribution of one feature among people in the training data.

    *edges* are its distinct deciles. *shares* has the share up to the first edge, between each two, and above the last.
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]

    def faults(self) -> Iterator[str]:
        if list(self.edges) != sorted(set(self.edges)) or not all(map(isfinite, self.edges)):
            yield "the deciles of a feature are not in order"
        if len(self.shares) != len(self.edges) + 1 or not all(0 <= share <= 1 for share in self.shares):
            yield "the shares of a feature are not those of its deciles"


class Stage(msgspec.Struct, frozen=True):
    """
    The model for sessions of *size* visits.

    A score above *threshold* means a crawler. *slope* and *intercept* turn a score into a probability. *kinds* names
    the kind of crawler; without it, every crawler is a suspect. *share* is the share of people that this stage may
    misclassify. *bins*, one for each feature, are needed to detect drift.
    """

    size: int
    model: Linear | Kernel | Trees
    threshold: float
    slope: float
    intercept: float
    share: float
    kinds: Kinds | Branches | None = None
    bins: tuple[Bins, ...] = ()

    def probability(self, score: float) -> float:
        exponent = self.slope * score + self.intercept
        return 1 / (1 + exp(-max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))))

    def faults(self, width: int) -> Iterator[str]:
        """Yield what is wrong with this stage for rows of *width* features."""
        yield from self.model.faults(width)
        if self.kinds is not None:
            yield from self.kinds.faults(width)
            if not _IDENTITIES.issuperset(self.kinds.names):
                yield "a kind of crawler that nobody knows"
        if self.bins and len(self.bins) != width:
            yield "its bins are not those of the features"
        for bins in self.bins:
            yield from bins.faults()


class Bundle(msgspec.Struct, frozen=True):
    """
    The models for every session length, and their origin.

    *features* names the columns of a row, in order. *budget* is the share of people that all stages together may
    misclassify. *provenance* describes the training data, *metrics* the quality on data that was not used for training.
    """

    format: str
    name: str
    input: Input
    features: tuple[str, ...]
    budget: float
    stages: tuple[Stage, ...]
    provenance: dict[str, Any] = {}
    metrics: dict[str, Any] = {}

    def has_stage(self, size: int) -> bool:
        return any(stage.size == size for stage in self.stages)

    def judge(self, features: Sequence[float], size: int) -> Judgement:
        """
        Classify a visitor by the *features* of its last *size* visits.

        The stage is that of `stage_at`. A visitor with fewer visits than the first stage is a person.
        """
        if len(features) != len(self.features):
            raise ValueError(f"{self.name} wants {len(self.features)} features, these are {len(features)}")
        chosen = self.stage_at(size)
        if chosen is None:
            return Judgement("person", 0.0, f"{self.name}-0")
        score = chosen.model.score(features)
        identity: Identity = "person"
        if score > chosen.threshold:
            identity = chosen.kinds.name(features) if chosen.kinds else "suspect"  # type: ignore[assignment]
        return Judgement(identity, chosen.probability(score), f"{self.name}-{chosen.size}")

    def stage_at(self, size: int) -> Stage | None:
        """Return the largest stage that needs at most *size* visits."""
        chosen = None
        for stage in self.stages:
            if stage.size <= size:
                chosen = stage
        return chosen

    def row(self, session: PathSession | SessionWindow) -> tuple[float, ...]:
        """Return the features of a session or a window that this bundle uses."""
        if isinstance(session, SessionWindow) or self.input == "six":
            return session.features()
        return session.all_features()

    def judge_session(self, session: PathSession | SessionWindow) -> Judgement:
        return self.judge(self.row(session), session.size)

    def judge_window(self, window: SessionWindow) -> Judgement:
        """
        Classify a visitor by its window of 27 to 40 page visits; a person while there are fewer.

        The window must contain only visits for which `step_of` returns a step, as `access_of` describes them.
        """
        return self.judge(window.features(), window.size)

    def faults(self) -> Iterator[str]:
        if self.format != FORMAT:
            yield f"its format is {self.format!r}, not {FORMAT!r}"
        if self.features != _FEATURES[self.input]:
            yield "its features are not those of this version of Hedgerow; train it again"
        sizes = [stage.size for stage in self.stages]
        if not sizes or sizes != sorted(set(sizes)) or sizes[0] < 1:
            yield "its stages are not in order"
        for stage in self.stages:
            for fault in stage.faults(len(self.features)):
                yield f"stage {stage.size}: {fault}"
        if sum(stage.share for stage in self.stages) > self.budget * 1.000001:
            yield "its stages spend more than its budget"


def load(path: Path | None = None) -> Bundle:
    """Return the bundle in the file *path*, or the default bundle of the package."""
    return shipped(DEFAULT) if path is None else _checked(_read(path), str(path))


def load_window(path: Path | None = None) -> Bundle:
    """
    Return the window bundle in the file *path*, or that of the package.

    >>> load_window().input
    'window'
    """
    bundle = shipped(WINDOW) if path is None else load(path)
    if bundle.input != "window":
        raise ModelError(f"{str(path)!r} judges paths, not windows; `--recipe window` trains one that does")
    return bundle


def shipped(name: str) -> Bundle:
    if name not in SHIPPED:
        raise ModelError(f"no bundle called {name!r} comes with Hedgerow; there are {', '.join(SHIPPED)}")
    return _checked((files("hedgerow.data") / "models" / f"{name}.json").read_bytes(), name)


def encoded(bundle: Bundle) -> bytes:
    return msgspec.json.encode(bundle, order="deterministic") + b"\n"


def digest(bundle: Bundle) -> str:
    return blake2b(encoded(bundle), digest_size=6).hexdigest()


def save(bundle: Bundle, path: Path) -> None:
    try:
        path.write_bytes(encoded(bundle))
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise ModelError(f"{str(path)!r} is too large for a bundle")
    return data


def _checked(data: bytes, where: str) -> Bundle:
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ModelError(f"{where!r} is no bundle: {error}") from None
    if faults := list(bundle.faults()):
        raise ModelError(f"{where!r} is no bundle that can be used: {'; '.join(faults)}")
    return bundle

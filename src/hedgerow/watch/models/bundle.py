"""
Bundle: trained models in one file, with what they were trained on and how good they were.

JSON, checked when it is loaded: the parts must fit together, and nothing of it is ever executed. A bundle has one
stage for each number of visits at which it is asked; each has a threshold of its own, and together they spend one
budget of false positives.
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
from hedgerow.watch.sessions.path import SIX, WIDE, PathSession
from hedgerow.watch.sessions.window import NAMES, SessionWindow

FORMAT = "hedgerow-bundle-1"
DEFAULT = "boosted"
WINDOW = "window"
SHIPPED = ("boosted", "pathmarker", "window")
"""The bundles that come with the package: our own, PathMarker's models, and the sliding window's."""

Input = Literal["six", "wide", "window"]
"""Which features a bundle wants: PathMarker's six, those and ours, or the window's."""

_FEATURES: dict[Input, tuple[str, ...]] = {"six": SIX, "wide": WIDE, "window": NAMES}
_IDENTITIES = frozenset(get_args(Identity))
_LARGEST = 16 << 20
_LONGEST_EXPONENT = 500.0


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """What a visitor is held to be, how probable it is that it is a crawler (0 to 1), and which model says so."""

    identity: Identity
    probability: float
    model: str


class Bins(msgspec.Struct, frozen=True):
    """
    How one feature was spread among the people of the training: *edges* are its deciles, each once, and *shares* how
    much was up to the first, between it and the second, and so on, and above the last.
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
    What is asked when there are *size* visits.

    A score above *threshold* is a crawler's. *slope* and *intercept* turn a score into a probability. *kinds* names the
    kind of crawler; without it every crawler is a suspect. *share* is the part of people that this stage may get wrong.
    *bins*, one for each feature, say what people were like; without them nobody can tell whether that has changed.
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
        return 1 / (1 + exp(-max(-_LONGEST_EXPONENT, min(_LONGEST_EXPONENT, exponent))))

    def faults(self, width: int) -> Iterator[str]:
        """What is wrong with this stage for rows of *width* features."""
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
    The models for every number of visits, and where they come from.

    *features* names what a row holds, in this order. *budget* is the share of people that all stages together may get
    wrong. *provenance* says what the models were trained on, *metrics* how good they were on data they had not seen.
    """

    format: str
    name: str
    input: Input
    features: tuple[str, ...]
    budget: float
    stages: tuple[Stage, ...]
    provenance: dict[str, Any] = {}
    metrics: dict[str, Any] = {}

    def asked_at(self, size: int) -> bool:
        """Whether a session of exactly *size* visits is one that there is a stage for."""
        return any(stage.size == size for stage in self.stages)

    def judge(self, features: Sequence[float], size: int) -> Judgement:
        """
        What the visitor is, by the *features* of its last *size* visits.

        The stage is the last one that has no more visits than there are. Before the first one nothing is known, and
        the visitor is a person.
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
        """The stage that judges *size* visits: the last one that wants no more."""
        chosen = None
        for stage in self.stages:
            if stage.size <= size:
                chosen = stage
        return chosen

    def row(self, session: PathSession | SessionWindow) -> tuple[float, ...]:
        """The features of a session or a window, those that this bundle wants."""
        if isinstance(session, SessionWindow) or self.input == "six":
            return session.features()
        return session.wide()

    def judge_session(self, session: PathSession | SessionWindow) -> Judgement:
        """What the visitor is, by its session: with those features that this bundle wants."""
        return self.judge(self.row(session), session.size)

    def judge_window(self, window: SessionWindow) -> Judgement:
        """
        What the visitor is, by its window of 27 to 40 page visits; a person while there are fewer.

        The window is to hold what the paths hold: visits of which `step_of` makes a step, as `access_of` tells them.
        """
        return self.judge(window.features(), window.size)

    def faults(self) -> Iterator[str]:
        """What is wrong with this bundle, in sentences."""
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
    """The bundle in the file *path*; the default one that comes with the package, where there is none."""
    return shipped(DEFAULT) if path is None else _checked(_read(path), str(path))


def load_window(path: Path | None = None) -> Bundle:
    """
    The bundle of the sliding window in the file *path*; the one that comes with the package, where there is none.

    >>> load_window().input
    'window'
    """
    bundle = shipped(WINDOW) if path is None else load(path)
    if bundle.input != "window":
        raise ModelError(f"{str(path)!r} judges paths, not windows; `--recipe window` trains one that does")
    return bundle


def shipped(name: str) -> Bundle:
    """The bundle called *name* that comes with the package (`SHIPPED`)."""
    if name not in SHIPPED:
        raise ModelError(f"no bundle called {name!r} comes with Hedgerow; there are {', '.join(SHIPPED)}")
    return _checked((files("hedgerow.data") / "models" / f"{name}.json").read_bytes(), name)


def encoded(bundle: Bundle) -> bytes:
    """The bundle as it stands in a file."""
    return msgspec.json.encode(bundle, order="deterministic") + b"\n"


def digest(bundle: Bundle) -> str:
    """A short name that no other bundle has."""
    return blake2b(encoded(bundle), digest_size=6).hexdigest()


def save(bundle: Bundle, path: Path) -> None:
    try:
        path.write_bytes(encoded(bundle))
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
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

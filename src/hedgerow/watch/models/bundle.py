"""
The model bundle: trained models in one JSON file, with their training data's provenance and their quality.

A bundle is checked when it is loaded: its parts must be consistent, and nothing in it is ever executed. It has one
stage for each session length at which sessions are classified. Each stage has its own threshold, and together they use
one budget of false positives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib.resources import files
from math import exp, isfinite
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hedgerow.core.decision import Identity
from hedgerow.errors import DECODE_ERRORS, ModelError
from hedgerow.file_owner import create_private_file, make_directory
from hedgerow.watch.models.inference import Namer, Scorer
from hedgerow.watch.sessions.path import ALL_FEATURES, LONG, PATHMARKER_FEATURES, SHORT_GAP, PathLengths, PathSession
from hedgerow.watch.sessions.window import WINDOW_FEATURES, SessionWindow, WindowLengths

FORMAT = "hedgerow-bundle-1"
DEFAULT = "boosted"
WINDOW = "window"
SHIPPED = ("boosted", "pathmarker", "window")
"""The bundles in the package: our own, PathMarker's models, and that of the sliding window. Settings may name them."""

ModelKind = Literal["paths", "windows"]
"""What a bundle classifies: PathMarker's sessions, or windows of 27 to 40 visits."""

Input = Literal["six", "wide", "window"]
"""The features of a bundle: PathMarker's six, all features of a path, or those of a window."""

_FEATURES: dict[Input, tuple[str, ...]] = {"six": PATHMARKER_FEATURES, "wide": ALL_FEATURES, "window": WINDOW_FEATURES}
_IDENTITIES = frozenset(get_args(Identity))
_MAX_BYTES = 16 << 20
_MAX_EXPONENT = 500.0


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """
    A visitor's identity, the probability (0 to 1) that it is a crawler, and the name of the model.

    *nearness* is how near the score is to the threshold: 0 at even odds and below, 1 at the threshold and above. In
    between it grows with the log-odds.
    """

    identity: Identity
    probability: float
    model: str
    nearness: float = 0.0


class Bins(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A feature among people in the training data: its distinct deciles, and the shares between and beyond them.

    *crawlers* are the shares of the crawlers there between the same edges, if they are known.
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]
    crawlers: tuple[float, ...] = ()

    def faults(self) -> Iterator[str]:
        if list(self.edges) != sorted(set(self.edges)) or not all(map(isfinite, self.edges)):
            yield "the deciles of a feature are not in order"
        if len(self.shares) != len(self.edges) + 1 or not all(0 <= share <= 1 for share in self.shares):
            yield "the shares of a feature are not those of its deciles"
        if self.crawlers and not (
            len(self.crawlers) == len(self.shares) and all(0 <= one <= 1 for one in self.crawlers)
        ):
            yield "the shares of crawlers are not those of the deciles of a feature"


class Stage(msgspec.Struct, frozen=True):
    """
    The model for sessions of *size* visits.

    A score above *threshold* means a crawler. *slope* and *intercept* turn a score into a probability. *kinds* names
    the kind of crawler; without it, every crawler is a suspect. *share* is the share of people that this stage may
    misclassify. *bins*, one for each feature, are needed to detect drift.
    """

    size: int
    model: Scorer
    threshold: float
    slope: float
    intercept: float
    share: float
    kinds: Namer | None = None
    bins: tuple[Bins, ...] = ()

    def probability(self, score: float) -> float:
        exponent = self.slope * score + self.intercept
        return 1 / (1 + exp(-max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))))

    def nearness(self, score: float) -> float:
        """Return how near a score is to the threshold, from 0 (even odds) to 1."""
        if score > self.threshold:
            return 1.0
        highest = self.slope * self.threshold + self.intercept
        return min(max((self.slope * score + self.intercept) / highest, 0.0), 1.0) if highest > 0 else 0.0

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


class Bundle(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    The models for every session length, and their origin.

    *features* names the columns of a row, in order. *budget* is the share of people that all stages together may
    misclassify. *provenance* describes the training data, *metrics* the quality on data that was not used for training.
    *long* and *short_gap* (paths) or *window* are the lengths of the sessions that it was trained for.
    """

    format: str
    name: str
    input: Input
    features: tuple[str, ...]
    budget: float
    stages: tuple[Stage, ...]
    provenance: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    long: int = LONG
    short_gap: float = SHORT_GAP
    window: WindowLengths = WindowLengths()

    def misfit(self, paths: PathLengths, window: WindowLengths) -> str:
        """Return in which respect this bundle was trained for other lengths of sessions; "" if it was not."""
        if self.input == "window":
            if self.window == window:
                return ""
            return f"windows of {self.window.least} to {self.window.most} pages, not {window.least} to {window.most}"
        if self.long != paths.long:
            return f"long sessions of {self.long} pages, not {paths.long}"
        if self.short_gap != paths.short_gap:
            return f"short sessions with gaps below {self.short_gap:g} s, not {paths.short_gap:g} s"
        # Below its first stage a bundle takes everybody for a person.
        sizes = [stage.size for stage in self.stages]
        if other := [size for size in paths.judge_at if size > sizes[0] and size not in sizes]:
            asked = " and ".join(map(str, other))
            return f"sessions of {', '.join(map(str, sizes))} pages, not {asked}"
        if sizes[0] > paths.judge_at[-1]:
            return f"sessions of {sizes[0]} pages; it is never asked at that length"
        return ""

    def has_stage(self, size: int) -> bool:
        return any(stage.size == size for stage in self.stages)

    def judge(self, features: Sequence[float], size: int) -> Judgement:
        """Classify a visitor by the *features* of its last *size* visits: a person below the first stage."""
        if len(features) != len(self.features):
            raise ValueError(f"{self.name} wants {len(self.features)} features, these are {len(features)}")
        chosen = self.stage_at(size)
        if chosen is None:
            return Judgement("person", 0.0, f"{self.name}-0")
        score = chosen.model.score(features)
        identity: Identity = "person"
        if score > chosen.threshold:
            identity = chosen.kinds.name(features) if chosen.kinds else "suspect"  # type: ignore[assignment]
        return Judgement(identity, chosen.probability(score), f"{self.name}-{chosen.size}", chosen.nearness(score))

    def stage_at(self, size: int) -> Stage | None:
        """Return the largest stage that needs at most *size* visits."""
        return next((stage for stage in reversed(self.stages) if stage.size <= size), None)

    def row(self, session: PathSession | SessionWindow) -> tuple[float, ...]:
        """Return the features of a session or a window that this bundle uses."""
        if isinstance(session, SessionWindow) or self.input == "six":
            return session.features()
        return session.all_features()

    def judge_session(self, session: PathSession | SessionWindow) -> Judgement:
        return self.judge(self.row(session), session.size)

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
    """Return the window bundle in the file *path*, or that of the package."""
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
    with _model_errors(path, "written"):
        path.write_bytes(encoded(bundle))


@contextmanager
def _model_errors(path: Path, action: str) -> Iterator[None]:
    """Raise ModelError instead of OSError: *path* cannot be read, written, moved or removed."""
    try:
        yield
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be {action}: {error.strerror}") from None


def _read(path: Path) -> bytes:
    with _model_errors(path, "read"), path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ModelError(f"{str(path)!r} is too large for a bundle")
    return data


def _checked(data: bytes, where: str) -> Bundle:
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except DECODE_ERRORS as error:
        raise ModelError(f"{where!r} is no bundle: {error}") from None
    if faults := list(bundle.faults()):
        raise ModelError(f"{where!r} is no bundle that can be used: {'; '.join(faults)}")
    return bundle


def kind_of(bundle: Bundle) -> ModelKind:
    return "windows" if bundle.input == "window" else "paths"


class ModelFiles:
    """The current, shadow and previous bundles of a site, for each kind. Files are replaced atomically."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def current(self, kind: ModelKind) -> Path:
        return self.directory / f"{kind}.json"

    def shadow(self, kind: ModelKind) -> Path:
        return self.directory / f"{kind}-shadow.json"

    def before(self, kind: ModelKind) -> Path:
        return self.directory / f"{kind}-before.json"

    def put_shadow(self, bundle: Bundle) -> Path:
        path = self.shadow(kind_of(bundle))
        new_file = path.with_suffix(".new")
        with _model_errors(path, "written"):
            make_directory(self.directory)
            new_file.unlink(missing_ok=True)
            create_private_file(new_file)
            new_file.write_bytes(encoded(bundle))
            new_file.replace(path)
        return path

    def promote(self, kind: ModelKind) -> Path:
        """Make the shadow the current bundle. The current one becomes the previous one."""
        shadow, current = self.shadow(kind), self.current(kind)
        if not shadow.is_file():
            raise ModelError(f"there is no shadow bundle for {kind}; hedgerow train creates one")
        if kind_of(load(shadow)) != kind:
            raise ModelError(f"{str(shadow)!r} is not a bundle for {kind}")
        with _model_errors(shadow, "moved"):
            if current.is_file():
                current.replace(self.before(kind))
            shadow.replace(current)
        return current

    def go_back(self, kind: ModelKind) -> None:
        """Use the previous bundle again, or the one of the package. The current bundle becomes the shadow."""
        before, current = self.before(kind), self.current(kind)
        if not current.is_file():
            raise ModelError(f"nothing was promoted: the bundle that comes with Hedgerow is in use for {kind}")
        with _model_errors(current, "moved"):
            current.replace(self.shadow(kind))
            if before.is_file():
                before.replace(current)

    def drop_shadow(self, kind: ModelKind) -> None:
        shadow = self.shadow(kind)
        if not shadow.is_file():
            raise ModelError(f"there is no shadow bundle for {kind}")
        with _model_errors(shadow, "removed"):
            shadow.unlink()

"""
Bundle: the shape's classifiers in one file, with what they were trained on and how good they were.

JSON, checked when it is loaded; parameters only, and nothing of it is ever executed. Each model wants some of the
features: the paper's eight, those that a series gives, or those and the fine ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.errors import ModelError
from hedgerow.report.shape.autocorrelation import Levels
from hedgerow.report.shape.classifiers import Bayes, ClassifierRules, Machine
from hedgerow.report.shape.features import EIGHT, FURTHER, NAMES

FORMAT = "hedgerow-shape-1"
INPUTS = {"eight": EIGHT, "series": EIGHT + FURTHER, "all": NAMES}
"""Which features a model may want; the richer one is preferred."""

_LARGEST = 16 << 20


class ShapeModel(msgspec.Struct, frozen=True):
    """
    Three classifiers over the features of one input, which vote.

    *threshold* is the mean probability above which no more than one in a hundred of the people it had not seen were.
    """

    bayes: Bayes
    rules: ClassifierRules
    machine: Machine
    threshold: float

    def faults(self, width: int) -> Iterator[str]:
        yield from self.bayes.faults(width)
        yield from self.rules.faults(width)
        yield from self.machine.faults(width)
        if not 0 <= self.threshold <= 1:
            yield "its threshold is no probability"


class ShapeModels(msgspec.Struct, frozen=True):
    """
    The models by input, what the tables of appendix A call low, average and high, and where all comes from.

    *least* is the number of requests below which a source has no shape. *similarity* is k of algorithm 1.
    """

    format: str
    models: dict[str, ShapeModel]
    levels: Levels
    least: int
    similarity: float
    night: float
    """How deep the quietest hours of a day are, at the least, where people are; see `rhythm`."""
    provenance: dict[str, Any] = {}
    metrics: dict[str, Any] = {}

    def faults(self) -> Iterator[str]:
        """What is wrong with this bundle, in sentences."""
        if self.format != FORMAT:
            yield f"its format is {self.format!r}, not {FORMAT!r}"
        if not self.models or not self.models.keys() <= INPUTS.keys():
            yield f"its models are none of {', '.join(INPUTS)}"
        for name, model in self.models.items():
            for fault in model.faults(len(INPUTS.get(name, ()))):
                yield f"{name}: {fault}"
        if self.least < 1 or self.similarity <= 0:
            yield "its limits are none"


def load(path: Path | None = None) -> ShapeModels:
    """The bundle in the file *path*; the one that comes with the package, where there is none."""
    if path is None:
        return checked((files("hedgerow.data") / "models" / "shape.json").read_bytes(), "shape")
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise ModelError(f"{str(path)!r} is too large for a bundle")
    return checked(data, str(path))


def save(bundle: ShapeModels, path: Path) -> None:
    try:
        path.write_bytes(msgspec.json.encode(bundle, order="deterministic") + b"\n")
    except OSError as error:
        raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def checked(data: bytes, where: str) -> ShapeModels:
    try:
        bundle = msgspec.json.decode(data, type=ShapeModels)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ModelError(f"{where!r} is no bundle of the shape: {error}") from None
    if faults := list(bundle.faults()):
        raise ModelError(f"{where!r} is no bundle that can be used: {'; '.join(faults)}")
    return bundle

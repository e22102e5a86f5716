"""
Model: the numbers that a report rests on, in one file: thresholds of the heuristics, weights of the manner, and how far
each opinion is trusted. One comes with Hedgerow; `hedgerow train heuristics` makes another from labelled logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.errors import ModelError
from hedgerow.report.heuristics import Thresholds
from hedgerow.report.manner import NAMES, Weights

FORMAT = "hedgerow-report-1"


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    *trust* has a factor for the odds of each opinion, *offset* is added to their sum. *provenance* says what it was
    learned from, and how good it was on what it had not seen.
    """

    thresholds: Thresholds
    manner: Weights
    trust: Mapping[str, float]
    offset: float = 0.0
    format: str = FORMAT
    provenance: dict[str, Any] = {}


def load(path: Path | None = None) -> Model:
    """The model in the file *path*; the one that comes with Hedgerow, where there is none."""
    where = files("hedgerow.data") / "models" / "report.json" if path is None else path
    try:
        found = msgspec.json.decode(where.read_bytes(), type=Model)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"{str(where)!r} is no model of a report: {error}") from None
    manner = found.manner
    fits = len(manner.means) == len(manner.scales) == len(manner.weights) == len(NAMES) and all(manner.scales)
    if found.format != FORMAT or not fits:
        raise ModelError(f"{str(where)!r} is not of this version; make one by hedgerow train heuristics")
    return found


def encoded(model: Model) -> bytes:
    return msgspec.json.format(msgspec.json.encode(model, order="deterministic"), indent=1) + b"\n"

"""
Model: the numbers that a report rests on, in one file: thresholds of the heuristics, steps of the manner, and how far
each opinion is trusted. One comes with Hedgerow; `hedgerow train heuristics` makes another from labelled logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.errors import ModelError
from hedgerow.report.browsing_features import LACKING, Steps
from hedgerow.report.heuristics import Thresholds

FORMAT = "hedgerow-report-2"


class ReportModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    *manner* has functions for what a log may lack (`LACKING`). *trust* has a factor for the odds of each opinion.
    *provenance* says what it was learned from, and how good it was on what it had not seen.
    """

    thresholds: Thresholds
    manner: Mapping[str, Steps]
    trust: Mapping[str, float]
    format: str = FORMAT
    provenance: dict[str, Any] = {}


def load(path: Path | None = None) -> ReportModel:
    """The model in the file *path*; the one that comes with Hedgerow, where there is none."""
    where = files("hedgerow.data") / "models" / "report.json" if path is None else path
    try:
        found = msgspec.json.decode(where.read_bytes(), type=ReportModel)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"{str(where)!r} is no model of a report: {error}") from None
    fits = found.manner.keys() == LACKING.keys() and all(steps.is_sound for steps in found.manner.values())
    if found.format != FORMAT or not fits:
        raise ModelError(f"{str(where)!r} is not of this version; make one by hedgerow train heuristics")
    return found


def encoded(model: ReportModel) -> bytes:
    return msgspec.json.format(msgspec.json.encode(model, order="deterministic"), indent=1) + b"\n"

"""
Recordings of pointers, as lists of movements (milliseconds, x, y) by session.

They are in ../shared/data/pointer, or where HEDGEROW_DATA points: sessions of people and of two kinds of bots (Iliou et
al. 2021), circles that people and programs drew, and ten people at work over remote desktop (Balabit).
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DATA = Path(os.environ.get("HEDGEROW_DATA", Path(__file__).parents[2] / "shared" / "data")) / "pointer"
Move = tuple[float, float, float]
_POINT = re.compile(r"\[(-?\d+),(-?\d+)\]")


class Session(NamedTuple):
    """The movements of one *group*: a label, or the name of a person."""

    group: str
    moves: list[Move]


def is_available() -> bool:
    return (DATA / "iliou_phase1_mouse.tar.xz").is_file()


def _files(name: str) -> Iterator[tuple[Path, str]]:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield Path(member.name), file.read().decode("utf-8", "replace")


def iliou() -> list[Session]:
    """Return the sessions of people (`human`), moderate and advanced bots."""
    files = {path.stem: text for path, text in _files("iliou_phase1_mouse")}
    sessions = []
    for row in csv.DictReader(io.StringIO(files.pop("labels"))):
        recorded = json.loads(files[row["session_id"]])
        times = [int(text) for text in recorded["mousemove_times"].split(",") if text]
        points = _POINT.findall(recorded["mousemove_total_behaviour"])
        # A few sessions have a time more than points.
        moves = [(float(at), float(x), float(y)) for at, (x, y) in zip(times, points, strict=False)]
        sessions.append(Session(row["label"], moves))
    return sessions


def circles() -> list[Session]:
    """Return drawn circles, by who drew them."""
    sessions = []
    for path, text in sorted(_files("circles")):
        rows = [line.split(",") for line in text.splitlines() if line.count(",") == 3]
        moves = [(float(at), float(x), float(y)) for at, event, x, y in rows if event == "Move"]
        if moves:
            sessions.append(Session(path.parent.name.removeprefix("circles_"), moves))
    return sessions


def balabit() -> list[Session]:
    """Return the sessions of ten people at work."""
    sessions = []
    for path, text in sorted(_files("balabit")):
        moves = [
            (float(row["client timestamp"]) * 1000, float(row["x"]), float(row["y"]))
            for row in csv.DictReader(io.StringIO(text))
            if row["state"] in {"Move", "Drag"}
        ]
        sessions.append(Session(path.parent.name, moves))
    return sessions

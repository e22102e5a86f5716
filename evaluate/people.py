"""Fits the generator of people to published data of real people; only quantiles and shares are stored."""

from __future__ import annotations

import csv
import io
import lzma
import math
import os
import statistics
import sys
import tarfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import msgspec

from hedgerow.lab.train.simulated_people import PeopleStatistics

DATA = Path(os.environ.get("HEDGEROW_DATA", Path(__file__).parents[2] / "shared" / "data"))
HERE = Path(__file__).parents[1] / "src" / "hedgerow" / "data" / "people.json"
PARTS = 100


def quantiles(values: list[float], maximum: float = math.inf) -> tuple[float, ...]:
    ordered = sorted(min(v, maximum) for v in values)
    last = len(ordered) - 1
    return tuple(float(f"{ordered[round(last * n / PARTS)]:.4g}") for n in range(PARTS + 1))


def shop(data: Path) -> tuple[list[list[float]], list[float]]:
    """Return the gaps and the number of views of each session."""
    times: dict[str, list[float]] = defaultdict(list)
    with lzma.open(data / "human_paths" / "diginetica_sample-item-views_2016.csv.xz", "rt") as file:
        for row in csv.DictReader(file, delimiter=";"):
            times[row["session_id"]].append(float(row["timeframe"]) / 1000)
    gaps = []
    for session in times.values():
        session.sort()
        gaps.append([b - a for a, b in pairwise(session) if 0 < b - a < 1800])
    return gaps, [float(len(session)) for session in times.values()]


def wiki(data: Path) -> tuple[list[float], list[float], list[float], float]:
    """Return seconds on a page, pages of a path, seconds between visits, and the share of clicks that go back."""
    paces, lengths, away = [], [], []
    back = clicks = 0
    starts: dict[str, list[float]] = defaultdict(list)
    with tarfile.open(data / "human_paths" / "wikispeedia_unfinished-paths.tar.xz") as archive:
        file = archive.extractfile("./paths_unfinished.tsv")
        assert file is not None
        for line in io.TextIOWrapper(file, "utf-8"):
            if line.startswith("#") or not line.strip():
                continue
            person, start, seconds, path, _, ending = line.rstrip("\n").split("\t")
            pages = path.split(";")
            back += pages.count("<")
            clicks += len(pages) - 1
            requested = len(pages) - pages.count("<")
            lengths.append(float(requested))
            starts[person].append(float(start))
            if ending == "restart" and len(pages) > 1:
                paces.append(float(seconds) / len(pages))
    for times in starts.values():
        times.sort()
        away += [b - a for a, b in pairwise(times) if b - a > 60]
    return paces, lengths, away, back / clicks


def fit(data: Path) -> PeopleStatistics:
    sessions, shop_lengths = shop(data)
    logs = [[math.log(gap) for gap in session] for session in sessions if len(session) >= 4]
    everything = [x for session in logs for x in session]
    within = statistics.fmean(statistics.variance(session) for session in logs)
    total = statistics.variance(everything)
    between = max(total - within, 0.0)
    paces, wiki_lengths, away, back = wiki(data)
    return PeopleStatistics(
        shop_gaps=quantiles([gap for session in sessions for gap in session]),
        wiki_gaps=quantiles(paces, 1800),
        person_spread=round(math.sqrt(between), 4),
        within_share=round(math.sqrt(within / total), 4),
        shop_lengths=quantiles(shop_lengths),
        wiki_lengths=quantiles(wiki_lengths),
        away=quantiles(away, 30 * 86_400),
        back=round(back, 4),
        source=(
            "quantiles of Diginetica (CIKM Cup 2016, sample) and Wikispeedia (West and Leskovec 2012), "
            "made by python -m evaluate.people"
        ),
    )


if __name__ == "__main__":
    if not DATA.is_dir():
        sys.exit("The data are not there; nothing was changed.")
    HERE.write_bytes(msgspec.json.format(msgspec.json.encode(fit(DATA)), indent=0) + b"\n")

"""The small form of the arena: it measures, goes on where it was stopped, and writes pages that stand alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .servers import PATIENCE, clean_environment

ROOT = Path(__file__).parents[2]


def arena(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "bench.arena", "--small", *options, "--cells", str(folder / "cells.jsonl")]
    done = subprocess.run(
        [*command, "--docs", str(folder)], cwd=ROOT, env=clean_environment(), capture_output=True, text=True,
        timeout=2 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str], documentation: Path
) -> tuple[Path, str]:
    for name in ("nginx", "haproxy", "wget"):
        program(name)
    assert documentation.is_dir()
    folder = tmp_path_factory.mktemp("arena")
    return folder, arena(folder)


def cells(folder: Path) -> dict[tuple[str, str], dict[str, object]]:
    lines = [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines() if line.endswith("}")]
    return {(one["protection"], one["crawler"]): one for one in lines}


def test_crawlers_get_the_site_without_protection_and_little_of_it_behind_hedgerow(measured):
    found = cells(measured[0])
    assert found["none", "wget"]["pages"] > 300
    assert found["hedgerow", "wget"]["pages"] < 10
    assert found["limit_req", "wget"]["pages"] < 100


def test_people_read_all_the_while_and_hedgerow_disturbs_none(measured):
    found = [one for one in cells(measured[0]).values() if one["crawler"] != "cpu"]
    assert all(one["people"] == 5 and one["people_requests"] >= 10 for one in found)
    assert not any(one["people_disturbed"] for one in found if one["protection"] == "hedgerow")


def test_the_processor_time_of_a_request_is_measured(measured):
    found = cells(measured[0])
    assert 0 < found["hedgerow", "cpu"]["cpu_ms"] < 100


def test_an_arena_that_was_stopped_measures_only_what_is_missing(measured):
    folder, _ = measured
    file = folder / "cells.jsonl"
    *kept, last = file.read_text().splitlines()
    # As it is where the last line was being written.
    file.write_text("\n".join(kept) + "\n" + last[: len(last) // 2])
    said = arena(folder)
    assert "\n1 cells to measure" in said
    assert "\n0 cells to measure" in arena(folder)


def test_the_pages_stand_alone(measured):
    folder, said = measured
    assert said.count("written: ") == 3
    page = (folder / "arena.html").read_text()
    assert not re.search(r"""(?:src|href)=["'](?!https://github\.com/)""", page)
    assert page.count("<svg") == 2
    assert "prefers-color-scheme: dark" in page
    summary = (folder / "arena-summary.md").read_text()
    assert summary.count("\n| ") <= 11
    assert "| Hedgerow |" in summary

"""`hedgerow demo` as a newcomer runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attached import attached

from .servers import HEDGEROW, PATIENCE, clean_environment, wait_for


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The demo in an empty folder, with its temporary files below it, so that what it leaves can be seen."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        # Where tests run in the background, Ctrl-C is ignored, and so it would be in what they start.
        attached(["env", "--default-signal=INT", HEDGEROW, "demo", *options]),
        cwd=folder,
        env=clean_environment(TMPDIR=str(folder / "tmp")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_below(folder: Path) -> list[str]:
    """The commands of processes that work in *folder*."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve(strict=True).is_relative_to(folder):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_shows_what_crawlers_get(tmp_path: Path, program: Callable[[str], str]) -> None:
    names = ["small Python crawler", "wget", "wget with robots.txt", "httrack", "scrapy, 32 at once"]
    for needed in ("nginx", "wget", "httrack"):
        program(needed)
    demo = start(tmp_path, "--seconds", "1")
    out, err = demo.communicate(timeout=500)
    print(out)  # noqa: T201
    assert (demo.returncode, err) == (0, "")
    rows = {
        cells[0].strip(): cells[1:]
        for line in out.splitlines()
        if line.startswith("│") and (cells := line.strip("│").split("│"))[0].strip()
    }
    assert list(rows) == names
    for name, (without, within, after, why) in rows.items():
        assert int(without.replace(",", "")) > 200, name
        assert 0 < int(within) < int(without.replace(",", "")) / 10, name
        if name == "wget with robots.txt":
            assert (int(within), after.strip()) == (1, "-")
            assert "robots.txt" in why
            continue
        assert int(after) > 0, name
        assert why.strip(), name
    person = re.search(r"A person who reads all the time: (\d+) requests, disturbed: (\d+)", out)
    assert person is not None
    assert int(person[1]) > 3
    assert person[2] == "0"
    assert len(re.findall(r"http://127\.0\.0\.1:\d+/", out)) >= 5
    assert list((tmp_path / "tmp").iterdir()) == []
    assert processes_below(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_can_be_stopped_in_the_middle(number: signal.Signals, tmp_path: Path) -> None:
    demo = start(tmp_path)
    try:
        wait_for("something is running", lambda: len(processes_below(tmp_path / "tmp")) >= 3)
    finally:
        time.sleep(0.3)
        demo.send_signal(number)
        out, err = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, err) == (0, "")
    assert "Stopped." in out
    assert list((tmp_path / "tmp").iterdir()) == []
    assert processes_below(tmp_path) == []

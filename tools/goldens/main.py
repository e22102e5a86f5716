"""The command line of `tools/golden`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from goldens import commands, help_texts, logs, settings_files, traffic
from goldens.checkout import Checkout
from goldens.compare import ABOUT, compare

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT / "tests" / "golden" / "expected"

Record = Callable[[Checkout, Path], None]

SMALL: dict[str, Record] = {
    "help": help_texts.record,
    "settings": settings_files.record_checks,
    "traffic": traffic.record_small,
    "sample": logs.record_small_sample,
}
"""What is committed: one section a test."""


def main(usage: str) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="tools/golden", description=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record", help="record what users see")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where logs/ is")
    recording.add_argument("--only", default="", help="sections, with commas between them")
    recording.add_argument("--small", action="store_true", help="only what the tests compare")
    comparing = actions.add_parser("compare", help="compare two recordings")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--lines", type=int, default=40, help="lines of difference to show for each file")
    accepting = actions.add_parser("accept", help="take what is recorded now as what the tests expect")
    for action in (recording, accepting):
        action.add_argument("--python", type=Path, default=_own_python(), help="a Python that can import hedgerow")
    given = parser.parse_args()
    # End by an exception, so that servers are stopped and temporary files removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.action == "compare":
        return _compare(given.first, given.second, given.lines)
    if given.action == "accept":
        record(given.python, EXPECTED, SMALL)
        return 0
    sections = SMALL if given.small else _sections(given.data)
    wanted = given.only.split(",") if given.only else list(sections)
    if unknown := set(wanted) - set(sections):
        parser.error(f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(sections)}")
    record(given.python, given.folder, {name: sections[name] for name in wanted})
    return 0


def _own_python() -> Path:
    own = ROOT / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def _sections(data: Path) -> dict[str, Record]:
    return {
        "help": help_texts.record,
        "settings": settings_files.record,
        "commands": commands.record,
        "traffic": traffic.record,
        "sample": logs.record_sample,
        "logs": lambda checkout, folder: logs.record_data(checkout, folder, data),
    }


def record(python: Path, folder: Path, sections: dict[str, Record]) -> None:
    """Record *sections* of the Hedgerow that *python* imports into *folder*, in place of what was there."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        checkout = Checkout(python, Path(scratch))
        print(f"recording {checkout.package} into {folder}", file=sys.stderr)
        for name, record_section in sections.items():
            began = time.monotonic()
            new = checkout.folder("section")
            record_section(checkout, new)
            for part in new.iterdir():
                old = folder / part.name
                if old.is_dir():
                    shutil.rmtree(old)
                shutil.move(part, old)
            print(f"  {name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        if folder != EXPECTED:
            (folder / ABOUT).write_text(f"{checkout.package}\n{checkout.python}\n", "utf-8")


def _compare(first: Path, second: Path, lines: int) -> int:
    for folder in (first, second):
        if not folder.is_dir():
            print(f"golden: {folder} is not a folder", file=sys.stderr)
            return 2
    differences = 0
    for text in compare(first, second, lines=lines):
        differences += 1
        print(text)
    print(f"{differences} files differ" if differences else "no difference")
    return 1 if differences else 0

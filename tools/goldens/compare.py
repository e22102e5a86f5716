"""Compare two recordings, file by file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

ABOUT = "about.txt"
"""Says what was recorded, and is not compared."""
_WIDEST = 240
_BEFORE_DIFFERENCE = 60


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {ABOUT}


def compare(first: Path, second: Path, *, lines: int) -> Iterator[str]:
    """For each file that differs, a text that says how: at most *lines* lines of its diff."""
    before, after = files_of(first), files_of(second)
    for name in sorted(before | after):
        if name not in after:
            yield f"only in {first}: {name}\n"
        elif name not in before:
            yield f"only in {second}: {name}\n"
        else:
            text = compare_files(first / name, second / name, name, lines=lines)
            if text:
                yield text


def compare_files(first: Path, second: Path, name: str, *, lines: int) -> str:
    """A unified diff of at most *lines* lines, or "" where the files are equal."""
    before, after = first.read_bytes(), second.read_bytes()
    if before == after:
        return ""
    old, new = (data.decode("utf-8", "backslashreplace").split("\n") for data in (before, after))
    diff = list(difflib.unified_diff(old, new, f"{first}", f"{second}", n=1, lineterm=""))
    shown = _shortened(diff[:lines])
    left = len(diff) - len(shown)
    rest = [f"... and {left} more lines of difference"] if left > 0 else []
    return "\n".join([f"differs: {name}", *shown, *rest]) + "\n"


def _shortened(diff: list[str]) -> list[str]:
    """Long lines, cut. Of a removed line that is followed by an added one, the part around their first difference."""
    shown = []
    for number, line in enumerate(diff):
        start = 0
        if len(line) > _WIDEST:
            other = _partner(diff, number)
            same = next((n for n, (a, b) in enumerate(zip(line[1:], other[1:], strict=False)) if a != b), 0)
            start = max(0, same - _BEFORE_DIFFERENCE)
        cut = line[1:][start : start + _WIDEST]
        shown.append(line[:1] + ("..." if start else "") + cut + ("..." if len(line) - 1 > start + _WIDEST else ""))
    return shown


def _partner(diff: list[str], number: int) -> str:
    """The line that took the place of line *number*, or that it took the place of; "" where there is none."""
    sign = diff[number][:1]
    if sign not in {"-", "+"}:
        return ""
    begin = number
    while begin and diff[begin - 1][:1] in {"-", "+"}:
        begin -= 1
    end = number
    while end < len(diff) and diff[end][:1] in {"-", "+"}:
        end += 1
    block = diff[begin:end]
    removed = [line for line in block if line.startswith("-")]
    added = [line for line in block if line.startswith("+")]
    own, others = (removed, added) if sign == "-" else (added, removed)
    place = sum(1 for line in block[: number - begin] if line.startswith(sign))
    return others[place] if len(own) == len(others) else ""

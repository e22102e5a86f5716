"""The fuzz targets by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Run = Callable[[bytes], None]
CORPUS = Path(__file__).parent / "corpus"
TARGETS: dict[str, Run] = {}


def target(name: str) -> Callable[[Run], Run]:
    """Register a function as the target *name*."""

    def add(run: Run) -> Run:
        TARGETS[name] = run
        return run

    return add


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]

"""Another process tells of the sources of a large report, to the letter as this one would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.report import result
from hedgerow.report.forked_writer import ForkedWriter
from hedgerow.report.pipeline import Options, make
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots

from .weeks import busy_log


def told(log: Path, *, beside: bool) -> str:
    with Tables([str(log)], memory=500_000_000) as tables:
        report = make(tables, Bots(known=known_bots()), Options(told=beside))
        assert report.campaigns
        return "".join(report.to_json())


def test_it_tells_the_same_with_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = busy_log(tmp_path / "a.log")
    here = told(log, beside=False)
    assert '"campaign":"c1"' in here
    monkeypatch.setattr(result, "_MANY", 1)
    assert told(log, beside=True) == here


def test_pieces_of_another_process() -> None:
    with ForkedWriter(iter(["a\nb", f"{os.getpid()}\n", "", "\u00e4"])) as beside:
        assert beside.pieces() == [b"a\nb", f"{os.getpid()}\n".encode(), b"", "\u00e4".encode()]
        assert beside.pieces() is None


def test_one_that_fails_has_no_pieces() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise ValueError

    with ForkedWriter(broken()) as beside:
        assert beside.pieces() is None


def test_one_that_nobody_waits_for_is_ended() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield ""

    with ForkedWriter(endless()) as beside:
        child = beside._child
        os.kill(child, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)

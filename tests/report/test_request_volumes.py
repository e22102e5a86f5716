"""PubCrawl's table 9 for a log."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.cli.main import main
from hedgerow.core.visit import Visit
from hedgerow.report.request_volumes import RequestVolumes


def volumes(counts: dict[str, int], **options) -> RequestVolumes:
    found = RequestVolumes(lambda at: int(at // 86_400), **options)
    for prefix, count in counts.items():
        for n in range(count):
            found.add(Visit(float(n), prefix, prefix, prefix, "GET", "/"))
    return found


def test_the_grid():
    found = volumes({"a": 5, "b": 20, "c": 21, "d": 1000, "e": 1001})
    assert (found.sources, found.requests) == (5, 2047)
    assert found.touched(20, 1000) == (2, 1021)
    assert found.touched(100, 100) == (0, 0)
    assert found.behind(20) == (3, 1 + 980 + 981)


def test_a_source_is_another_on_another_day_and_images_may_be_left_out():
    found = RequestVolumes(lambda at: int(at // 86_400), pages_only=True)
    for at, kind in ((0.0, "page"), (1.0, "asset"), (86_400.0, "page"), (86_401.0, "call")):
        found.add(Visit(at, "a", "a", "a", "GET", "/", kind=kind))
    assert (found.sources, found.requests) == (2, 3)


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 60), max_size=12), st.integers(0, 40), st.integers(0, 40))
def test_the_rows_add_up(counts, k1, more):
    """What is at most k1, what is touched and what is beyond k2 is everything."""
    found = volumes(counts)
    k2 = k1 + more
    parts = [found.touched(low, high) for low, high in ((0, k1), (k1, k2), (k2, 10**9))]
    assert tuple(map(sum, zip(*parts, strict=True))) == (found.sources, found.requests)


@pytest.fixture
def log(tmp_path):
    line = '192.0.2.{} - - [10/Oct/2000:13:55:{:02} +0000] "GET /{} HTTP/1.1" 200 5 "-" "x"\n'
    text = "".join(line.format(n, m % 60, m) for n, count in ((1, 3), (2, 12), (3, 40)) for m in range(count))
    (tmp_path / "access.log").write_text(text)
    return str(tmp_path / "access.log")


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["hedgerow", "simulate", "containment", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    return end.value.code, said.out, said.err


def test_the_command(monkeypatch, capsys, log):
    status, out, _ = run(monkeypatch, capsys, log, "--k1", "10", "--k2", "20,100", "--json", "-")
    assert status == 0
    found = json.loads(out)
    assert found["touched"] == [
        {"k1": 10, "k2": 20, "sources": 1, "requests": 12},
        {"k1": 10, "k2": 100, "sources": 2, "requests": 52},
    ]
    assert found["behind_k1"] == {"10": {"sources": 2, "requests": 32}}
    status, out, _ = run(monkeypatch, capsys, log)
    assert status == 0
    assert "3 sources (an address on one day), 55 requests" in out
    assert "94.55%" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--k1", "ten"), "--k1 needs whole numbers"), (("--timezone", "Mars/Phobos"), "'Mars/Phobos' is unknown")],
)
def test_wrong_use(monkeypatch, capsys, log, arguments, said):
    status, out, error = run(monkeypatch, capsys, log, *arguments)
    assert (status, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1

"""`hedgerow mark`: a folder is marked, or one is told why not."""

from __future__ import annotations

import pytest

from hedgerow.cli.mark import run
from hedgerow.errors import HedgerowError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.html").write_text('<!doctype html><p><a href="a.html">a</a> and so on</p>')
    (pages / "logo.png").write_bytes(b"png")
    return pages


def test_links_are_marked_and_other_files_copied(folder, tmp_path, capsys):
    run(folder, tmp_path / "out", "example.org")
    assert 'href="a.html?~=' in (tmp_path / "out" / "index.html").read_text()
    assert (tmp_path / "out" / "logo.png").read_bytes() == b"png"
    assert "1 pages marked, 1 other files copied" in capsys.readouterr().out


def test_settings_that_mark_no_links_are_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDGEROW__MARKER__MODE", "off")
    with pytest.raises(HedgerowError, match="mark no links"):
        run(folder, tmp_path / "out", "example.org")
    assert not (tmp_path / "out").exists()

"""Files are written whole, and nothing takes the place of a device."""

from __future__ import annotations

import os
import threading

import pytest

from hedgerow.cli.writing import write_file
from hedgerow.errors import HedgerowError


def test_the_whole_or_nothing(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def pieces():
        yield "half"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_file(path, pieces())
    assert path.read_text() == "old"
    write_file(path, ["n", "ew"])
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to("there")
    write_file(tmp_path / "link", ["new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text() == "new"


def test_nothing_takes_the_place_of_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_file(pipe, ["through ", "it"])
    reader.join()
    assert read == ["through it"]
    assert pipe.is_fifo()


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(HedgerowError, match="cannot be written"):
        write_file(tmp_path / "none" / "out.txt", ["x"])

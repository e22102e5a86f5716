"""Files that a command writes: all of them, or none."""

import pytest

from hedgerow.cli.output import write_files


def interrupted():
    yield "half"
    raise KeyboardInterrupt


def test_an_interrupt_leaves_the_old_files_and_no_temporary_ones(tmp_path):
    old, new = tmp_path / "report.json", tmp_path / "report.html"
    old.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_files([(old, ["new"]), (new, interrupted())])
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_all_files_are_written(tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    write_files([(path, [path.name, "!"]) for path in files])
    assert [path.read_text() for path in files] == ["a!", "b!"]
    assert sorted(tmp_path.iterdir()) == files

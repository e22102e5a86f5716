"""The newest part of a log that grows, is rotated and truncated."""

from __future__ import annotations

import pytest

from hedgerow.errors import LogError
from hedgerow.logs.follow import FollowedLog


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(first, last))


def test_whole_lines_are_kept_as_they_come(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(lines(0, 3) + b"half a ")
    with FollowedLog(str(path)) as log:
        assert log.catch_up()
        assert log.kept.read_bytes() == lines(0, 3)
        assert not log.catch_up()
        with path.open("ab") as file:
            file.write(b"line\n")
        assert log.catch_up()
        assert log.kept.read_bytes() == lines(0, 3) + b"half a line\n"
        kept = log.kept
    assert not kept.exists()


def test_a_rotated_log_is_read_to_its_end_and_the_new_one_from_its_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(lines(0, 2))
    with FollowedLog(str(path)) as log:
        log.catch_up()
        with path.open("ab") as file:
            file.write(lines(2, 4))
        path.rename(tmp_path / "log.1")
        assert log.catch_up()
        path.write_bytes(lines(4, 6))
        assert log.catch_up()
        assert log.kept.read_bytes() == lines(0, 6)


def test_a_truncated_log_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(lines(0, 5))
    with FollowedLog(str(path)) as log:
        log.catch_up()
        path.write_bytes(lines(7, 8))
        assert log.catch_up()
        assert log.kept.read_bytes() == lines(0, 5) + lines(7, 8)


def test_the_kept_part_is_bounded_and_the_newest(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(lines(0, 1000))
    with FollowedLog(str(path), most=1200) as log:
        assert log.dropped
        for begin in range(1000, 3000, 40):
            with path.open("ab") as file:
                file.write(lines(begin, begin + 40))
            log.catch_up()
            kept = log.kept.read_bytes()
            assert len(kept) <= 1200
            assert lines(0, begin + 40).endswith(b"\n" + kept)


def test_a_line_that_never_ends_takes_no_memory(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200_000)
    with FollowedLog(str(path)) as log:
        assert not log.catch_up()
        assert len(log._rest) <= 65_536


def test_what_cannot_be_followed_is_refused(tmp_path):
    with pytest.raises(LogError, match="there is no such file"):
        FollowedLog(str(tmp_path / "none"))
    packed = tmp_path / "log.gz"
    packed.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(LogError, match="plain text"):
        FollowedLog(str(packed))

"""Files that root makes in the directory of a service belong to the user of the service."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from hedgerow.cli.visitor_store import open_visitor_stores
from hedgerow.file_owner import create_private_file, make_directory
from hedgerow.lists.model import Listing
from hedgerow.settings import load_settings
from hedgerow.watch.models.bundle import load
from hedgerow.web.audit import audit_command
from hedgerow.web.bots import PublishedRange, save_ranges
from hedgerow.web.key_file import rotate
from hedgerow.web.paths import key_path, ranges_path
from hedgerow.web.stores import build_list_store, build_token_codecs
from hedgerow.web.watch import model_files

SERVICE = 65_534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make files for another user")


@pytest.fixture
def directory(tmp_path) -> Path:
    """The state directory of a service with a user of its own."""
    found = tmp_path / "state"
    found.mkdir(mode=0o700)
    os.chown(found, SERVICE, SERVICE)
    return found


@as_root
def test_what_commands_of_root_make_belongs_to_the_service(directory):
    settings = msgspec.structs.replace(load_settings(None, environment={}), directory=str(directory), observe=True)
    build_token_codecs(settings)
    rotate(key_path(settings), time.time(), 1e9)
    # Also the file of what is enforced, which a service that only observes has not made yet.
    with open_visitor_stores(settings) as stores:
        stores.enforced.read(0.0)
    audit_command(settings, "lists.add", "192.0.2.1")
    build_list_store(settings).add(Listing("black", "192.0.2.1", "", "root", time.time(), 0.0))
    save_ranges(ranges_path(settings), {"a.json": PublishedRange(("192.0.2.0/24",), "a", 0.0)})
    model_files(settings).put_shadow(load(None))
    made = {path.relative_to(directory).as_posix(): path.stat() for path in directory.rglob("*")}
    assert {"hedgerow.key", "state.sqlite", "audit.sqlite", "lists.sqlite", "ranges.json", "models"} <= set(made)
    assert {name for name, status in made.items() if (status.st_uid, status.st_gid) != (SERVICE, SERVICE)} == set()
    assert {name for name, status in made.items() if status.st_mode & 0o077} == set()


@as_root
def test_a_link_that_the_service_has_put_there_gets_no_owner(directory, tmp_path):
    """Otherwise the user of the service could get any file of root."""
    target = tmp_path / "of-root"
    (directory / "audit.sqlite").symlink_to(target)
    create_private_file(directory / "audit.sqlite")
    assert target.stat().st_uid == 0


@as_root
def test_root_that_may_not_give_files_away_keeps_them(directory, monkeypatch):
    """Such as that of a container without capabilities."""

    def fchown(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", fchown)
    create_private_file(directory / "a")
    make_directory(directory / "b" / "c")
    assert (directory / "a").stat().st_uid == (directory / "b" / "c").stat().st_uid == 0


def test_a_file_that_exists_stays_as_it_is(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    path.chmod(0o640)
    create_private_file(path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("x", 0o640)


def test_directories_are_made_with_those_above_them(tmp_path):
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file")

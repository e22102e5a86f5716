"""
The owner of files in a state directory.

A service has a user of its own, and its administrator runs commands as root. What root makes in a directory of the
service belongs to the owner of that directory, or the service could not open it. The owner of the directory cannot make
root give away other files: nothing is made through a symbolic link, and a directory stays open while it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def create_private_file(path: Path) -> None:
    """Create the file *path*, readable by its owner only, unless it exists."""
    try:
        os.close(open_new_file(path))
    except FileExistsError:
        path.touch(mode=0o600)


def open_new_file(path: Path) -> int:
    """Create the file *path*, readable by its owner only, and return its descriptor. Raise OSError if it exists."""
    with _opened(path.parent) as directory:
        descriptor = os.open(path.name, _NEW_FILE, 0o600, dir_fd=directory)
        try:
            _give_to_owner_of(directory, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Make the directory *path*, and those above it, unless they exist."""
    if path.is_dir():
        return
    make_directory(path.parent, 0o777)
    with _opened(path.parent) as above:
        try:
            os.mkdir(path.name, mode, dir_fd=above)
        except FileExistsError:
            if path.is_dir():
                # Another process was faster.
                return
            raise
        descriptor = os.open(path.name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        try:
            _give_to_owner_of(above, descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _give_to_owner_of(directory: int, descriptor: int) -> None:
    """Give what root has just made in a directory to the owner of that, if it is another user."""
    if os.geteuid() != 0:
        return
    status = os.fstat(directory)
    if status.st_uid != 0:
        # Root of a container may not do so, and the owner may be nobody there.
        with suppress(OSError):
            os.fchown(descriptor, status.st_uid, status.st_gid)

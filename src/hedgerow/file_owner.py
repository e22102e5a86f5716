"""
The owner of files in a state directory.

A service has a user of its own, and its administrator runs commands as root. What root makes in a directory of the
service belongs to the owner of that directory, or the service could not open it.
"""

from __future__ import annotations

import os
from pathlib import Path


def create_private_file(path: Path) -> None:
    """Create the file *path*, readable by its owner only, unless it exists."""
    try:
        # Never through a symbolic link: the owner of the directory could have put one there for root to follow.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        path.touch(mode=0o600)
        return
    try:
        give_to_owner_of(path.parent, descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Make the directory *path*, and those above it, unless they exist."""
    if path.is_dir():
        return
    make_directory(path.parent, 0o777)
    try:
        path.mkdir(mode)
    except FileExistsError:
        if path.is_dir():
            # Another process was faster.
            return
        raise
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give_to_owner_of(path.parent, descriptor)
    finally:
        os.close(descriptor)


def give_to_owner_of(directory: Path, descriptor: int) -> None:
    """Give a file that root has just made to the owner of *directory*, if that is another user."""
    if os.geteuid() != 0:
        return
    status = directory.stat()
    if status.st_uid != 0:
        os.fchown(descriptor, status.st_uid, status.st_gid)

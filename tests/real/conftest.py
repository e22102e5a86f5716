"""
The real parts as fixtures.

A part that is missing fails the test where `CI` is `true`, and elsewhere skips it with the part's name. The logs of the
servers that a failed test used stand below its traceback.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .browsing import CHROMIUM, chromium
from .servers import Nginx, Protect, find_program, run

DOCUMENTATION = Path("/usr/share/doc/postgresql-doc-15/html")
_LAST_OF_A_LOG = 4000
_addresses = itertools.count(2)
_started: list[Any] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.real)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:  # noqa: ARG001
    report = yield
    if report.failed and item.path.is_relative_to(Path(__file__).parent):
        for server in _started:
            if server.log.exists():
                report.sections.append(
                    (f"log {server.log}", server.log.read_text("utf-8", "replace")[-_LAST_OF_A_LOG:])
                )
    return report


def missing(what: str) -> None:
    """A part is not here: that is a failure in CI, and a skipped test elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and in CI nothing may be", pytrace=False)
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """The path of an installed program."""

    def find(name: str) -> str:
        path = find_program(name)
        if path is None:
            missing(name)
        assert path is not None
        return path

    return find


@pytest.fixture(scope="session")
def documentation() -> Path:
    """A real site's folder: PostgreSQL's documentation, some 1,200 pages."""
    if not (DOCUMENTATION / "index.html").exists():
        missing("postgresql-doc-15")
    return DOCUMENTATION


@pytest.fixture(scope="session")
def address() -> Callable[[], str]:
    """An address that nobody has used yet. 127.0.0.1 is the browser's."""
    return lambda: f"127.0.0.{next(_addresses)}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium. For a module only: while it is open, asyncio.run() cannot be used in this thread."""
    if not Path(CHROMIUM).exists():
        missing("chromium")
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def nginx(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Nginx]]:
    """Starts nginx in front of a folder, for as long as the module's tests run."""
    running: list[Nginx] = []

    def start(root: Path, **more: Any) -> Nginx:
        server = Nginx(program("nginx"), tmp_path_factory.mktemp("nginx"), root, **more)
        running.append(server)
        _started.append(server)
        return server

    yield start
    for server in running:
        server.stop()
        _started.remove(server)


@pytest.fixture(scope="module")
def protect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Protect]]:
    """Starts `hedgerow protect`; at the end of the module each one must have ended well."""
    running: list[Protect] = []

    def start(upstream: str, **more: Any) -> Protect:
        server = Protect(upstream, tmp_path_factory.mktemp("hedgerow"), **more)
        running.append(server)
        _started.append(server)
        return server

    yield start
    faults = []
    for server in reversed(running):
        try:
            server.stop()
        except AssertionError as fault:
            faults.append(str(fault))
        _started.remove(server)
    assert not faults, "\n".join(faults)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Path:
    """A folder with a git repository in it, ready for the dumb protocol, and some files."""
    git, root = program("git"), tmp_path_factory.mktemp("repositories")
    work = root / "work"
    work.mkdir()
    for n in range(8):
        (work / f"{n}.txt").write_text(f"{n}\n" * 1000)
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        (*who, "commit", "-q", "-m", "All of it"),
        ("clone", "-q", "--bare", ".", str(root / "repository.git")),
        ("-C", str(root / "repository.git"), "update-server-info"),
    ):
        run([git, *command], cwd=work)
    return root


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], documentation: Path) -> Nginx:
    """The documentation, served by nginx."""
    return nginx(documentation)


@pytest.fixture(scope="module")
def hedgerow(protect: Callable[..., Protect], site: Nginx) -> Protect:
    """Hedgerow with its default settings in front of the documentation."""
    return protect(site.url)

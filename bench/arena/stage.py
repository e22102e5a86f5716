"""A site, and a protection in front of it; each started anew for one measurement."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.arena import dokuwiki, protections, wiki
from bench.arena.protections import Front
from real.apps.wiki import Wiki
from real.servers import Nginx, Protect, Running, answers, find_program, free_port, wait_for

DOCUMENTATION = Path("/usr/share/doc/postgresql-doc-15/html")
SITES = ("static", "dynamic")
REAL_SITES = ("documentation", "wiki")
"""The sites of the arena: PostgreSQL's documentation as "static" has it, and DokuWiki under PHP."""
PROTECTIONS = ("none", "limit_req", "haproxy", "hedgerow")
"""Those that `bench crawlers` compares."""


@dataclass(frozen=True)
class Stage:
    """A running site. *paths* are those of its pages."""

    url: str
    paths: tuple[str, ...]
    access_log: Path
    front: Front
    page_of: Callable[[str], str]
    """The path in *paths* that a request asks for; empty where it is no page."""

    @property
    def hedgerow(self) -> Protect | None:
        return self.front.hedgerow

    def given(self, is_of: Callable[[str], bool] = bool) -> set[str]:
        """The pages that the site has given to the addresses of which *is_of* is true."""
        known, found = set(self.paths), set()
        for line in self.access_log.read_text("utf-8", "replace").splitlines():
            forwarded, remote, status, target = line.split("\t", 3)
            path = self.page_of(target)
            if status == "200" and path in known and is_of(remote if forwarded == "-" else forwarded):
                found.add(path)
        return found


def missing() -> list[str]:
    """What this machine lacks for the sites and the protections."""
    programs = [name for name in ("nginx", "haproxy") if find_program(name) is None]
    return programs + (["postgresql-doc-15"] if not DOCUMENTATION.is_dir() else [])


@contextlib.contextmanager
def stage(site: str, protection: str, *, settings: str = "") -> Iterator[Stage]:
    """Start a *site* and a *protection*; both end with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        port, paths, log, page_of = _SITES[site](folder, stack)
        front = protections.start(protection, port, folder, stack, settings)
        yield Stage(front.url, paths, log, front, page_of)


Site = tuple[int, tuple[str, ...], Path, Callable[[str], str]]


def _page(target: str) -> str:
    path = target.partition("?")[0]
    return "/" if path == "/index.html" else path


def _static(folder: Path, stack: contextlib.ExitStack) -> Site:
    nginx = Nginx(find_program("nginx") or "nginx", folder / "site", DOCUMENTATION)
    stack.callback(nginx.stop)
    paths = tuple(sorted(f"/{path.name}" for path in DOCUMENTATION.glob("*.html") if path.name != "index.html"))
    return nginx.port, ("/", *paths), nginx.access_log, _page


def _dynamic(folder: Path, stack: contextlib.ExitStack) -> Site:
    port, log = free_port(), folder / "wiki.log"
    log.touch()
    here = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.arena.wiki", str(port), str(log)]
    _start(command, port, folder / "wiki.out", here, stack)
    return port, wiki.PATHS, log, _page


def _dokuwiki(folder: Path, stack: contextlib.ExitStack) -> Site:
    texts = dokuwiki.pages(DOCUMENTATION)
    site = Wiki(folder / "wiki", texts)
    stack.callback(site.stop)
    return int(site.url.rpartition(":")[2]), tuple(texts), site.access_log, dokuwiki.page_of


def _start(command: list[str], port: int, log: Path, cwd: Path, stack: contextlib.ExitStack) -> None:
    running = Running(command, log, cwd=cwd)
    stack.callback(running.stop)
    wait_for(command[0], lambda: answers(port) or not running.alive)
    assert running.alive, running.said()


_SITES: dict[str, Callable[[Path, contextlib.ExitStack], Site]] = {
    "static": _static,
    "dynamic": _dynamic,
    "documentation": _static,
    "wiki": _dokuwiki,
}

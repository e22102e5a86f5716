"""The site of the demo: installed documentation or generated pages, served by nginx or Python, and its access log."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from hedgerow.lab.demo.processes import HOST, Processes, find_program, free_port, is_listening, wait_for

_DOCUMENTS = Path("/usr/share/doc")
_MIN_PAGES = 200
_MAX_PAGES = 3000
_GENERATED_PAGES = 400


class DemoSite(NamedTuple):
    """The site without protection. *pages* are the paths of its pages."""

    title: str
    server: str
    url: str
    pages: frozenset[str]
    log: Path


class PageCounts:
    """The pages that the site sent to each address, from its access log, which is read as it grows."""

    def __init__(self, site: DemoSite) -> None:
        self._site = site
        self._offset = 0
        self._incomplete = b""
        self.pages: defaultdict[str, set[str]] = defaultdict(set)

    def update(self) -> None:
        with self._site.log.open("rb") as log:
            log.seek(self._offset)
            data = log.read()
        self._offset += len(data)
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            address, status, target = line.decode("utf-8", "replace").split("\t", 2)
            path = target.partition("?")[0].removeprefix("/")
            page = path + "index.html" if not path or path.endswith("/") else path
            if status in {"200", "206"} and page in self._site.pages:
                self.pages[address].add(page)


def start_site(folder: Path, processes: Processes) -> DemoSite:
    """Start the site; a generated one is written to *folder*."""
    title, root = _installed_documents() or ("A generated site", _generate(folder / "site"))
    pages = frozenset(str(path.relative_to(root)) for path in root.rglob("*.html"))
    log = folder / "access.log"
    log.touch()
    port = free_port()
    nginx = find_program("nginx")
    if nginx is not None:
        (folder / "nginx.conf").write_text(_nginx_settings(folder, root, port, log))
        command = [nginx, "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "server.log")]
    else:
        command = [sys.executable, "-m", "hedgerow.lab.demo.server", str(port), str(root), str(log)]
    process = processes.start(command, log="server.log")
    wait_for("the site", lambda: is_listening(port), process, folder / "server.log")
    return DemoSite(title, "nginx" if nginx is not None else "Python", f"http://{HOST}:{port}", pages, log)


def _installed_documents() -> tuple[str, Path] | None:
    """Return PostgreSQL's documentation, or else the largest installed HTML documentation."""
    for root in sorted(_DOCUMENTS.glob("postgresql-doc-*/html"), reverse=True):
        if (root / "index.html").is_file():
            return "PostgreSQL's documentation", root
    candidates = []
    for index in itertools.chain(_DOCUMENTS.glob("*/html/index.html"), _DOCUMENTS.glob("*/index.html")):
        pages = sum(1 for _ in itertools.islice(index.parent.rglob("*.html"), _MAX_PAGES))
        if pages >= _MIN_PAGES:
            candidates.append((pages, index.parent))
    if not candidates:
        return None
    root = max(candidates)[1]
    return f"The documentation in {root}", root


def _generate(root: Path) -> Path:
    """Write a site of some hundred pages, each with links to its neighbours and to random pages."""
    root.mkdir()
    rng = random.Random(1)  # noqa: S311 - not secret
    count = _GENERATED_PAGES
    for n in range(count):
        targets = {*range(2 * n + 1, 2 * n + 3), (n - 1) // 2, *(rng.randrange(count) for _ in range(8))}
        links = "\n".join(f'<li><a href="{m}.html">Page {m}</a></li>' for m in sorted(targets) if 0 <= m < count)
        text = (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Page {n}</title></head>\n'
            f"<body><h1>Page {n}</h1>\n<p>This is page {n} of {count}.</p>\n<ul>\n{links}\n</ul></body></html>\n"
        )
        (root / f"{n}.html").write_text(text)
    shutil.copy(root / "0.html", root / "index.html")
    return root


def _nginx_settings(folder: Path, root: Path, port: int, log: Path) -> str:
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    types = "include /etc/nginx/mime.types;" if Path("/etc/nginx/mime.types").is_file() else "types { text/html html; }"
    return f"""{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/server.log;
events {{ worker_connections 512; }}
http {{
{types}
{paths}
map $http_x_forwarded_for $who {{ "" $remote_addr; default $http_x_forwarded_for; }}
log_format visits "$who\\t$status\\t$request_uri";
access_log {log} visits;
server {{ listen {HOST}:{port}; root {root}; }}
}}
"""

"""A site, and a protection in front of it; each started anew for one measurement."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.arena import wiki
from real.servers import Nginx, Protect, Running, answers, find_program, free_port, wait_for

DOCUMENTATION = Path("/usr/share/doc/postgresql-doc-15/html")
SITES = ("static", "dynamic")
PROTECTIONS = ("none", "limit_req", "haproxy", "hedgerow")
_LIMIT_REQ = """
user root;
daemon off;
worker_processes 1;
pid {folder}/front.pid;
error_log {folder}/front.log;
events {{ worker_connections 1024; }}
http {{
client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
scgi_temp_path {folder};
access_log off;
limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;
server {{
  listen 127.0.0.1:{port};
  location / {{
    limit_req zone=one burst=20 nodelay;
    limit_req_status 429;
    proxy_pass http://127.0.0.1:{upstream};
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
  }}
}}
}}
"""
_HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend front
  bind 127.0.0.1:{port}
  stick-table type ip size 100k expire 60s store http_req_rate(3s)
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100 }}
  option forwardfor
  default_backend site
backend site
  server site 127.0.0.1:{upstream}
"""


@dataclass(frozen=True)
class Stage:
    """A running site. *paths* are those of its pages."""

    url: str
    paths: tuple[str, ...]
    access_log: Path
    hedgerow: Protect | None

    def given(self, is_of: Callable[[str], bool] = bool) -> set[str]:
        """The pages that the site has given to the addresses of which *is_of* is true."""
        known, found = set(self.paths), set()
        for line in self.access_log.read_text("utf-8", "replace").splitlines():
            forwarded, remote, status, target = line.split("\t", 3)
            path = target.partition("?")[0]
            if status == "200" and path in known and is_of(remote if forwarded == "-" else forwarded):
                found.add("/" if path == "/index.html" else path)
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
        port, paths, log = (_static if site == "static" else _dynamic)(folder, stack)
        url, hedgerow = f"http://127.0.0.1:{port}", None
        if protection == "hedgerow":
            hedgerow = Protect(url, folder / "hedgerow", settings=settings)
            stack.callback(hedgerow.stop)
            url = hedgerow.url
        elif protection != "none":
            url = _front(protection, port, folder, stack)
        yield Stage(url, paths, log, hedgerow)


def _static(folder: Path, stack: contextlib.ExitStack) -> tuple[int, tuple[str, ...], Path]:
    nginx = Nginx(find_program("nginx") or "nginx", folder / "site", DOCUMENTATION)
    stack.callback(nginx.stop)
    paths = tuple(sorted(f"/{path.name}" for path in DOCUMENTATION.glob("*.html")))
    return nginx.port, ("/", *paths), nginx.access_log


def _dynamic(folder: Path, stack: contextlib.ExitStack) -> tuple[int, tuple[str, ...], Path]:
    port, log = free_port(), folder / "wiki.log"
    log.touch()
    here = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.arena.wiki", str(port), str(log)]
    _start(command, port, folder / "wiki.out", here, stack)
    return port, wiki.PATHS, log


def _front(protection: str, upstream: int, folder: Path, stack: contextlib.ExitStack) -> str:
    port, config = free_port(), folder / f"{protection}.conf"
    text = _LIMIT_REQ if protection == "limit_req" else _HAPROXY
    config.write_text(text.format(folder=folder, port=port, upstream=upstream))
    if protection == "limit_req":
        command = [find_program("nginx") or "nginx", "-p", str(folder), "-c", str(config), "-e", f"{folder}/front.log"]
    else:
        command = [find_program("haproxy") or "haproxy", "-db", "-f", str(config)]
    _start(command, port, folder / f"{protection}.out", folder, stack)
    return f"http://127.0.0.1:{port}"


def _start(command: list[str], port: int, log: Path, cwd: Path, stack: contextlib.ExitStack) -> None:
    running = Running(command, log, cwd=cwd)
    stack.callback(running.stop)
    wait_for(command[0], lambda: answers(port) or not running.alive)
    assert running.alive, running.said()

"""
What a page of 40 KB and 116 links costs on its way through Hedgerow, next to nginx's `proxy_pass`: CPU time of the
process a request.

The upstream is a third nginx. wrk loads both in turns. Everything is on loopback.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.samples import BROWSER, page

ROUNDS = 5
SECONDS = 2
# So dense that the load itself is not refused; counted all the same. It comes from one visitor without a clearance, so
# each page has the script that obtains one.
SETTINGS = """
[containment]
enabled = false
[density]
site_seconds = 0
windows = [{ count = 100000, seconds = 1.2 }, { count = 100000, seconds = 3, of = "requests" }]
[policy]
suspects = "pass"
[traps]
enabled = %s
[marker]
mode = "%s"
"""
# As a browser asks, in its order, which wrk's own headers do not keep: what is odd is evidence, and costs something.
SCRIPT = 'local asked = "%s"\nrequest = function() return asked end\n'
CANDIDATES = (
    # title, traps.enabled, marker.mode, at most so many times nginx where there is a goal
    ("passed on as it is", "false", "off", 5.0),
    ("with bait", "true", "off", None),
    ("with bait and marked links", "true", "clean", 10.0),
    ("with bait and opaque links", "true", "opaque", 10.0),
)
NGINX = """
daemon off; master_process off; pid %(folder)s/%(name)s.pid; error_log %(folder)s/%(name)s.log;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 10000000; default_type text/html; client_body_temp_path %(folder)s;
  proxy_temp_path %(folder)s; fastcgi_temp_path %(folder)s; uwsgi_temp_path %(folder)s; scgi_temp_path %(folder)s;
  upstream site { server 127.0.0.1:%(upstream)s; keepalive 64; }
  server { listen 127.0.0.1:%(port)s; %(location)s }
}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[int]:
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def asking(port: int, path: str) -> str:
    """A script for wrk that asks for *path* as a browser does."""
    headers = {**dict(BROWSER), b"host": f"127.0.0.1:{port}".encode()}
    lines = [f"GET {path} HTTP/1.1", *(f"{name.decode()}: {value.decode()}" for name, value in headers.items()), "", ""]
    return SCRIPT % "\\r\\n".join(lines)


def load(port: int, pid: int, path: str, folder: Path) -> float:
    """CPU seconds per request of process *pid*."""
    script = folder / "asking.lua"
    script.write_text(asking(port, path), encoding="ascii")
    before = cpu(pid)
    command = ["wrk", "-t1", "-c16", f"-d{SECONDS}s", "-s", str(script), f"http://127.0.0.1:{port}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    requests = re.search(r"(\d+) requests in", said)
    assert requests, said
    assert "Non-2xx" not in said, said
    return (cpu(pid) - before) / int(requests[1])


def main() -> None:
    for needed in ("nginx", "wrk"):
        if shutil.which(needed, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            print(f"{needed} is not installed: not measured")
            return
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "nginx"
    hedgerow = str(Path(sys.executable).with_name("hedgerow"))
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "index.html").write_bytes(page())
        (folder / "data.bin").write_bytes(page())
        upstream, front = free_port(), free_port()
        proxied = "location / { proxy_pass http://site; proxy_http_version 1.1; proxy_set_header Connection ''; }"
        for title, port, location in (("site", upstream, f"root {folder};"), ("front", front, proxied)):
            config = folder / f"{title}.conf"
            values = {"folder": folder, "name": title, "port": port, "upstream": upstream, "location": location}
            config.write_text(NGINX % values, encoding="utf-8")
            stack.enter_context(running([nginx, "-c", str(config)], port))
        candidates = {"nginx proxy_pass": (front, int((folder / "front.pid").read_text()), "/index.html")}
        for number, (title, traps, mode, _) in enumerate(CANDIDATES):
            port = free_port()
            settings = folder / f"{number}.toml"
            text = f'directory = "{folder / str(number)}"\n' + SETTINGS % (traps, mode)
            settings.write_text(text, encoding="utf-8")
            command = [hedgerow, "protect", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{port}"]
            pid = stack.enter_context(running([*command, "--config", str(settings)], port))
            candidates[f"Hedgerow, {title}"] = (port, pid, "/index.html")
        report(candidates, folder)


def report(candidates: dict[str, tuple[int, int, str]], folder: Path) -> None:
    found: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(ROUNDS + 1):
        for name, (port, pid, path) in candidates.items():
            seconds = load(port, pid, path, folder)
            if number:
                found[name].append(seconds)
    reference = statistics.median(found["nginx proxy_pass"])
    goals = {f"Hedgerow, {title}": goal for title, _, _, goal in CANDIDATES if goal}
    for name, seconds in found.items():
        middle = statistics.median(seconds)
        goal = f"   goal {goals[name]:g}" if name in goals else ""
        print(f"{name:38} {middle * 1e6:7.1f} µs CPU a page   {middle / reference:5.2f} times nginx{goal}")

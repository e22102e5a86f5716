"""
What TLS adds to a page of 40 KB through Hedgerow and through nginx: CPU time of the process a request, in turns.

Connections are kept, as browsers do; a second table opens one for each request, so that each has a handshake.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.proxy import NGINX, SETTINGS, asking, cpu, free_port, running
from bench.samples import page

ROUNDS = 5
SECONDS = 2
PROXIED = "location / { proxy_pass http://site; proxy_http_version 1.1; proxy_set_header Connection ''; }"


def load(url: str, pid: int, folder: Path, *, close: bool) -> float:
    """CPU seconds per request of process *pid*."""
    script = folder / "asking.lua"
    text = asking(int(url.rpartition(":")[2]), "/index.html")
    script.write_text(text.replace("\\r\\n\\r\\n", "\\r\\nconnection: close\\r\\n\\r\\n") if close else text, "ascii")
    before = cpu(pid)
    command = ["wrk", "-t1", "-c16", f"-d{SECONDS}s", "-s", str(script), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    requests = re.search(r"(\d+) requests in", said)
    assert requests, said
    assert "Non-2xx" not in said, said
    return (cpu(pid) - before) / int(requests[1])


def main() -> None:
    nginx, wrk, openssl = (
        shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") for name in ("nginx", "wrk", "openssl")
    )
    if nginx is None or wrk is None or openssl is None:
        print("nginx, wrk or openssl is not installed: not measured")
        return
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "index.html").write_bytes(page())
        pair = [str(folder / "site.crt"), str(folder / "site.key")]
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-subj", "/CN=127.0.0.1", "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True,
        )  # fmt: skip
        upstream, plain, secure = free_port(), free_port(), free_port()
        with_tls = f"ssl_certificate {pair[0]}; ssl_certificate_key {pair[1]}; {PROXIED}"
        locations = {"site": (upstream, f"root {folder};"), "http": (plain, PROXIED), "https": (secure, with_tls)}
        for title, (port, location) in locations.items():
            config = folder / f"{title}.conf"
            listen = f"{port} ssl" if title == "https" else port
            values = {"folder": folder, "name": title, "port": listen, "upstream": upstream, "location": location}
            config.write_text(NGINX % values, encoding="utf-8")
            stack.enter_context(running([nginx, "-c", str(config)], port))
        candidates = {
            f"nginx {title}": (f"{title}://127.0.0.1:{locations[title][0]}", int((folder / f"{title}.pid").read_text()))
            for title in ("http", "https")
        }
        settings = folder / "hedgerow.toml"
        settings.write_text(SETTINGS % ("true", "clean"), encoding="utf-8")
        for title in ("http", "https"):
            port = free_port()
            command = [str(Path(sys.executable).with_name("hedgerow")), "protect", f"http://127.0.0.1:{upstream}"]
            command += ["--listen", f"127.0.0.1:{port}", "--config", str(settings)]
            command += ["--tls", *pair] if title == "https" else []
            pid = stack.enter_context(running(command, port, HEDGEROW__DIRECTORY=str(folder / f"state-{title}")))
            candidates[f"Hedgerow {title}"] = (f"{title}://127.0.0.1:{port}", pid)
        for close in (False, True):
            report(candidates, folder, close=close)


def report(candidates: dict[str, tuple[str, int]], folder: Path, *, close: bool) -> None:
    found: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(ROUNDS + 1):
        for name, (url, pid) in candidates.items():
            seconds = load(url, pid, folder, close=close)
            if number:
                found[name].append(seconds)
    print("one connection for each page" if close else "connections are kept")
    middle = {name: statistics.median(seconds) for name, seconds in found.items()}
    for name, seconds in middle.items():
        print(f"{name:16} {seconds * 1e6:7.1f} µs CPU a page")
    for name in ("nginx", "Hedgerow"):
        print(f"TLS adds {(middle[f'{name} https'] - middle[f'{name} http']) * 1e6:.1f} µs to {name}")

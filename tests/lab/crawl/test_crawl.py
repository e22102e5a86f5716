"""Real crawls of a small site behind Hedgerow, each a process of its own; the order as the site's own log has it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from attached import attached
from hedgerow.ledger.labels import label_of, read_labels
from hedgerow.logs.reader import LogReader
from real.servers import free_port

pytest.importorskip("scrapy")

CONFIG = """
directory = "{directory}"
[containment]
enabled = false
[watch]
paths = "record"
windows = "record"
[traps]
enabled = false
[density]
enabled = false
[headers]
enabled = false
"""


def children(path: str) -> list[str]:
    """The pages /1, /2, /3, below each /1/1 and so on, three levels deep."""
    return [f"{path.rstrip('/')}/{n}" for n in (1, 2, 3)] if path.count("/") < 3 else []


def depth_first(path: str = "/") -> list[str]:
    return [path, *(page for child in children(path) for page in depth_first(child))]


def breadth_first() -> list[str]:
    found = ["/"]
    for page in found:
        found += children(page)
    return found


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path, time.time()))
        if self.path == "/private" and "session=ann" not in self.headers.get("cookie", ""):
            self._answer(403, "no")
        elif self.path == "/login":
            hidden = '<form><input name="q"></form><input>'
            form = '<form action="/login" method="post"><input type="hidden" name="token" value="t1">'
            self._answer(200, f'{hidden}{form}<input name="user"><input type="password" name="password"></form>')
        elif self.path == "/away":
            self._answer(302, "", ("location", f"http://localhost:{self.server.server_port}/elsewhere"))
        else:
            links = [*children(self.path), "http://other.example/", "mailto:a@b.example"]
            if self.path == "/":
                links.append("/#top")
            if self.path == "/private":
                links = ["/away"]
            self._answer(200, "".join(f'<a href="{link}">x</a>' for link in links))

    def do_POST(self) -> None:
        self.server.posted.append(self.rfile.read(int(self.headers["content-length"])).decode())
        self._answer(303, "", ("location", "/"), ("set-cookie", "session=ann; Path=/"))

    def _answer(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        page = f"<!DOCTYPE html><html><body>{body}</body></html>".encode()
        self.send_response(status)
        for name, value in (("content-type", "text/html"), ("content-length", str(len(page))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        server.asked, server.posted = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEDGEROW__")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path)}


@contextlib.contextmanager
def protected(site: ThreadingHTTPServer, tmp_path: Path) -> Iterator[str]:
    config = tmp_path / "hedgerow.toml"
    config.write_text(CONFIG.format(directory=tmp_path))
    port = free_port()
    command = [sys.executable, "-m", "hedgerow", "protect", f"http://127.0.0.1:{site.server_port}"]
    command += ["--listen", f"127.0.0.1:{port}", "--config", str(config)]
    process = subprocess.Popen(
        attached(command), env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def crawl(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hedgerow", "crawl", *arguments, "--config", str(tmp_path / "hedgerow.toml")]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def test_the_site_sees_each_order_and_the_ledger_is_labelled(site, tmp_path):
    with protected(site, tmp_path) as url:
        seen = {}
        for order in ("depth", "breadth", "random"):
            del site.asked[:]
            done = crawl(tmp_path, url + "/", "--order", order, "--from", f"127.0.0.{len(seen) + 2}", "--seed", "4")
            assert (done.returncode, done.stderr) == (0, "")
            assert "requested 41 pages" in done.stdout
            seen[order] = [path for path, _ in site.asked]
    # The page / once more, by the marked link to it: to a crawler it is another address.
    assert [page for n, page in enumerate(seen["depth"]) if page != "/" or not n] == depth_first()
    assert [page for n, page in enumerate(seen["breadth"]) if page != "/" or not n] == breadth_first()
    assert set(seen["random"]) == set(depth_first())
    assert len({*map(tuple, seen.values())}) == 3
    labels = read_labels(tmp_path / "crawls.jsonl")
    assert [label.label for label in labels] == ["depth-first", "width-first", "random-like"]
    visits = list(LogReader([str(tmp_path / "ledger.sqlite")]))
    assert Counter(label_of(visit, labels) for visit in visits) == {
        label: len(seen[order])
        for label, order in (("depth-first", "depth"), ("width-first", "breadth"), ("random-like", "random"))
    }
    # Each crawl enters without a mark. A link to the page on which it stands has none either.
    without = [visit.target for visit in visits if visit.marker is None]
    assert without.count("/") >= 3
    assert len(without) <= 6


def test_the_crawler_logs_in_and_stays_on_the_site_and_within_limits(site, tmp_path):
    (tmp_path / "password").write_text("secret\n")
    with protected(site, tmp_path) as url:
        done = crawl(
            tmp_path, url + "/private", "--order", "depth", "--login", url + "/login", "--field", "user=ann",
            "--field", f"password=@{tmp_path / 'password'}", "--label", "mine", "--pages", "5",
        )  # fmt: skip
        assert done.returncode == 0
        assert "fewer than 10 responses" in done.stderr
        assert site.posted == ["token=t1&user=ann&password=secret"]
        paths = [path for path, _ in site.asked]
        assert "/private" in paths
        assert "/elsewhere" not in paths
        assert "1 x IgnoreRequest" in done.stdout
        del site.asked[:]
        done = crawl(tmp_path, url + "/", "--order", "breadth", "--pages", "7", "--delay", "0.2")
        times = [at for _, at in site.asked]
        assert len(times) == 7
        assert all(after - before >= 0.2 for before, after in pairwise(times))
        assert crawl(tmp_path, url + "/", "--order", "depth", "--login", url + "/").returncode == 1
    assert [label.label for label in read_labels(tmp_path / "crawls.jsonl")] == ["mine", "width-first"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["http://127.0.0.1:1/", "--order", "deep"], 2, "none of depth, breadth and random"),
        (["http://127.0.0.1:1/", "--order", "depth", "--delay", "soon"], 2, "write seconds"),
        (["http://192.0.2.1/", "--order", "depth"], 1, "--allow 192.0.2.1"),
        (["http://127.0.0.1:1/", "--order", "depth", "--login", "http://127.0.0.2:1/"], 1, "not on the site"),
        (["http://127.0.0.1:1/", "--order", "depth", "--from", "192.0.2.1"], 1, "not an address of this machine"),
        (["http://127.0.0.1:1/", "--order", "depth", "--field", "x"], 2, "NAME=VALUE"),
        (["http://127.0.0.1:1/", "--order", "depth", "--field", "x=@/none"], 1, "cannot read"),
        (["http://127.0.0.1:1/", "--order", "depth"], 1, "no response from"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, monkeypatch, arguments, status, said):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "hedgerow.toml").write_text("")
    done = crawl(tmp_path, *arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_scrapy_the_error_names_the_extra(tmp_path):
    (tmp_path / "hedgerow.toml").write_text("")
    code = "import sys; sys.modules['scrapy'] = None; from hedgerow.cli.main import main; main()"
    command = [sys.executable, "-c", code, "crawl", "http://127.0.0.1:1/", "--order", "depth"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "hedgerow[crawl]" in done.stderr

"""`hedgerow learn` on a small site behind a real gate: six crawls, training and comparison in one command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest

from attached import attached
from hedgerow.core.decision import PASS
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Visit
from hedgerow.lab.train.simulated_data import draw_people, draw_sites
from hedgerow.ledger.labels import label_of, read_labels
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs.reader import LogReader
from hedgerow.watch.models.bundle import load
from real.servers import free_port

pytest.importorskip("scrapy")
pytestmark = pytest.mark.slow

CONFIG = """
directory = "{directory}"
observe = "links"
[watch]
judge_at = [10]
"""
PAGES, LINKS = 200, 8
PEOPLE = 8


class _Pages(BaseHTTPRequestHandler):
    """Pages /0 to /199, each with links to eight others."""

    def do_GET(self) -> None:
        number = int(re.sub(r"\D", "", self.path.partition("?")[0]) or 0)
        links = Random(number).sample(range(PAGES), LINKS)
        body = "".join(f'<p>Hedges <a href="/{link}">page {link}</a>.</p>' for link in links)
        page = f"<!DOCTYPE html><html><head><title>x</title></head><body>{body}</body></html>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None: ...


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEDGEROW__")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def protected(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "hedgerow.toml").write_text(CONFIG.format(directory=tmp_path))
    port = free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [sys.executable, "-m", "hedgerow", "protect", f"http://127.0.0.1:{server.server_port}"]
        command += ["--listen", f"127.0.0.1:{port}", "--config", str(tmp_path / "hedgerow.toml")]
        process = subprocess.Popen(
            attached(command), env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            assert any("protecting" in line for line in process.stderr), "it did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
            process.stderr.close()
            server.shutdown()


def people_in(ledger: Path) -> None:
    """Write some people into a ledger, as if they had read the site before."""
    store = SqliteLedger(ledger, keep_days=1e6)
    visits = []
    for number, walk in enumerate(draw_people(Random(2), draw_sites(Random(2), 2), PEOPLE, marked=False)):
        who, start = f"192.0.2.{number}", time.time() - 86_400 - walk.strides[-1].at
        for stride in walk.strides:
            referrer = "" if stride.parent is None else f"http://127.0.0.1/{stride.parent}"
            target = f"/{stride.page}"
            visits.append(
                Visit(
                    start + stride.at,
                    who,
                    who,
                    who,
                    "GET",
                    target,
                    host="127.0.0.1",
                    user_agent="Mozilla/5.0",
                    referrer=referrer,
                )
            )
    for visit in sorted(visits, key=lambda visit: visit.at):
        store.append(Entry(visit, PASS, 200))
    store.close()


def learn(tmp_path: Path, url: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hedgerow", "learn", url + "/", *more, "--config", str(tmp_path / "hedgerow.toml")]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def test_learn_crawls_trains_and_compares_in_one_command(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    with protected(tmp_path) as url:
        early = learn(tmp_path, url, "--pages", "20", "--delay", "0.1")
        assert early.returncode == 1
        assert "no person has read 10 pages yet" in early.stderr
        assert not (tmp_path / "crawls.jsonl").exists(), "it fails before it crawls"
        people_in(ledger)
        done = learn(tmp_path, url, "--pages", "20", "--delay", "0.1")
    assert done.returncode == 0, done.stderr
    labels = read_labels(tmp_path / "crawls.jsonl")
    kinds = ["depth-first", "width-first", "random-like"]
    assert [label.label for label in labels] == kinds * 2
    assert f"{PEOPLE} people" in done.stderr
    assert "and 6 crawlers" in done.stderr
    assert re.search(r"120 requests, 120 pages; [1-9][\d,]* hidden links were not followed", done.stderr)
    crawled = [visit for visit in LogReader([str(ledger)]) if label_of(visit, labels)]
    assert len(crawled) == 120
    assert not any(visit.marker is not None and visit.marker.kind in {"trap", "maze"} for visit in crawled)
    bundle = load(tmp_path / "models" / "paths-shadow.json")
    assert bundle.provenance["start"].startswith("boosted")
    assert bundle.metrics["10"]["own"]["crawlers"] == 6
    assert re.search(r"suspects \d+ of 8 people of this site \(current bundle: \d+\)", " ".join(done.stderr.split()))


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["http://192.0.2.1"], 1, "--allow 192.0.2.1"),
        (["http://127.0.0.1:1", "--delay", "soon"], 2, "write seconds"),
        (["http://127.0.0.1:1"], 1, "there is no ledger"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, arguments, status, said):
    (tmp_path / "hedgerow.toml").write_text(f'directory = "{tmp_path}"\n')
    done = learn(tmp_path, *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    assert said in done.stderr

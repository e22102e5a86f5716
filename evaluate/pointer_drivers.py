"""
What drivers of browsers do with the mouse: `python -m evaluate.pointer_drivers` writes pointer-drivers.json.

Each driver clicks through pages that have our script, with its click alone and with its helper for movements. Needs
Chromium, Playwright, puppeteer-core and ghost-cursor (found by NODE_PATH), and undetected-chromedriver (by the Python
that PYTHON_OF_DRIVER names) with a chromedriver (CHROMEDRIVER). A driver that is not there is left out. With `--more`
only drivers are recorded that the file does not have yet.

No live people take part. Their circles, recorded elsewhere, are replayed by the browser's own input events at the times
of the recording, so that page and script treat them as they would treat a mouse.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl

from playwright.sync_api import Browser, Page, sync_playwright

from evaluate import pointer_data
from evaluate.pointer import DRIVERS
from evaluate.pointer_data import Session
from hedgerow.request.browser_report import BrowserReport, read_report

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
SESSIONS = 6
CLICKS = 14
_WALKERS = Path(__file__).parent
_STEPS = 25
_DRAWINGS = 5
_PAGE = """<!DOCTYPE html><title>Page</title><style>a {{ position: absolute }}</style><body>{links}
<script src="/files/1/page.js" async data-signs="only"></script>"""


class Recorder(ThreadingHTTPServer):
    """Serves pages with links at random places, and adds up what their scripts report."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = files("hedgerow.data.challenge").joinpath("page.js").read_bytes()
        self.reports: list[BrowserReport] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def take(self) -> dict[str, int]:
        """Return the sums of all reports since the last call."""
        time.sleep(0.5)
        unique = {report.number: report for report in self.reports}.values()
        self.reports = []
        names = ("presses", "moves", "strokes", "same", "turn", "turns", "speed", "change")
        return {name: sum(getattr(report, name) for report in unique) for name in names}


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        if self.path.endswith("page.js"):
            self._answer(self.server.script, "text/javascript")
            return
        links = "".join(
            f'<a href="/{random.randrange(10**6)}" style="left: {random.randrange(40, 860)}px; '
            f'top: {20 + 56 * n}px">Link {n}</a>'
            for n in range(10)
        )
        self._answer(_PAGE.format(links=links).encode(), "text/html")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        report = read_report(dict(parse_qsl(body)))
        if report is not None:
            self.server.reports.append(report)
        self._answer(b"", "text/plain")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@contextmanager
def _window(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    try:
        yield context.new_page()
    finally:
        context.close()


def _with_playwright(browser: Browser, server: Recorder, *, steps: int) -> dict[str, int]:
    chance = random.Random(time.time())
    with _window(browser) as page:
        page.goto(server.url)
        for _ in range(CLICKS):
            link = page.locator("a").nth(chance.randrange(10))
            if steps:
                box = link.bounding_box()
                assert box is not None
                page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=steps)
            link.click(force=True)
            page.wait_for_load_state()
            page.wait_for_timeout(120)
        page.goto("about:blank")
    return server.take()


def _replayed(browser: Browser, server: Recorder, drawings: Sequence[Session]) -> dict[str, int]:
    """Move the pointer of a browser as a person did, at the same times."""
    with _window(browser) as page:
        page.goto(server.url)
        protocol = page.context.new_cdp_session(page)
        for drawing in drawings:
            started, first = time.monotonic(), drawing.moves[0][0]
            left = min(x for _, x, _ in drawing.moves)
            top = min(y for _, _, y in drawing.moves)
            for at, x, y in drawing.moves:
                time.sleep(max(0.0, (at - first) / 1000 - (time.monotonic() - started)))
                protocol.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x - left, "y": y - top})
            page.wait_for_timeout(700)
        page.goto("about:blank")
    return server.take()


def _by_program(server: Recorder, command: Sequence[str], **variables: str) -> dict[str, int]:
    environment = {**os.environ, **variables, "CLICKS": str(CLICKS), "STEPS": str(_STEPS), "SITE": server.url}
    subprocess.run(command, env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL)
    return server.take()


def _drivers(browser: Browser, server: Recorder) -> Iterator[tuple[str, Callable[[], dict[str, int]]]]:
    yield "Playwright, click", partial(_with_playwright, browser, server, steps=0)
    yield "Playwright, `mouse.move` in steps", partial(_with_playwright, browser, server, steps=_STEPS)
    node = shutil.which("node")
    if node and os.environ.get("NODE_PATH"):
        script = str(_WALKERS / "pointer_puppeteer.cjs")
        for name, how in (
            ("Puppeteer, click", "click"),
            ("Puppeteer, `mouse.move` in steps", "steps"),
            ("Puppeteer, ghost-cursor", "ghost"),
        ):
            yield name, partial(_by_program, server, [node, script], HOW=how)
    python = os.environ.get("PYTHON_OF_DRIVER")
    if python:
        script = str(_WALKERS / "pointer_undetected.py")
        for name, how in (
            ("undetected-chromedriver, click", "click"),
            ("undetected-chromedriver, `ActionChains`", "chains"),
        ):
            yield name, partial(_by_program, server, [python, script], HOW=how)


def _people(browser: Browser, server: Recorder) -> Iterator[tuple[str, Callable[[], dict[str, int]]]]:
    circles = pointer_data.circles() if pointer_data.is_available() else []
    for group in ("human_pc1", "human_pc2"):
        own = [session for session in circles if session.group == group]
        parts = iter([own[start : start + _DRAWINGS] for start in range(0, SESSIONS * _DRAWINGS, _DRAWINGS)])
        if own:
            name = f"people's circles, replayed ({group.removeprefix('human_')})"
            yield name, lambda parts=parts: _replayed(browser, server, next(parts))


def main() -> None:
    found: dict[str, list[dict[str, int]]] = json.loads(DRIVERS.read_text()) if "--more" in sys.argv else {}
    with recorder() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for name, drive in (*_people(browser, server), *_drivers(browser, server)):
            if name not in found:
                found[name] = [drive() for _ in range(SESSIONS)]
                print(name, found[name][0], file=sys.stderr, flush=True)
                DRIVERS.write_text(json.dumps(found, indent=1) + "\n")
        browser.close()


if __name__ == "__main__":
    main()

"""
`hedgerow demo`: every crawler, first without Hedgerow and then with it, and a person who must not be disturbed.

Everything is a process on 127.0.0.0/8, with a folder that is removed in the end. The pages that a crawler got are
counted in the site's own log, by the crawler's address, directly or through Hedgerow. That measure is the same for all
crawlers, and it can be watched while they run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hedgerow.errors import HedgerowError
from hedgerow.lab.demo.crawlers import DemoCrawler, installed_crawlers
from hedgerow.lab.demo.person import Person
from hedgerow.lab.demo.processes import HOST, Processes, is_listening, wait_for
from hedgerow.lab.demo.site import DemoSite, PageCounts, start_site
from hedgerow.settings.tables import MarkerSettings

_PERSON = "127.0.0.2"
_FIRST_ADDRESS = 11
_MAX_PAGES = 1500
_MAX_SECONDS = 25.0
_LEDGER_WAIT = 3.0
_TICK = 0.1
_WIDTH = 110
_PREFIX = MarkerSettings().prefix


def run(*, seconds: float | None) -> None:
    """Run the demo, then wait for *seconds* or for Ctrl-C. Nothing is left behind, whatever happens."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hedgerow-demo-")))
            # Runs first when the stack unwinds: a second Ctrl-C must not stop the cleanup.
            stack.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
            _show(console, folder, stack, seconds)
    except KeyboardInterrupt:
        console.print("\nStopped.")
    except OSError as error:
        raise HedgerowError(f"the demo cannot continue: {error}") from None


def _show(console: Console, folder: Path, stack: contextlib.ExitStack, seconds: float | None) -> None:
    _check_addresses()
    processes = Processes(folder)
    stack.callback(processes.stop)
    site = start_site(folder, processes)
    hedgerow = _start_hedgerow(folder, processes, site.url)
    console.print(f"[bold]{site.title}[/bold], {len(site.pages):,} pages, served by {site.server}\n")
    urls = Table.grid(padding=(0, 3))
    urls.add_row("  without protection", site.url + "/")
    urls.add_row("  behind Hedgerow", hedgerow.url + "/")
    urls.add_row("  Hedgerow's dashboard", hedgerow.admin + "/")
    console.print(urls)
    console.print()
    person = Person(hedgerow.url, _PERSON)
    stack.callback(person.stop)
    contest = _Contest(site, hedgerow, processes, person)
    with Live(console=console, get_renderable=contest.render, refresh_per_second=8):
        contest.run()
        person.stop()
        contest.status = ""
    if not console.is_terminal:
        console.print()
    for line in person.disturbed[:5]:
        console.print(f"  disturbed: {line}", markup=False)
    console.print(f"\nOpen {hedgerow.url}/ and {hedgerow.admin}/ in your browser; Ctrl-C stops.")
    if seconds is None:
        threading.Event().wait()
    else:
        time.sleep(seconds)


def _check_addresses() -> None:
    """Check that every client can have its own address: only Linux provides all of 127.0.0.0/8."""
    with socket.socket() as probe:
        try:
            probe.bind((_PERSON, 0))
        except OSError:
            raise HedgerowError(f"the demo needs addresses such as {_PERSON}; run it on Linux") from None


class _Hedgerow(NamedTuple):
    url: str
    admin: str
    ledger: Path

    def visits(self, address: str) -> list[tuple[str, str, str, str]]:
        """Return action, evidence, target and marked target of all visits so far; they are written twice a second."""
        with contextlib.closing(sqlite3.connect(f"{self.ledger.as_uri()}?mode=ro", uri=True)) as ledger:
            columns = "SELECT action, evidence, target, asked FROM visits"
            return ledger.execute(f"{columns} WHERE address = ? ORDER BY at, id", (address,)).fetchall()

    def stop_of(self, address: str) -> tuple[int, str] | None:
        """Return after how many requests the visitor at *address* was stopped, and why."""
        for number, (action, evidence, *_) in enumerate(self.visits(address)):
            if action != "pass":
                return number, " ".join(one["text"] for one in json.loads(evidence))
        return None

    def obeyed_robots(self, address: str) -> bool:
        targets = [asked or target for *_, target, asked in self.visits(address)]
        return "/robots.txt" in targets and not any(target.startswith(_PREFIX) for target in targets)


def _start_hedgerow(folder: Path, processes: Processes, upstream: str) -> _Hedgerow:
    command = [sys.executable, "-m", "hedgerow", "protect", upstream, "--listen", f"{HOST}:0", "--admin", f"{HOST}:0"]
    process = processes.start(command, log="hedgerow.log")
    log = folder / "hedgerow.log"

    def urls() -> list[str]:
        return re.findall(r" at (http://\S+?)[,\s]", log.read_text("utf-8", "replace"))

    def is_ready() -> bool:
        return len(urls()) == 2 and is_listening(urlsplit(urls()[0]).port or 0)  # noqa: PLR2004

    wait_for("Hedgerow", is_ready, process, log)
    url, admin = urls()
    return _Hedgerow(url, admin, folder / "state" / "ledger.sqlite")


class _Contest:
    """Runs every crawler, first without Hedgerow and then with it, and renders the results so far."""

    def __init__(self, site: DemoSite, hedgerow: _Hedgerow, processes: Processes, person: Person) -> None:
        self._site = site
        self._hedgerow = hedgerow
        self._processes = processes
        self._person = person
        self._counts = PageCounts(site)
        self._crawlers = list(installed_crawlers())
        self._addresses = (f"127.0.0.{n}" for n in itertools.count(_FIRST_ADDRESS))
        self._spinner = Spinner("dots")
        self.status = "starting"

    def run(self) -> None:
        for crawler in self._crawlers:
            self.status = f"{crawler.name}, without Hedgerow"
            for address in self._crawl(crawler, self._site.url):
                crawler.unprotected = self._count(address)
            self.status = f"{crawler.name}, with Hedgerow"
            address = ""
            for address in self._crawl(crawler, self._hedgerow.url):
                crawler.protected = self._count(address)
            self._explain(crawler, address)

    def _count(self, address: str) -> str:
        self._counts.update()
        pages = len(self._counts.pages[address])
        return f"{pages:,}" if pages < _MAX_PAGES else f"{pages:,}+"

    def _crawl(self, crawler: DemoCrawler, url: str) -> Iterator[str]:
        """Run a crawler within limits. Yields its address repeatedly, and once more at its end."""
        address = next(self._addresses)
        with tempfile.TemporaryDirectory(prefix="hedgerow-demo-crawl-") as folder, contextlib.ExitStack() as stack:
            if crawler.needs_relay:
                relay, url = self._start_relay(url, address, Path(folder) / "relay")
                stack.callback(self._processes.end, relay)
            process = self._processes.start(crawler.command(url, address, Path(folder)), log="crawlers.log")
            stack.callback(self._processes.end, process, grace_period=1.0)
            end = time.monotonic() + _MAX_SECONDS
            while process.poll() is None and time.monotonic() < end:
                yield address
                if len(self._counts.pages[address]) >= _MAX_PAGES:
                    break
                time.sleep(_TICK)
        yield address

    def _start_relay(self, url: str, address: str, log: Path) -> tuple[subprocess.Popen[bytes], str]:
        command = [sys.executable, "-m", "hedgerow.lab.demo.relay", str(urlsplit(url).port), address]
        relay = self._processes.start(command, log=str(log))
        wait_for("the relay", lambda: log.read_text().endswith("\n"), relay, log)
        return relay, f"http://{HOST}:{log.read_text().strip()}"

    def _explain(self, crawler: DemoCrawler, address: str) -> None:
        end = time.monotonic() + _LEDGER_WAIT
        stop = self._hedgerow.stop_of(address)
        while stop is None and time.monotonic() < end:
            time.sleep(_TICK)
            stop = self._hedgerow.stop_of(address)
        if stop is not None:
            crawler.after, crawler.reason = f"{stop[0]:,}", stop[1]
        elif self._hedgerow.obeyed_robots(address):
            crawler.after, crawler.reason = "-", "Was not stopped: it obeys robots.txt, which disallows marked links."
        else:
            crawler.after, crawler.reason = "-", "Was not stopped."

    def render(self) -> RenderableType:
        table = Table(caption=f"The site has {len(self._site.pages):,} pages.", caption_justify="left")
        table.add_column("crawler")
        table.add_column("pages\nwithout\nHedgerow", justify="right")
        table.add_column("pages\nwith\nHedgerow", justify="right", style="bold green")
        table.add_column("stopped\nafter\nrequests", justify="right")
        table.add_column("why", overflow="fold")
        for crawler in self._crawlers:
            table.add_row(crawler.name, crawler.unprotected, crawler.protected, crawler.after, Text(crawler.reason))
        disturbed = len(self._person.disturbed)
        person = Text(f"\nA person who reads all the time: {self._person.requests:,} requests, disturbed: {disturbed}")
        person.stylize("bold red" if disturbed else "bold green", len(person) - len(str(disturbed)))
        if not self.status:
            return Group(table, person)
        self._spinner.update(text=self.status)
        return Group(table, person, self._spinner)

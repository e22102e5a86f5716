"""
`hedgerow demo`: a real site, Hedgerow in front of it, crawlers against both, and a person who reads all along.

Everything is a process of its own on 127.0.0.0/8, with a folder that is gone in the end. What a crawler got is told by
the site's own log: the pages that it gave to the crawler's address, directly or through Hedgerow. That is one
measure for all crawlers, and it can be watched while they run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from hedgerow.errors import HedgerowError
from hedgerow.lab.demo.documents import find_documents
from hedgerow.lab.demo.person import Person
from hedgerow.settings.marker import MarkerSettings

_HOST = "127.0.0.1"
_PERSON = "127.0.0.2"
_FIRST_ADDRESS = 11
_MOST_PAGES = 1500
_MOST_SECONDS = 25.0
_PATIENCE = 20.0
_GRACE = 10.0
_TICK = 0.1
_NARROWEST_FILE = 110
_PREFIX = MarkerSettings().prefix


def run(*, seconds: float | None) -> None:
    """Show it, then wait for *seconds* or for Ctrl-C. Whatever happens, nothing is left behind."""
    console = Console(width=None if sys.stdout.isatty() else _NARROWEST_FILE, highlight=False)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hedgerow-demo-")))
            stack.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
            _show(console, folder, stack, seconds)
            # From here on a second Ctrl-C must not stop the cleaning.
    except KeyboardInterrupt:
        console.print("\nStopped.")
    except OSError as error:
        raise HedgerowError(f"the demo cannot go on: {error}") from None


def _show(console: Console, folder: Path, stack: contextlib.ExitStack, seconds: float | None) -> None:
    _check_addresses()
    processes = _Processes(folder)
    stack.callback(processes.stop)
    site = _start_site(folder, processes)
    hedgerow = _start_hedgerow(folder, processes, site.url)
    console.print(f"[bold]{site.title}[/bold], {len(site.pages):,} pages, served by {site.server}\n")
    places = Table.grid(padding=(0, 3))
    places.add_row("  without protection", site.url + "/")
    places.add_row("  behind Hedgerow", hedgerow.url + "/")
    places.add_row("  Hedgerow's overview", hedgerow.admin + "/")
    console.print(places)
    console.print()
    person = Person(hedgerow.url, _PERSON)
    stack.callback(person.stop)
    contest = _Contest(site, hedgerow, processes, person)
    with Live(console=console, get_renderable=contest.picture, refresh_per_second=8):
        contest.run()
        person.stop()
        contest.now = ""
    if not console.is_terminal:
        console.print()
    for what in person.disturbed[:5]:
        console.print(f"  disturbed: {what}", markup=False)
    console.print(f"\nOpen {hedgerow.url}/ and {hedgerow.admin}/ in your browser; Ctrl-C stops.")
    if seconds is None:
        threading.Event().wait()
    else:
        time.sleep(seconds)


def _check_addresses() -> None:
    """Every client has an address of its own: on Linux all of 127.0.0.0/8 is there, elsewhere it is not."""
    with socket.socket() as probe:
        try:
            probe.bind((_PERSON, 0))
        except OSError:
            raise HedgerowError(f"the demo needs addresses such as {_PERSON}; run it on Linux") from None


class _Processes:
    """The processes that were started, to be stopped by their ids."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        # What could lead a crawler elsewhere or change Hedgerow's settings stays outside.
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HEDGEROW__") and not name.lower().endswith("_proxy")
        } | {"HOME": str(folder), "HEDGEROW__DIRECTORY": str(folder / "state")}

    def start(self, command: Sequence[str], *, log: str) -> subprocess.Popen[bytes]:
        # In a session of its own, so that Ctrl-C reaches us alone and things end in their order.
        with (self._folder / log).open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - our own commands
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], *, grace: float = _GRACE) -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(grace)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.remove(process)

    def stop(self) -> None:
        """End all, the newest first."""
        for process in reversed(self._running.copy()):
            self.end(process)


def _wait_for(what: str, there: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while not there():
        if process.poll() is not None or time.monotonic() > end:
            last = log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
            raise HedgerowError(f"{what} does not start: {last or 'it says nothing'}")
        time.sleep(_TICK / 5)


# The site


class _Site(NamedTuple):
    """The site without protection. *pages* are the paths of its pages."""

    title: str
    server: str
    url: str
    pages: frozenset[str]
    log: Path


def _start_site(folder: Path, processes: _Processes) -> _Site:
    title, root = find_documents(folder / "site")
    pages = frozenset(str(path.relative_to(root)) for path in root.rglob("*.html"))
    log = folder / "access.log"
    log.touch()
    port = _free_port()
    nginx = _find_program("nginx")
    if nginx is not None:
        (folder / "nginx.conf").write_text(_nginx_settings(folder, root, port, log))
        command = [nginx, "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "server.log")]
    else:
        command = [sys.executable, "-m", "hedgerow.lab.demo.server", str(port), str(root), str(log)]
    process = processes.start(command, log="server.log")
    _wait_for("the site", lambda: _answers(port), process, folder / "server.log")
    server = "nginx" if nginx is not None else "Python"
    return _Site(title, server, f"http://{_HOST}:{port}", pages, log)


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
server {{ listen {_HOST}:{port}; root {root}; }}
}}
"""


def _find_program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


class _Tally:
    """The site's log: how many pages each address was given. Read as it grows."""

    def __init__(self, site: _Site) -> None:
        self._site = site
        self._read = 0
        self._rest = b""
        self.pages: defaultdict[str, set[str]] = defaultdict(set)

    def update(self) -> None:
        with self._site.log.open("rb") as log:
            log.seek(self._read)
            data = log.read()
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            who, status, target = line.decode("utf-8", "replace").split("\t", 2)
            path = target.partition("?")[0].removeprefix("/")
            page = path + "index.html" if not path or path.endswith("/") else path
            if status in {"200", "206"} and page in self._site.pages:
                self.pages[who].add(page)


# Hedgerow


class _Stop(NamedTuple):
    """When a visitor was stopped: after how many requests, and why."""

    after: int
    why: str


class _Hedgerow(NamedTuple):
    url: str
    admin: str
    ledger: Path

    def stop_of(self, address: str) -> _Stop | None:
        """The ledger's word; it is written every half a second."""
        with contextlib.closing(sqlite3.connect(f"{self.ledger.as_uri()}?mode=ro", uri=True)) as ledger:
            rows = ledger.execute("SELECT action, evidence FROM visits WHERE address = ? ORDER BY at, id", (address,))
            for number, (action, evidence) in enumerate(rows):
                if action != "pass":
                    return _Stop(number, " ".join(found["text"] for found in json.loads(evidence)))
        return None

    def kept_to_robots(self, address: str) -> bool:
        """Whether a visitor has read robots.txt, and then asked for none of the links that it disallows."""
        with contextlib.closing(sqlite3.connect(f"{self.ledger.as_uri()}?mode=ro", uri=True)) as ledger:
            rows = ledger.execute("SELECT target, asked FROM visits WHERE address = ?", (address,)).fetchall()
        read = any(target == "/robots.txt" for target, _ in rows)
        return read and not any((asked or target).startswith(_PREFIX) for target, asked in rows)


def _start_hedgerow(folder: Path, processes: _Processes, upstream: str) -> _Hedgerow:
    """As anybody would start it, with its default settings, on ports that are free."""
    command = [sys.executable, "-m", "hedgerow", "protect", upstream, "--listen", f"{_HOST}:0", "--admin", f"{_HOST}:0"]
    process = processes.start(command, log="hedgerow.log")
    log = folder / "hedgerow.log"

    def urls() -> list[str]:
        return re.findall(r" at (http://\S+?)[,\s]", log.read_text("utf-8", "replace"))

    enough = 2
    _wait_for("Hedgerow", lambda: len(urls()) == enough and _answers(urlsplit(urls()[0]).port or 0), process, log)
    url, admin = urls()
    return _Hedgerow(url, admin, folder / "state" / "ledger.sqlite")


# Who visits


_Command = Callable[[str, str, Path], list[str]]
"""The command of a crawler, from the site's address, its own address and a folder for what it keeps."""


@dataclass
class _Crawler:
    """A crawler and what became of it. One that *needs_hop* cannot choose its own address."""

    name: str
    command: _Command
    needs_hop: bool = False
    without: str = ""
    within: str = ""
    after: str = ""
    why: str = ""


def _crawlers() -> Iterator[_Crawler]:
    """Those that are installed, and one that always is."""
    yield _Crawler("small Python crawler", _python)
    if wget := _find_program("wget"):
        yield _Crawler("wget", _wget(wget, "-e", "robots=off"))
        yield _Crawler("wget with robots.txt", _wget(wget))
    if httrack := _find_program("httrack"):
        yield _Crawler("httrack", _httrack(httrack), needs_hop=True)
    if importlib.util.find_spec("scrapy"):
        yield _Crawler("scrapy, 32 at once", _scrapy)


def _python(url: str, address: str, _: Path) -> list[str]:
    return [sys.executable, "-m", "hedgerow.lab.demo.crawler", url + "/", address]


def _wget(program: str, *options: str) -> _Command:
    fixed = [program, "-q", "-r", "-l", "inf", "--no-config", "--tries=1", "--timeout=10", *options]
    return lambda url, address, kept: [*fixed, f"--bind-address={address}", "-P", str(kept), url + "/"]


def _httrack(program: str) -> _Command:
    options = ["-q", "-s0", "--disable-security-limits", "--max-rate", "0", "-c16", "-%c0", "-B", "-R0", "-T10"]
    return lambda url, _, kept: [program, url + "/", "-O", str(kept), *options, "-*", f"+{url}/*"]


def _scrapy(url: str, address: str, _: Path) -> list[str]:
    spider = str(files("hedgerow.lab.demo").joinpath("spider.py"))
    command = [sys.executable, "-m", "scrapy", "runspider", spider, "-a", f"start={url}/"]
    for setting in (
        "CONCURRENT_REQUESTS=32",
        "CONCURRENT_REQUESTS_PER_DOMAIN=32",
        "ROBOTSTXT_OBEY=False",
        "TELNETCONSOLE_ENABLED=False",
        "DOWNLOAD_TIMEOUT=10",
        f"DOWNLOAD_BIND_ADDRESS={address}",
    ):
        command += ["-s", setting]
    return command


class _Contest:
    """Every crawler, first without Hedgerow and then with it; and how that looks while it goes on."""

    def __init__(self, site: _Site, hedgerow: _Hedgerow, processes: _Processes, person: Person) -> None:
        self._site = site
        self._hedgerow = hedgerow
        self._processes = processes
        self._person = person
        self._tally = _Tally(site)
        self._crawlers = list(_crawlers())
        self._addresses = (f"127.0.0.{n}" for n in itertools.count(_FIRST_ADDRESS))
        self._spinner = Spinner("dots")
        self.now = "starting"

    def run(self) -> None:
        for crawler in self._crawlers:
            self.now = f"{crawler.name}, without Hedgerow"
            for address in self._crawl(crawler, self._site.url):
                crawler.without = self._count(address)
            self.now = f"{crawler.name}, with Hedgerow"
            address = ""
            for address in self._crawl(crawler, self._hedgerow.url):
                crawler.within = self._count(address)
            self._explain(crawler, address)

    def _count(self, address: str) -> str:
        self._tally.update()
        pages = len(self._tally.pages[address])
        return f"{pages:,}" if pages < _MOST_PAGES else f"{pages:,}+"

    def _crawl(self, crawler: _Crawler, url: str) -> Iterator[str]:
        """Let it crawl, within bounds; yields its address every so often, and once more at its end."""
        address = next(self._addresses)
        hop = None
        with tempfile.TemporaryDirectory(prefix="hedgerow-demo-crawl-") as kept:
            try:
                if crawler.needs_hop:
                    hop, url = self._start_hop(url, address, Path(kept) / "hop")
                process = self._processes.start(crawler.command(url, address, Path(kept)), log="crawlers.log")
                try:
                    end = time.monotonic() + _MOST_SECONDS
                    while process.poll() is None and time.monotonic() < end:
                        yield address
                        if len(self._tally.pages[address]) >= _MOST_PAGES:
                            break
                        time.sleep(_TICK)
                finally:
                    self._processes.end(process, grace=1.0)
            finally:
                if hop is not None:
                    self._processes.end(hop)
        yield address

    def _start_hop(self, url: str, address: str, log: Path) -> tuple[subprocess.Popen[bytes], str]:
        command = [sys.executable, "-m", "hedgerow.lab.demo.relay", str(urlsplit(url).port), address]
        hop = self._processes.start(command, log=str(log))
        _wait_for("the hop", lambda: log.read_text().endswith("\n"), hop, log)
        return hop, f"http://{_HOST}:{log.read_text().strip()}"

    def _explain(self, crawler: _Crawler, address: str) -> None:
        end = time.monotonic() + 3.0
        stop = self._hedgerow.stop_of(address)
        while stop is None and time.monotonic() < end:
            time.sleep(_TICK)
            stop = self._hedgerow.stop_of(address)
        if stop is not None:
            crawler.after, crawler.why = f"{stop.after:,}", stop.why
        elif self._hedgerow.kept_to_robots(address):
            crawler.after, crawler.why = "-", "Was not stopped: it keeps to robots.txt, which disallows marked links."
        else:
            crawler.after, crawler.why = "-", "Was not stopped."

    def picture(self) -> RenderableType:
        table = Table(caption=f"The site has {len(self._site.pages):,} pages.", caption_justify="left")
        table.add_column("crawler")
        table.add_column("pages\nwithout\nHedgerow", justify="right")
        table.add_column("pages\nwith\nHedgerow", justify="right", style="bold green")
        table.add_column("stopped\nafter\nrequests", justify="right")
        table.add_column("why", overflow="fold")
        for crawler in self._crawlers:
            table.add_row(crawler.name, crawler.without, crawler.within, crawler.after, Text(crawler.why))
        disturbed = len(self._person.disturbed)
        person = Text(f"\nA person who reads all along: {self._person.requests:,} requests, disturbed: {disturbed}")
        person.stylize("bold red" if disturbed else "bold green", len(person) - len(str(disturbed)))
        if not self.now:
            return Group(table, person)
        self._spinner.update(text=self.now)
        return Group(table, person, self._spinner)

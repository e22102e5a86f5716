"""
Records real crawlers: `python -m evaluate.live`, 20 to 25 minutes, into evaluate/live.json.xz.

nginx serves two sites of static pages (Debian's postgresql-doc-15 and qtbase5-doc-html), each behind `hedgerow
protect`. It only observes and sets no traps, so links are marked and nobody is stopped. PathMarker's six training
crawlers (`hedgerow crawl`) and other real crawlers run against them, each from its own address and from several start
pages. The recording has, from the ledger, time, page, parent and side requests of each visit, and the window features
whenever the watch would use them. `make evaluate` classifies the recording. With names of crawlers as arguments, only
these are recorded again.

Missing programs are skipped with a message: apt-get install wget wget2 httrack puf linkchecker chromium; `pip install
'crawlee[beautifulsoup]' wapiti3` into another environment, which HEDGEROW_CRAWLERS names.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from hedgerow.lab.train.samples import Stride, Walk
from hedgerow.logs.reader import LogReader
from hedgerow.watch.sessions.path import step_of
from hedgerow.watch.sessions.window import SessionWindow, access_of

HERE = Path(__file__).parent
RECORDED = HERE / "live.json.xz"
FIRST = HERE / "live-first.json.xz"
"""An earlier recording with other start pages, which was used to judge earlier models."""
SITES = {
    "PostgreSQL manual": (Path("/usr/share/doc/postgresql-doc-15/html"), "index.html"),
    "Qt manuals": (Path("/usr/share/qt5/doc"), "qtcore/qtcore-index.html"),
}
PAGES = 180
"""Maximum number of recorded pages of a run: three long sessions."""
SLOW_PAGES = 121
RUNS = 3
TIMEOUT = 30.0
WALKERS = HERE / "walkers"
OBSERVING = "observe = 'links'\n[traps]\nenabled = false\n"


class Kind(NamedTuple):
    """
    A crawler: its command for a URL, and its maximum run time in seconds.

    *label* is its order if it is one of the six, otherwise "crawler". All *slow* crawlers run concurrently.
    """

    name: str
    label: str
    command: Callable[[str, Path, int], list[str]]
    seconds: float
    slow: bool = False


def program(name: str) -> str:
    """Return the path of a program, or its name if it is not found."""
    folders = [os.environ.get("HEDGEROW_CRAWLERS", ""), str(Path(sys.executable).parent), os.environ["PATH"]]
    return shutil.which(name, path=os.pathsep.join([*folders, "/usr/sbin"])) or name


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, str(WALKERS / script), *arguments]


def training(order: str, delay: str, pages: int) -> Callable[[str, Path, int], list[str]]:
    options = ["--order", order, "--delay", delay, "--pages", str(pages)]
    return lambda url, _, seed: [program("hedgerow"), "crawl", url, *options, "--seed", str(seed)]


def scrapy(**chosen: object) -> Callable[[str, Path, int], list[str]]:
    chosen = {"ROBOTSTXT_OBEY": False, "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING", **chosen}
    more = [part for name, value in chosen.items() for part in ("-s", f"{name}={value}")]
    return lambda url, _, __: [
        sys.executable, "-m", "scrapy", "runspider", str(WALKERS / "spider.py"), "-a", f"start={url}", *more
    ]  # fmt: skip


def wget(name: str, *more: str) -> Callable[[str, Path, int], list[str]]:
    return lambda url, _, __: [
        program(name), "-q", "-r", "-l", "inf", "-e", "robots=off", "--tries=1", "--timeout=10", *more, url
    ]  # fmt: skip


BREADTH = {
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}
KINDS = {"depth": "depth-first", "breadth": "width-first", "random": "random-like"}
TRAINING_CRAWLERS = [
    Kind(f"{order}{'-delay' if slow else ''}", label, training(order, delay, pages), seconds, slow)
    for order, label in KINDS.items()
    for slow, delay, pages, seconds in ((False, "0", PAGES, 150.0), (True, "normal(8,1)", SLOW_PAGES, 1400.0))
]
OTHER_CRAWLERS = [
    Kind("wget", "crawler", wget("wget"), 20),
    Kind("wget, 1 to 3 s", "crawler", wget("wget", "-w", "2", "--random-wait"), 600, slow=True),
    Kind("wget2, 5 threads", "crawler", wget("wget2"), 20),
    Kind(
        "httrack",
        "crawler",
        lambda url, folder, _: [
            program("httrack"),
            url,
            "-O",
            str(folder),
            "-q",
            "-s0",
            "--disable-security-limits",
            "--max-rate",
            "0",
            "-c8",
            "-%c0",
            "-B",
            "-T10",
            "-R0",
            "-*",
            f"+{origin(url)}/*",
        ],
        25,
    ),
    Kind("puf", "crawler", lambda url, _, __: [program("puf"), "-r+", "-lc", "8", url], 20),
    Kind(
        "linkchecker",
        "crawler",
        lambda url, _, __: [program("linkchecker"), "--no-robots", "--no-warnings", "-o", "none", origin(url) + "/"],
        150,
    ),
    Kind(
        "wapiti",
        "crawler",
        lambda url, folder, _: [
            program("wapiti"),
            "-u",
            url,
            "--scope",
            "domain",
            "-m",
            "",
            "--flush-session",
            "--max-scan-time",
            "110",
            "--no-bugreport",
            "-o",
            str(folder / "report"),
            "--store-session",
            str(folder),
        ],
        120,
    ),
    Kind(
        "crawlee", "crawler", lambda url, _, __: [program("crawlee-python"), str(WALKERS / "soup.py"), url, "300"], 120
    ),
    Kind("scrapy, 16 at once", "crawler", scrapy(CLOSESPIDER_PAGECOUNT=400), 90),
    Kind("scrapy, breadth, 1 to 3 s", "crawler", scrapy(DOWNLOAD_DELAY=2, CONCURRENT_REQUESTS=1, **BREADTH), 600, True),
    Kind("scrapy, AutoThrottle", "crawler", scrapy(AUTOTHROTTLE_ENABLED=True, CLOSESPIDER_PAGECOUNT=400), 240, True),
    Kind("script, random, no referrer", "crawler", lambda url, _, __: python("plain.py", url, str(PAGES)), 40),
    Kind("chromium, breadth", "crawler", lambda url, _, __: python("browser.py", url, "121", "breadth", "0", "0"), 150),
    Kind(
        "chromium, random, 1 to 7 s",
        "crawler",
        lambda url, _, __: python("browser.py", url, "121", "random", "1", "7"),
        900,
        slow=True,
    ),
]


def origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(folder: Path) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HEDGEROW__") and not name.lower().endswith("_proxy")
    }
    return {**inherited, "HEDGEROW__DIRECTORY": str(folder / "state"), "HOME": str(folder)}


@contextmanager
def running(command: list[str], folder: Path, log: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / log).open("ab") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(folder),
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                continue


def wait_for_log(folder: Path, log: str, pattern: str) -> str:
    """Return the first group of *pattern* once it is in a log."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if match := re.search(pattern, (folder / log).read_text("utf-8", "replace")):
            return match[1]
        time.sleep(0.05)
    raise RuntimeError(f"{log}: {(folder / log).read_text('utf-8', 'replace')[-2000:]}")


@contextmanager
def protected(root: Path, home: str, folder: Path, settings: str = OBSERVING) -> Iterator[int]:
    """Run a site behind Hedgerow with these *settings*, and yield its port."""
    folder.mkdir()
    port = free_port()
    temporary = "".join(f"{n}_temp_path {folder}/{n};" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''} daemon off; worker_processes 1; pid {folder}/nginx.pid; "
        f"events {{ worker_connections 1024; }} http {{ include /etc/nginx/mime.types; {temporary} access_log off; "
        f"server {{ listen 127.0.0.1:{port}; root {root}; index index.html; "
        f"location = / {{ rewrite ^ /{home} last; }} location ~ ^/[^/]+$ {{ root {(root / home).parent}; }} }} }}\n"
    )
    (folder / "hedgerow.toml").write_text(settings)
    gate = [program("hedgerow"), "protect", f"http://127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--config"]
    with (
        running([program("nginx"), "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"], folder, "nginx.log"),
        running([*gate, "hedgerow.toml"], folder, "protect.log"),
    ):
        yield int(wait_for_log(folder, "protect.log", r"protecting .* at http://127\.0\.0\.1:(\d+)"))


class Run(NamedTuple):
    kind: Kind
    site: str
    address: str
    start: str


def runs_of(site: str, number: int, kinds: list[Kind]) -> Iterator[Run]:
    """Yield RUNS runs of each crawler: one from the home page, the others from random pages."""
    root, home = SITES[site]
    rng = Random(f"second {site}")
    pages = sorted(str(path.relative_to(root)) for path in root.rglob("*.html") if path.stat().st_size > 4000)
    for kind_number, kind in enumerate(TRAINING_CRAWLERS + OTHER_CRAWLERS):
        for run_number in range(RUNS):
            run = Run(
                kind,
                site,
                f"127.{10 + number}.{1 + kind_number}.{1 + run_number}",
                rng.choice(pages) if run_number else home,
            )
            if kind in kinds:
                yield run


def pages_of(address: str, ledger: Path) -> int:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*) FROM visits WHERE address = ? AND kind = 'page'"
        return int(connection.execute(query, (address,)).fetchone()[0])


def record_run(run: Run, port: int, folder: Path, ledger: Path) -> None:
    """Run a crawler until it ends, has enough pages, or its time is up."""
    folder.mkdir()
    relay = [sys.executable, "-m", "hedgerow.lab.demo.relay", str(port), run.address]
    with running(relay, folder, "relay.log"):
        relay_port = wait_for_log(folder, "relay.log", r"^(\d+)\n")
        command = run.kind.command(
            f"http://127.0.0.1:{relay_port}/{run.start}", folder, int(run.address.rpartition(".")[2])
        )
        with running(command, folder, "crawler.log") as process:
            end = time.monotonic() + run.kind.seconds
            while process.poll() is None and time.monotonic() < end and pages_of(run.address, ledger) < PAGES:
                time.sleep(2)


def recorded(run: Run, ledger: Path) -> dict[str, Any] | None:
    """Return the recording of a run from the ledger."""
    numbers: dict[bytes, int] = {}
    names: dict[int, str] = {}
    strides: list[list[float | int | None]] = []
    window, windows = SessionWindow(), []
    agents: dict[str, None] = {}
    started = 0.0
    for visit in LogReader([str(ledger)]):
        if visit.address != run.address or len(strides) >= PAGES:
            continue
        agents[visit.user_agent] = None
        step = step_of(visit)
        if step is None:
            if strides:
                strides[-1][3] += 1
            continue
        started = started or step.at
        page = numbers.setdefault(step.page, len(numbers))
        names[page] = visit.target
        parent = None if step.parent is None else numbers.setdefault(step.parent, len(numbers))
        strides.append([round(step.at - started, 4), page, parent, 0])
        window.add(access_of(visit, step))
        if window.is_due:
            window.fresh = 0
            windows.append([len(strides), [round(feature, 6) for feature in window.features()]])
    if not strides:
        return None
    return {
        "crawler": run.kind.name,
        "label": run.kind.label,
        "site": run.site,
        "visitor": run.address,
        "began": round(started, 1),
        "agents": list(agents),
        "pages": [names.get(number, "") for number in range(len(numbers))],
        "strides": strides,
        "windows": windows,
    }


def record(kinds: list[Kind]) -> list[dict[str, Any]]:
    from concurrent.futures import ThreadPoolExecutor

    with tempfile.TemporaryDirectory(prefix="hedgerow-live-") as place, ExitStack() as stack:
        top = Path(place)
        slow, fast = [], []
        ledgers = {}
        for number, (site, (root, home)) in enumerate(SITES.items()):
            folder = top / f"site{number}"
            port = stack.enter_context(protected(root, home, folder))
            ledgers[site] = folder / "state" / "ledger.sqlite"
            for run in runs_of(site, number, kinds):
                (slow if run.kind.slow else fast).append((run, port, top / run.address, ledgers[site]))
        with ThreadPoolExecutor(max(len(slow), 1)) as beside, ThreadPoolExecutor(2) as pool:
            waiting = [(job, (beside if job[0].kind.slow else pool).submit(record_run, *job)) for job in slow + fast]
            for done, (job, future) in enumerate(sorted(waiting, key=lambda w: w[0][0].kind.slow), 1):
                try:
                    future.result()
                except (OSError, RuntimeError, sqlite3.Error) as error:
                    print(f"left out: {job[0].kind.name}: {error}", file=sys.stderr)
                print(f"{done} of {len(waiting)}: {job[0].kind.name}, {job[0].site}", file=sys.stderr, flush=True)
        stack.close()
        made = []
        for job, _ in waiting:
            its = recorded(job[0], ledgers[job[0].site])
            made += [its] if its else []
            log = job[2] / "crawler.log"
            said = log.read_text("utf-8", "replace")[-300:] if log.is_file() else ""
            pages = len(its["strides"]) if its else 0
            print(job[0].kind.name, job[0].site, pages, "" if pages >= 60 else said, file=sys.stderr)
        return made


def stored(place: Path = RECORDED) -> list[dict[str, Any]]:
    wait_for_log: list[dict[str, Any]] = json.loads(lzma.decompress(place.read_bytes())) if place.is_file() else []
    return wait_for_log


def save(made: list[dict[str, Any]]) -> None:
    RECORDED.write_bytes(lzma.compress(json.dumps(made, separators=(",", ":")).encode()))


def load(place: Path = RECORDED) -> dict[str, list[Walk]]:
    """The recorded runs as walks, by crawler."""
    walks = defaultdict(list)
    for its in stored(place):
        strides = tuple(Stride(*stride) for stride in its["strides"])
        name = f"{its['site']} {its['visitor']}"
        walks[its["crawler"]].append(Walk(name, its["label"], its["crawler"], its["site"], strides))
    return dict(walks)


def windows() -> dict[str, list[tuple[int, list[float]]]]:
    """By visitor: the window's features whenever the watch would ask, and after how many pages that is."""
    return {f"{its['site']} {its['visitor']}": [tuple(row) for row in its["windows"]] for its in stored()}


def names() -> dict[str, list[str]]:
    """By visitor: the targets of its pages, by their numbers."""
    return {f"{its['site']} {its['visitor']}": its["pages"] for its in stored()}


if __name__ == "__main__":
    chosen = [kind for kind in TRAINING_CRAWLERS + OTHER_CRAWLERS if not sys.argv[1:] or kind.name in sys.argv[1:]]
    others = [its for its in stored() if its["crawler"] not in {kind.name for kind in chosen}]
    save([*others, *record(chosen)])

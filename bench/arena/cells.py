"""
One cell of the arena: a crawler at a site behind a protection, while people read there.

The people send what a browser sends: pages with their assets, referrers, cookies, and the answer to the calculation of
Hedgerow's page script. How long they stay on a page is drawn from the times of Wikispeedia's players (lognormal, median
36 seconds), divided by `HASTE`, so that a short measurement has enough of their requests. That makes them look more
like crawlers than real people do.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import httpx

from bench.arena.makes import Make, Target
from bench.arena.stage import Stage, stage
from real.people import Reader
from real.servers import PATIENCE

PEOPLE = 5
HASTE = 6.0
_DWELL = (3.63, 0.69)
_LONGEST_DWELL = 15.0
_PEOPLE_NETWORK = "127.30.0."
_LEAD = 1.0
"""Seconds for which people are there before the crawler comes."""
_SHORTEST = 6.0
"""Seconds for which people read at least, also where the crawler is refused at once."""
CPU = "cpu"
"""The name of the measurement of processor time; it has no crawler."""
_CPU_ADDRESSES, _CPU_PAGES = 20, 10


@dataclass(frozen=True)
class Cell:
    """What was measured. *share* is that of the site's pages, *cpu_ms* the processor time of a request."""

    site: str
    protection: str
    crawler: str
    run: int
    pages: int = 0
    share: float = 0.0
    end: str = ""
    seconds: float = 0.0
    people: int = 0
    people_disturbed: int = 0
    people_requests: int = 0
    requests_disturbed: int = 0
    cpu_ms: float = 0.0
    day: str = ""
    limit: float = 15.0
    """Seconds that the crawler had from its first page."""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.site, self.protection, self.crawler, self.run


class ArenaReader(Reader):
    """A person who stays on pages for as long as people do, in haste, and follows only links to pages."""

    def __init__(self, on: Stage, address: str, *, seed: int) -> None:
        super().__init__(on.url, address, seed=seed)
        self._on = on

    def _dwell(self) -> float:
        return min(_LONGEST_DWELL, self._random.lognormvariate(*_DWELL) / HASTE)

    async def _page(self, client: httpx.AsyncClient, url: str, before: str) -> list[str]:
        links = await super()._page(client, url, before)
        known = set(self._on.paths)
        return [link for link in links if self._on.page_of(_plain(link.removeprefix(self._on.url))) in known]


def _plain(target: str) -> str:
    """A target without Hedgerow's mark, as the site would see it."""
    head, _, mark = target.partition("~=")
    return head.rstrip("?&") if mark else target


def addresses(on: Stage, site: str) -> tuple[str, ...]:
    """The address of every page of a stage."""
    return tuple(on.url + (f"/doku.php?id={path}" if site == "wiki" else path) for path in on.paths)


def measure(make: Make, site: str, protection: str, run: int, seconds: float) -> Cell:
    """Let *make* crawl for *seconds* at most."""
    with stage(site, protection) as on, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        crawled = partial(on.given, lambda address: not address.startswith(_PEOPLE_NETWORK))
        readers = [ArenaReader(on, f"{_PEOPLE_NETWORK}{n + 2}", seed=run * 100 + n) for n in range(PEOPLE)]
        over = threading.Event()
        people = threading.Thread(target=lambda: asyncio.run(_read(readers, over)))
        people.start()
        try:
            time.sleep(_LEAD)
            begun = time.monotonic()
            end = make.crawl(Target(on.url, addresses(on, site), Path(folder), seconds, lambda: bool(crawled())))
            took = time.monotonic() - begun
            time.sleep(max(0.0, _SHORTEST - took))
        finally:
            over.set()
            people.join()
        got = len(crawled())
        return Cell(
            site, protection, make.name, run, got, round(got / len(on.paths), 4), end, round(took, 1),
            len(readers), sum(bool(one.disturbed) for one in readers), sum(one.requests for one in readers),
            sum(len(one.disturbed) for one in readers), day=_today(), limit=seconds,
        )  # fmt: skip


async def _read(readers: Iterable[ArenaReader], over: threading.Event) -> None:
    async def one(reader: ArenaReader) -> None:
        reading = asyncio.create_task(reader.read(2, lambda: not over.is_set()))
        while not reading.done():
            await asyncio.wait([reading], timeout=0.2)
            if over.is_set() and reader.pages >= 2:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    await asyncio.gather(*(one(reader) for reader in readers))


def measure_cpu(site: str, protection: str, run: int) -> Cell:
    """Processor time of the protection for a request: 200 requests, ten from each address."""
    with stage(site, protection) as on:
        pages = addresses(on, site)
        numbers = iter(range(_CPU_ADDRESSES * _CPU_PAGES))
        before, passed = 0.0, 0
        for address in range(_CPU_ADDRESSES + 1):
            transport = httpx.HTTPTransport(local_address=f"127.41.{address}.2", trust_env=False)
            with httpx.Client(transport=transport, timeout=PATIENCE, trust_env=False) as client:
                if not address:
                    # What happens only once, such as the first page, does not count.
                    client.get(pages[0])
                    before = on.front.cpu_seconds()
                    continue
                for _ in range(_CPU_PAGES):
                    passed += client.get(pages[next(numbers) % len(pages)]).status_code == httpx.codes.OK
                    time.sleep(0.01)
        spent = on.front.cpu_seconds() - before
        return Cell(
            site,
            protection,
            CPU,
            run,
            passed,
            cpu_ms=round(1000 * spent / (_CPU_ADDRESSES * _CPU_PAGES), 3),
            day=_today(),
        )


def _today() -> str:
    return time.strftime("%Y-%m-%d")


def load(file: Path) -> list[Cell]:
    """The cells of a file, each once; a line that was cut off when the arena was stopped is left out."""
    return list({cell.key: cell for cell in _lines(file)}.values())


def _lines(file: Path) -> Iterator[Cell]:
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            yield Cell(**json.loads(line))
        except (ValueError, TypeError):
            continue


def append(file: Path, cell: Cell) -> None:
    """Add a line, behind one that may have been cut off."""
    cut_off = file.exists() and not file.read_bytes().endswith(b"\n")
    with file.open("a") as out:
        out.write("\n" * cut_off + json.dumps(asdict(cell)) + "\n")

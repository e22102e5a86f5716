"""
`python -m bench dashboard`: how long each page of the dashboard takes with a large ledger and many visitors.

Rows are generated in SQLite itself. Visits are spread over 30 days; one in ten did not pass, one in twenty is a bot's.
Then `hedgerow protect` runs with this ledger and these visitors, while programs open its pages one after the other, and
a person's page is measured with that and without, in turns. `--folder` keeps the ledger for another run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from attacks.browsers import CHROME
from hedgerow.core.decision import Block, Campaign, Evidence, VisitorScore
from hedgerow.ledger.sqlite import COLUMNS, migrate
from hedgerow.settings import read_settings
from hedgerow.sqlite_file import open_database
from hedgerow.web.admin.app import Admin
from hedgerow.web.app import Site
from real.servers import Nginx, Protect, find_program

_DAYS = 30 * 86_400
SETTINGS = "[ledger]\nkeep_days = 3650.0\n"
ROUNDS, SECONDS, EVERY = 6, 12.0, 0.02
_VISITOR = "(n * 7919 % {visitors})"
_TEXTS = {
    "visitor": "'10.' || ({0} / 65536) || '.' || ({0} / 256 % 256) || '.' || ({0} % 256)".replace("{0}", _VISITOR),
    "target": "'/page/' || (n % 50000)",
    "user_agent": "'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'",
    "action": "CASE n % 10 WHEN 0 THEN 'refuse' ELSE 'pass' END",
    "code": "CASE n % 10 WHEN 0 THEN 'trap' ELSE '' END",
    "evidence": "CASE n % 10 WHEN 0 THEN "
    """'[{"detector":"trap","code":"trap","weight":1.0,"text":"Followed a hidden link."}]' ELSE '[]' END""",
    "method": "'GET'", "host": "'shop.example'", "kind": "'page'", "origin": "'none'",
    # One visit in twenty is that of a bot, or of somebody who says so.
    "bot": "CASE n % 40 WHEN 7 THEN 'googlebot' ELSE '' END", "claim": "CASE n % 40 WHEN 27 THEN 'bingbot' ELSE '' END",
    "proof": "CASE n % 40 WHEN 27 THEN 'false' ELSE '' END",
    "ref": "CASE n % 10 WHEN 0 THEN printf('%04X-%04X', n / 65536 % 65536, n % 65536) ELSE '' END",
}  # fmt: skip
_NUMBERS = {"prefetch": "0", "tampered": "0", "status": "CASE n % 10 WHEN 0 THEN 403 ELSE 200 END", "linked": "x''"}
_NULLS = {"marker_kind", "minted_for", "parent", "marker_target"}


def fill(path: Path, rows: int, visitors: int) -> None:
    """Write a ledger of the version without counts and indexes, and upgrade it as the gate does."""
    from hedgerow.ledger import sqlite as ledger

    now = time.time()
    values = {"at": f"{now - _DAYS} + n * {_DAYS / rows}", "address": _TEXTS["visitor"], **_TEXTS, **_NUMBERS}
    chosen = [values.get(name, "NULL" if name in _NULLS else "''") for name in COLUMNS]
    chosen = [expression.replace("{visitors}", str(visitors)) for expression in chosen]
    with closing(open_database(path, "")) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        # Indexes are built once, by the upgrade.
        connection.executescript(ledger._SCHEMA.partition("CREATE INDEX")[0])
        connection.execute(
            f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) "
            f"INSERT INTO visits ({', '.join(COLUMNS)}) SELECT {', '.join(chosen)} FROM c"
        )
        connection.execute("PRAGMA user_version=3")


def scored(site: Site, visitors: int, blocked: int) -> None:
    now = time.time()
    score = VisitorScore("suspect", 0.6, now, 0, 1, 0, (("unmarked", 1),))
    keys = [f"10.{n // 65536}.{n // 256 % 256}.{n % 256}" for n in range(visitors)]
    evidence = Evidence("trap", "trap", 1.0, "Followed a hidden link.")
    blocks = [Block(key, key, now, now + 86_400, "refuse", evidence) for key in keys[:blocked]]
    site.stores.state.restore(blocks, [(key, score) for key in keys])


async def ask(admin: Admin, path: str) -> int:
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:1")], "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2),
        "scheme": "http",
    }  # fmt: skip
    status = 0

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        nonlocal status
        status = message.get("status", status)

    await admin(scope, receive, send)
    return status


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench dashboard", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--visitors", type=int, default=1_000_000)
    parser.add_argument("--scored", type=int, default=100_000, help="visitors that are suspected")
    parser.add_argument("--blocked", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the ledger is kept, and found again")
    parser.add_argument("--only", choices=("pages", "gate"), help="one half of the measurement")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        path = folder / "ledger.sqlite"
        if not path.exists():
            start = time.perf_counter()
            fill(path, options.rows, options.visitors)
            print(f"{options.rows:,} rows written in {time.perf_counter() - start:.0f} s")
            start = time.perf_counter()
            migrate(path)
            print(f"upgraded in {time.perf_counter() - start:.0f} s; {path.stat().st_size / 1e9:.1f} GB", flush=True)
            week(path)
        site = Site(read_settings(f"directory = '{folder}'\n{SETTINGS}", environment={}))
        try:
            scored(site, options.scored, options.blocked)
            if options.only != "gate":
                measure(site, options.repeat)
        finally:
            site.close()
        if options.only != "pages":
            gate(folder)


PAGES = (
    "/", "/?span=24h", "/?span=7d", "/dashboard/visitors", "/dashboard/visitors?filter=10.3.4",
    "/dashboard/visitors?sort=-suspicion", "/dashboard/visitor?visitor=10.3.4.5",
    "/dashboard/complaint?reference=0000-000A", "/dashboard/campaigns", "/dashboard/campaigns?id=BENCH1",
    "/dashboard/lists", "/dashboard/bots", "/dashboard/models", "/dashboard/reports", "/dashboard/settings",
    "/dashboard/audit",
)  # fmt: skip


def week(path: Path) -> None:
    """Count a whole week by minute, with twenty reasons, as a gate that ran all the time has done."""
    first = int(time.time() - 7 * 86_400) // 60 * 60
    with closing(open_database(path, "")) as connection:
        connection.execute(
            f"WITH RECURSIVE m(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM m WHERE n < {7 * 1440}), "
            "c(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM c WHERE k < 20) INSERT OR REPLACE INTO minutes "
            f"SELECT {first} + n * 60, CASE k WHEN 0 THEN 'pass' ELSE 'refuse' END, "
            "CASE k WHEN 0 THEN '' ELSE 'code-' || k END, '', 400, 100 FROM m, c"
        )


def measure(site: Site, repeat: int) -> None:
    keys = tuple(f"10.0.{n}.7" for n in range(200))
    found = Campaign("BENCH1", "sharing", time.time() - 60, time.time(), keys, "They share links.")
    site.campaigns = lambda: [found]
    admin = Admin(site)
    print("| page | median ms | slowest ms |\n|---|---|---|")
    for path in PAGES:
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            status = asyncio.run(ask(admin, path))
            times.append((time.perf_counter() - start) * 1000)
        note = "" if status == 200 else f" (status {status})"
        print(f"| {path}{note} | {statistics.median(times):.0f} | {max(times):.0f} |")


def gate(folder: Path) -> None:
    """Print how long a person's page takes while the dashboard is used, and while it is not."""
    with tempfile.TemporaryDirectory() as temporary:
        root, here = Path(temporary) / "site", Path(temporary) / "hedgerow"
        root.mkdir()
        (root / "index.html").write_text("<!doctype html><title>A</title>" + '<p><a href="/b.html">B</a> text\n' * 100)
        nginx = Nginx(str(find_program("nginx")), Path(temporary) / "nginx", root)
        server = Protect(nginx.url, here, settings=SETTINGS, environment={"HEDGEROW__DIRECTORY": str(folder)})
        try:
            asyncio.run(compare(server))
        finally:
            server.stop()
            nginx.stop()


async def compare(server: Protect) -> None:
    gate_port, admin_port = (int(url.rpartition(":")[2]) for url in (server.url, server.admin))
    times: dict[bool, list[float]] = {False: [], True: []}
    opened = []
    for number in range(ROUNDS):
        used = bool(number % 2)
        polling = asyncio.create_task(poll(admin_port, opened)) if used else None
        await asyncio.sleep(1.0)
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            # Ten pages each, by people at different addresses.
            visit = len(times[True]) + len(times[False])
            assert b" 200 " in await fetch(gate_port, "/", f"127.{30 + visit // 2500}.{visit // 10 % 250}.9")
            times[used].append((time.perf_counter() - start) * 1000)
            await asyncio.sleep(EVERY)
        if polling is not None:
            polling.cancel()
    print("\n| a person's page | n | median ms | p99 ms | slowest ms |\n|---|---|---|---|---|")
    for used, name in ((False, "nobody looks at the dashboard"), (True, "its pages are opened all the time")):
        found = sorted(times[used])
        p99 = found[int(len(found) * 0.99)]
        print(f"| {name} | {len(found)} | {statistics.median(found):.1f} | {p99:.1f} | {found[-1]:.1f} |")
    print(f"{len(opened)} pages of the dashboard were opened, median {statistics.median(opened):.0f} ms")


async def poll(port: int, opened: list[float]) -> None:
    """Open one page of the dashboard after the other, a fifth of a second apart."""
    for number in range(100_000):
        start = time.perf_counter()
        await fetch(port, PAGES[number % len(PAGES)])
        opened.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.2)


async def fetch(port: int, path: str, address: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in CHROME.items())
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{lines}Connection: close\r\n\r\n".encode())
        return await reader.read()
    finally:
        writer.close()

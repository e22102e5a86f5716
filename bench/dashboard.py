"""
`python -m bench dashboard`: how long each page of the dashboard takes with a large ledger and many visitors.

Rows are generated in SQLite itself. Visits are spread over 30 days; one in ten did not pass.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from hedgerow.core.decision import Block, Evidence, VisitorScore
from hedgerow.ledger.sqlite import COLUMNS, migrate
from hedgerow.settings import read_settings
from hedgerow.sqlite_file import open_database
from hedgerow.web.admin.app import Admin
from hedgerow.web.app import Site

_DAYS = 30 * 86_400
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
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        start = time.perf_counter()
        fill(path, options.rows, options.visitors)
        print(f"{options.rows:,} rows written in {time.perf_counter() - start:.0f} s")
        start = time.perf_counter()
        migrate(path)
        print(f"upgraded in {time.perf_counter() - start:.0f} s; {path.stat().st_size / 1e9:.1f} GB")
        site = Site(read_settings(f"directory = '{folder}'\n[ledger]\nkeep_days = 3650.0\n", environment={}))
        try:
            scored(site, options.scored, options.blocked)
            measure(Admin(site), options.repeat)
        finally:
            site.close()


def measure(admin: Admin, repeat: int) -> None:
    print("| page | median ms | slowest ms |\n|---|---|---|")
    for path in (
        "/", "/?span=24h", "/?span=7d", "/dashboard/visitors", "/dashboard/visitors?filter=10.3.4",
        "/dashboard/visitors?sort=-suspicion", "/dashboard/visitor?visitor=10.3.4.5",
        "/dashboard/complaint?reference=0000-000A", "/dashboard/lists", "/dashboard/audit",
    ):  # fmt: skip
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            status = asyncio.run(ask(admin, path))
            times.append((time.perf_counter() - start) * 1000)
        note = "" if status == 200 else f" (status {status})"
        print(f"| {path}{note} | {statistics.median(times):.0f} | {max(times):.0f} |")

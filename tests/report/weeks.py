"""Logs of several days with crawlers that come again and again, and one that is full of markup."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

BEGIN = 1_700_000_000
DAY = 86_400
HOSTILE = "<script>alert(document.domain)</script>\"'><img src=x onerror=alert(1)>"


def line(
    address: str, at: float, target: str, *, referrer: str = "-", agent: str = "Mozilla/5.0", status: int = 200
) -> bytes:
    when = datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    asked, came, said = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (target, referrer, agent))
    text = f'{address} - - [{when}] "GET {asked} HTTP/1.1" {status} 99 "{came}" "{said}"\n'
    return text.encode("latin-1", "replace")


def busy_log(path: Path, *, days: float = 4.0, agent: str = "examplebot/1.0") -> Path:
    """Crawlers that come every ten minutes, three that do so together, and people who come and go."""
    chance = random.Random(5)
    lines = []
    for number in range(int(days * DAY / 600)):
        at = BEGIN + number * 600 + chance.randrange(60)
        lines.append((at, line("198.51.100.7", at, f"/topic/{number}", agent=agent)))
        if number % 18 < 4:
            for worker in range(3):
                target = f"/item/{3 * number + worker}?page={number}"
                lines.append((at + worker, line(f"203.0.113.{worker + 1}", at + worker, target, agent="fetcher/2")))
    for person in range(30):
        address, agent_of = (
            f"192.0.2.{person}",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        )
        at = BEGIN + chance.random() * (days - 0.5) * DAY
        before = "-"
        for _ in range(chance.randrange(3, 12)):
            target = f"/topic/{chance.randrange(200)}"
            lines.append((at, line(address, at, target, referrer=before, agent=agent_of)))
            before = f"http://site.example{target}"
            lines.extend(
                (at + 1, line(address, at + 1, asset, referrer=before, agent=agent_of))
                for asset in ("/a.css", "/b.png")
            )
            at += chance.randrange(5, 300)
    path.write_bytes(b"".join(text for _, text in sorted(lines)))
    return path


def hostile_log(path: Path, *, sources: int = 40) -> Path:
    """Markup, quotes and odd bytes wherever a visitor may write them; and lines that are none."""
    odd = b"\x00\x01\x1b[2J\xe2\x80\xae" + bytes(range(0x80, 0x100))
    lines = []
    for number in range(sources):
        for step in range(8):
            at = BEGIN + number * 977 + step * 7200
            lines.append(
                line(
                    f"192.0.2.{number % 250}",
                    at,
                    f"/{HOSTILE.replace(' ', '+')}/{step}",
                    referrer=HOSTILE,
                    agent=HOSTILE,
                )
            )
        lines.append(b"192.0.2.9 - - " + odd + HOSTILE.encode() + b"\n")
    lines.append(line("<b>host</b>", BEGIN, "/", agent="</style></script><script>alert(2)</script>"))
    path.write_bytes(b"".join(lines))
    return path

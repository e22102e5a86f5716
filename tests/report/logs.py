"""Small logs with people and crawlers in them."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def line(
    address: str,
    at: float,
    target: str,
    *,
    referrer: str = "-",
    agent: str = BROWSER,
    status: int = 200,
) -> str:
    when = datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{address} - - [{when}] "GET {target} HTTP/1.1" {status} 512 "{referrer}" "{agent}"\n'


def site_log(seed: int = 1, *, people: int = 30, crawlers: int = 10, agent: str = BROWSER) -> str:
    """People who follow links and bring images along, crawlers who come from nowhere and want pages."""
    chance = Random(seed)
    lines: list[tuple[float, str]] = []
    for number in range(people):
        at, here = 1_700_000_000.0 + chance.random() * 200_000, "/"
        for _ in range(12):
            follow = f"/topic/{chance.randrange(60)}"
            referrer = f"http://e.org{here}"
            lines.append((at, line(f"192.0.2.{number}", at, follow, referrer=referrer)))
            brought = [line(f"192.0.2.{number}", at, f"/i/{k}.png", referrer=f"http://e.org{follow}") for k in range(3)]
            lines += [(at, one) for one in brought]
            at, here = at + chance.expovariate(1 / 40), follow
    for number in range(crawlers):
        at = 1_700_000_000.0 + chance.random() * 200_000
        for page in range(60):
            lines.append((at, line(f"198.51.100.{number}", at, f"/topic/{page}", agent=agent)))
            at += 2
    return "".join(text for _, text in sorted(lines, key=lambda one: one[0]))

"""
A large log out of real ones: `python -m bench.generate LINES FILE [LOG...]`.

The real logs are repeated as often as it takes. Each copy begins some days later than the last, wrapped within a season
of ninety days, and at another hour; ten copies share their sources, then the addresses are others. So sources are many,
some are busy for weeks, and the lines come in the order of time, as a server writes them. Bad lines stay as they are.
The same arguments give the same bytes.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from random import Random

from hedgerow.logs.formats import seconds_of
from hedgerow.logs.reader import ReadCounts, open_log

SEASON = 90
SHARED = 10
LOGS = Path("../shared/data/logs")
_LINE = re.compile(rb"(\S+)( .*?\[)([^\]]{26})(\] .*)", re.DOTALL)
_DAY = 86_400
_BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


class Line:
    """A line of a real log: the client, the day and second within its log, and the rest."""

    __slots__ = ("client", "day", "middle", "rest", "second")

    def __init__(self, client: bytes, middle: bytes, day: int, second: int, rest: bytes) -> None:
        self.client, self.middle, self.day, self.second, self.rest = client, middle, day, second, rest


def real_lines(paths: list[Path]) -> list[Line]:
    found = []
    for path in paths:
        first = None
        text = b"".join(open_log(str(path)).blocks(ReadCounts()))  # type: ignore[union-attr]
        for line in text.split(b"\n"):
            match = _LINE.fullmatch(line)
            at = None
            if match is not None:
                try:
                    at = seconds_of(match[3].decode("latin-1"))
                except (ValueError, IndexError):
                    at = None
            if match is None or at is None:
                found.append(Line(b"", b"", 0, 0, line))
                continue
            first = at if first is None else first
            day, second = divmod(int(at - first // _DAY * _DAY), _DAY)
            found.append(Line(match[1], match[2], day % SEASON, second, match[4]))
    return found


def generate(lines: int, out: Path, logs: list[Path]) -> None:
    """Write *lines* lines to *out*."""
    real = real_lines(logs)
    copies = -(-lines // len(real))
    chance = Random(1)
    shifts = [(chance.randrange(SEASON), chance.randrange(_DAY)) for _ in range(copies)]
    by_day: list[list[Line]] = [[] for _ in range(SEASON)]
    for line in real:
        by_day[line.day].append(line)
    clocks = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}".encode() for s in range(_DAY)]
    clients: dict[tuple[bytes, int], bytes] = {}
    written = 0
    with out.open("wb") as file:
        for day in range(SEASON):
            date = (_BEGIN + timedelta(days=day)).strftime("%d/%b/%Y:").encode()
            # Of each second of the day, the lines in the order of their copies.
            seconds: list[list[bytes]] = [[] for _ in range(_DAY)]
            for copy, (days, later) in enumerate(shifts):
                group = copy // SHARED
                for line in by_day[(day - days) % SEASON]:
                    if not line.client:
                        seconds[0].append(line.rest)
                        continue
                    client = clients.get((line.client, group))
                    if client is None:
                        client = clients[line.client, group] = moved(line.client, group)
                    second = (line.second + later) % _DAY
                    seconds[second].append(b"%b%b%b%b +0000%b" % (client, line.middle, date, clocks[second], line.rest))
            for some in seconds:
                wanted = some[: lines - written]
                if wanted:
                    file.write(b"\n".join(wanted) + b"\n")
                    written += len(wanted)


def moved(client: bytes, group: int) -> bytes:
    """Another address for each group of copies; the first group has the real ones."""
    try:
        number = int(IPv4Address(client.decode("ascii")))
    except ValueError:
        return client if not group else b"g%d.%b" % (group, client)
    return str(IPv4Address((number + group * 0x01_03_05_07) % (1 << 32))).encode()


if __name__ == "__main__":
    generate(int(sys.argv[1]), Path(sys.argv[2]), sorted(map(Path, sys.argv[3:])) or sorted(LOGS.glob("*.xz")))

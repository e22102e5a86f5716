"""
A log that is generated: people, crawlers of several kinds, known bots, bad lines. The same in every recording.

Only `random.Random.random` is used, which gives the same numbers in every version of Python. Addresses are from the
networks for documentation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

START = 1_767_225_600.0
"""1 January 2026."""
PUBLISHED_RANGES = {
    "googlebot.json": {"networks": ["198.51.100.60/32"], "source": "https://example.org/", "read_at": START},
    "bingbot.json": {"networks": ["203.0.113.250/32"], "source": "https://example.org/", "read_at": START},
}
"""As `hedgerow bots update` writes them: of the bots in the log one is what it says, and another is not."""
HOST = "example.org"
VISITOR = "127.0.0.20"
"""The visitor whose links are in the log: a crawler. Both are opaque, for the host and keys of the recording."""
MARKED_LINK = "/~ARVfEWLtrAXLspiP28aFNzMv-IPrLt5zPpSO5oPJcuCYQ0Zo7g"
HIDDEN_LINK = "/~AbN7462RzeYtnZ_SQSDtbHXMQQ74YlHdkUWc7h6CRvdChzZKZw"

_DAY = 86_400.0
_FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
_CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
_SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.0 Mobile/15E148 Safari/604.1"
)
_OLD = "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)"
_PEOPLE = (_FIREFOX, _CHROME, _SAFARI)


class Line(NamedTuple):
    """One request of the log."""

    at: float
    address: str
    method: str
    target: str
    status: int
    size: int
    referrer: str
    agent: str
    user: str = "-"
    session: str = ""


def lines() -> list[Line]:
    """All requests, in the order of their times."""
    dice = random.Random(15)
    made = [
        *_people(dice), *_sequential(), *_slow(dice), *_burst(), *_scanner(dice), *_campaign(dice), *_known_bots(dice),
        *_rare(dice), *_marked(),
    ]  # fmt: skip
    return sorted(made, key=lambda line: (line.at, line.address, line.target))


def _below(dice: random.Random, limit: int) -> int:
    return int(dice.random() * limit)


def _people(dice: random.Random) -> Iterator[Line]:
    """Persons who read some pages by day, with their images and styles."""
    for n in range(60):
        address = f"192.0.2.{n + 1}" if n % 6 else f"2001:db8:{n}::{n + 1:x}"
        agent = _PEOPLE[n % 3]
        for day in range(4):
            if dice.random() < 0.4:
                continue
            at = START + day * _DAY + 28_800 + dice.random() * 43_200
            before, session = "-", f"s{n}d{day}" + "x" * (n % 20)
            for _ in range(2 + _below(dice, 8)):
                page = f"/article/{_below(dice, 40)}" if dice.random() < 0.7 else f"/list?page={_below(dice, 5)}"
                user = f"user{n}" if n % 10 == 3 else "-"
                yield Line(at, address, "GET", page, 200, 9_000 + _below(dice, 999), before, agent, user, session)
                here = f"http://{HOST}{page}"
                for asset in ("/style.css", "/script.js", f"/images/{_below(dice, 30)}.png"):
                    if dice.random() < 0.6:
                        at += 0.2
                        yield Line(at, address, "GET", asset, 200, 3_000, here, agent, user, session)
                before = here
                at += 5 + dice.random() * 90
            if dice.random() < 0.1:
                yield Line(at, address, "POST", "/comment", 302, 0, before, agent, "-", session)


def _sequential() -> Iterator[Line]:
    """A crawler that counts up, every two seconds."""
    for n in range(400):
        yield Line(
            START + 3_600 + 2 * n, "198.51.100.10", "GET", f"/article/{n}", 200 if n < 40 else 404, 9_000, "-", _CHROME
        )


def _slow(dice: random.Random) -> Iterator[Line]:
    """A crawler that waits, day and night."""
    at = START
    while at < START + 4 * _DAY:
        page = f"/list?page={_below(dice, 400)}"
        yield Line(at, "198.51.100.11", "GET", page, 200, 9_000, f"http://{HOST}/", _FIREFOX)
        at += 300 + dice.random() * 120


def _burst() -> Iterator[Line]:
    """A crawler that asks for sixty pages within a second."""
    for n in range(60):
        yield Line(
            START + _DAY + n / 70, "198.51.100.12", "GET", f"/article/{n}", 200, 9_000, "-", "python-requests/2.32"
        )


def _scanner(dice: random.Random) -> Iterator[Line]:
    """A scanner for holes."""
    for n in range(150):
        target = ("/wp-login.php", "/.env", "/admin/config.php?x=%27", "/cgi-bin/test.cgi", f"/backup-{n}.zip")[n % 5]
        at = START + 2 * _DAY + n * (0.5 + dice.random())
        yield Line(at, "203.0.113.9", "POST" if n % 7 == 0 else "GET", target, 404, 300, "-", _OLD)


def _campaign(dice: random.Random) -> Iterator[Line]:
    """A crawler behind thirty addresses of one network, which share a user agent and their hours."""
    for day in range(4):
        for n in range(30):
            at = START + day * _DAY + 7_200 + dice.random() * 7_200
            for _ in range(8):
                page = f"/article/{_below(dice, 2_000)}"
                yield Line(at, f"203.0.113.{n + 100}", "GET", page, 200, 9_000, "-", _OLD.replace("7.0", "8.0"))
                at += 20 + dice.random() * 20


def _known_bots(dice: random.Random) -> Iterator[Line]:
    """Bots that say who they are."""
    names = (
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
        "GPTBot/1.2 (+https://openai.com/gptbot)",
    )
    for n, agent in enumerate(names):
        at = START + 600 * n
        yield Line(at, f"198.51.100.{n + 60}", "GET", "/robots.txt", 200, 100, "-", agent)
        for _ in range(40):
            at += 600 + dice.random() * 1_200
            yield Line(at, f"198.51.100.{n + 60}", "GET", f"/article/{_below(dice, 40)}", 200, 9_000, "-", agent)


def _rare(dice: random.Random) -> Iterator[Line]:
    """Single visits."""
    for n in range(80):
        at = START + dice.random() * 4 * _DAY
        yield Line(at, f"198.51.100.{n + 120}", "GET", "/", 200, 5_000, "-", _PEOPLE[n % 3] if n % 4 else "-")


def _marked() -> Iterator[Line]:
    """A visitor that follows one of its marked links, then a hidden one, and goes on."""
    at = START + 3 * _DAY
    for n, target in enumerate(("/", MARKED_LINK, HIDDEN_LINK, "/article/1", "/article/2")):
        yield Line(at + 10 * n, VISITOR, "GET", target, 200, 5_000, "-" if not n else f"http://{HOST}/", _FIREFOX)


# ---- Formats


def _time(line: Line) -> datetime:
    return datetime.fromtimestamp(line.at, UTC)


def _common_time(line: Line) -> str:
    return f"{_time(line):%d/%b/%Y:%H:%M:%S} +0000"


def common(line: Line) -> str:
    request = f"{line.method} {line.target} HTTP/1.1"
    return f'{line.address} - {line.user} [{_common_time(line)}] "{request}" {line.status} {line.size}'


def combined(line: Line) -> str:
    return f'{common(line)} "{line.referrer}" "{line.agent}"'


def vhost(line: Line) -> str:
    return f"{HOST}:443 {combined(line)}"


def with_session(line: Line) -> str:
    return f'{combined(line)} "{line.session or "-"}"'


def nginx_json(line: Line) -> str:
    return json.dumps({
        "time_iso8601": _time(line).isoformat(), "remote_addr": line.address, "remote_user": line.user,
        "host": HOST, "request_method": line.method, "request_uri": line.target, "server_protocol": "HTTP/1.1",
        "status": line.status, "http_referer": line.referrer, "http_user_agent": line.agent,
        "cookie_sid": line.session,
    })  # fmt: skip


def caddy_json(line: Line) -> str:
    headers = {"User-Agent": [line.agent]} | ({"Referer": [line.referrer]} if line.referrer != "-" else {})
    request = {"remote_ip": line.address, "proto": "HTTP/2.0", "method": line.method, "host": HOST, "uri": line.target,
               "headers": headers}  # fmt: skip
    return json.dumps({"level": "info", "ts": line.at, "request": request, "status": line.status, "size": line.size})


def alb(line: Line) -> str:
    moment = f"{_time(line):%Y-%m-%dT%H:%M:%S.%f}Z"
    address = f"[{line.address}]" if ":" in line.address else line.address
    return (
        f"https {moment} app/site/50dc6c495c0c9188 {address}:40000 10.0.0.1:80 0.000 0.001 0.000 {line.status} "
        f'{line.status} 34 {line.size} "{line.method} https://{HOST}:443{line.target} HTTP/2.0" "{line.agent}" - -'
    )


def w3c(line: Line) -> str:
    path, _, query = line.target.partition("?")
    agent = line.agent.replace(" ", "+")
    return (
        f"{_time(line):%Y-%m-%d %H:%M:%S} {line.address} {line.user} {line.method} {path} {query or '-'} {line.status} "
        f"{agent} {line.referrer}"
    )


W3C_HEAD = (
    "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n"
    "#Fields: date time c-ip cs-username cs-method cs-uri-stem cs-uri-query sc-status cs(User-Agent) cs(Referer)\n"
)
PATTERN = "$remote_addr|$time_iso8601|$request_method|$request_uri|$status|$http_referer|$http_user_agent"


def pattern(line: Line) -> str:
    return "|".join(
        [line.address, _time(line).isoformat(), line.method, line.target, str(line.status), line.referrer, line.agent]
    )


BAD_LINES = (
    "",
    "nonsense",
    '192.0.2.1 - - [99/Nop/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"',
    "\x1b[31mred\x1b[0m",
)
FORMATS: dict[str, tuple[Callable[[Line], str], str]] = {
    "combined": (combined, ""),
    "common": (common, ""),
    "vhost": (vhost, ""),
    "json": (nginx_json, ""),
    "caddy": (caddy_json, ""),
    "alb": (alb, ""),
    "w3c": (w3c, W3C_HEAD),
    "pattern": (pattern, ""),
    "session": (with_session, ""),
}


def text_of(form: str, *, bad: bool = False) -> str:
    """The log in one of `FORMATS`; with *bad*, some lines that cannot be read are in it."""
    write, head = FORMATS[form]
    written = [write(line) for line in lines()]
    if bad:
        written[100:100] = BAD_LINES
    return head + "".join(f"{line}\n" for line in written)

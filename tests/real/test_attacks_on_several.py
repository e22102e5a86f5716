"""A selection of the attacks in tests/attacks, against workers of one machine and two machines with one Redis."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from attacks.browsers import CHROME, word
from challenge.solver import solve
from driving import traps_in
from hedgerow.web.key_file import new_key, write_keys

from .databases import RedisServer
from .servers import Nginx, Protect, wait_for

SETTINGS = "[watch]\nenabled = false\n[challenge]\ndifficulty = 50\nhardest = 400\n[rotating]\nenabled = false\n"
LINES = "".join(f"{name}: {value}\r\n" for name, value in CHROME.items() if name != "accept-encoding")
HERE = LINES.replace("sec-fetch-site: none", "sec-fetch-site: same-origin") + "Referer: http://x/\r\n"
_addresses = (f"127.{n}.{m}.9" for n in range(60, 90) for m in range(250))


class Gates:
    """Several processes that protect one site: requests go to them in turns."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = itertools.cycle(ports)

    def send(self, address: str, request: str, body: bytes = b"") -> tuple[int, bytes]:
        with socket.create_connection(
            ("127.0.0.1", next(self._ports)), timeout=60, source_address=(address, 0)
        ) as line:
            line.sendall(request.encode() + body)
            answer = b"".join(iter(lambda: line.recv(65_536), b""))
        return int(answer.split(b" ", 2)[1]), answer

    def get(self, address: str, target: str = "/", lines: str = LINES) -> tuple[int, bytes]:
        return self.send(address, f"GET {target} HTTP/1.1\r\nHost: x\r\n{lines}Connection: close\r\n\r\n")

    def post(self, address: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\n{HERE}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        return self.send(address, head, body)


@pytest.fixture(scope="module", params=["workers", "machines"])
def gates(request, protect, nginx, tmp_path_factory) -> Iterator[Gates]:
    root = tmp_path_factory.mktemp("site")
    page = "<!DOCTYPE html><html><head><title>t</title></head><body>{}</body></html>"
    links = "".join(f"<p>Words, <a href='{word(n)}.html'>more</a>.</p>" for n in range(60))
    for n in range(60):
        (root / f"{word(n)[1:]}.html").write_text(page.format(links))
    (root / "index.html").write_text(page.format(links))
    site: Nginx = nginx(root)
    if request.param == "workers":
        gate: Protect = protect(site.url, settings=SETTINGS, options=["--workers", "2"])
        yield Gates([gate.port])
        return
    redis = RedisServer()
    keys = {"HEDGEROW_KEYS": write_keys([new_key(time.time())])}
    text = f'{SETTINGS}[state]\nurl = "{redis.url}"\n'
    both = [protect(site.url, settings=text, environment=keys) for _ in range(2)]
    yield Gates([gate.port for gate in both])
    for gate in both:
        gate.stop()
    redis.close()


def test_the_budget_of_an_address_is_one_for_all_processes(gates):
    """Each process alone would give 20 pages (issue of rates that are counted per process)."""
    mine = next(_addresses)
    statuses = [gates.get(mine, f"{word(n)}.html")[0] for n in range(40)]
    assert statuses.count(200) == 20
    assert set(statuses[20:]) == {403}


@pytest.mark.parametrize(
    "line",
    ["X-Requested-With: XMLHttpRequest", "Upgrade: websocket\r\nConnection: Upgrade", "X-Forwarded-For: 192.0.2.{n}"],
)
def test_one_header_does_not_extend_it(gates, line):
    mine = next(_addresses)
    headers = LINES.replace("sec-fetch-dest: document", "sec-fetch-dest: document\r\n" + line)
    answers = [gates.get(mine, f"{word(n % 60)}.html?x={n}", headers.replace("{n}", str(n))) for n in range(90)]
    # Scripts without a clearance may have as many pages again.
    assert sum(status == 200 for status, _ in answers) <= 40


def test_a_solution_is_spent_once_whichever_process_gets_it(gates):
    """Anubis v1.22.0, and replay at another instance."""
    mine = next(_addresses)
    gates.get(mine)
    status, answer = gates.post(mine, "/.hedgerow/task")
    assert status == 200
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    fields = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(json.dumps(told))}
    answers = [gates.post(mine, "/.hedgerow/clear", urlencode(fields).encode())[1] for _ in range(6)]
    assert sum(b"clearance=" in one for one in answers) == 1


def test_who_follows_a_hidden_link_is_blocked_by_all(gates):
    mine = next(_addresses)
    trap = traps_in(gates.get(mine)[1].partition(b"\r\n\r\n")[2])[0]
    gates.get(mine, trap, HERE)
    wait_for("the block", lambda: gates.get(mine)[0] == 403, patience=10)
    assert {gates.get(mine, f"{word(n)}.html")[0] for n in range(8)} == {403}


def test_links_that_another_was_issued_block_nobody(gates):
    """Framing: a trap counts only against the visitor it was issued to."""
    attacker, victim = next(_addresses), next(_addresses)
    trap = traps_in(gates.get(attacker)[1].partition(b"\r\n\r\n")[2])[0]
    foreign = LINES.replace("sec-fetch-site: none", "sec-fetch-site: cross-site")
    for _ in range(6):
        gates.get(victim, trap, foreign)
    assert {gates.get(victim, f"{word(n)}.html")[0] for n in range(8)} == {200}


@pytest.mark.parametrize(
    "framing", ["Transfer-Encoding: chunk\r\nTransfer-Encoding: ed", "Content-Length: 5\r\nTransfer-Encoding: chunked"]
)
def test_a_body_whose_end_is_uncertain_is_refused_by_all(gates, framing):
    mine = next(_addresses)
    request = f"POST / HTTP/1.1\r\nHost: x\r\n{framing}\r\nConnection: close\r\n\r\n0\r\n\r\n"
    assert {gates.send(mine, request)[0] for _ in range(4)} <= {400, 501}

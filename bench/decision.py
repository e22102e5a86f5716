"""What a decision on the fast path costs: from the raw request to the decision, ledger entry included."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from bench.samples import BROWSER
from bench.timing import measure
from hedgerow.cli.processes import reduce_garbage_collection
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.markers.token import NOBODY, Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.settings import read_settings
from hedgerow.web.gate import build_gate

GOAL = 30e-6
ADDRESSES = [f"198.18.0.{n}" for n in range(250)]
KEYS = (Key(1, bytes(range(64)), 0.0),)
BLOCKED = "198.51.100.9"


def marked_links() -> list[tuple[str, str, list[tuple[bytes, bytes]]]]:
    """Addresses, links that were marked for them, and what their browsers send: more than a gate remembers."""
    seal = TokenCodecs(KEYS).of(dict(BROWSER)[b"host"].decode())
    parent = page_digest("/docs/")
    headers = {}
    for address in ADDRESSES:
        cookie = VISITOR_COOKIE + b"=" + seal.seal("visitor", NOBODY, NOBODY, visitor_digest(address))
        headers[address] = [(name, cookie if name == b"cookie" else value) for name, value in BROWSER]
    return [
        (a, "/~" + seal.seal("page", visitor_digest(a), parent, b"/docs/part-%d.html" % (n % 500)).decode(), headers[a])
        for n, a in enumerate(ADDRESSES * 80)
    ]


def hidden_link() -> str:
    """One that was given to `BLOCKED`: who opens it is blocked."""
    seal = TokenCodecs(KEYS).of(dict(BROWSER)[b"host"].decode())
    return "/~" + seal.seal("trap", visitor_digest(BLOCKED), page_digest("/"), b"/docs/hidden.html").decode()


def main() -> None:
    # As `hedgerow protect` runs.
    reduce_garbage_collection()
    gate = build_gate(read_settings("", environment={}), tokens=TokenCodecs(KEYS), ledger=NoLedger())
    decided: set[str] = set()

    def decide(found: Visit) -> None:
        decision = run_now(gate.decide(found))
        gate.record(found, decision, 200)
        decided.add(decision.action)

    def visits(addresses: list[str], step: float, targets: Iterable[str]) -> Iterator[Visit]:
        """Of visitors in turn, one every *step* seconds."""
        for n, (address, target) in enumerate(zip(itertools.cycle(addresses), targets, strict=False)):
            yield gate.identifier.visit(1.8e9 + n * step, address, "GET", target, BROWSER)

    def followed() -> Iterator[Visit]:
        for n, (address, target, headers) in enumerate(itertools.cycle(marked_links())):
            yield gate.identifier.visit(1.8e9 + n * 0.05, address, "GET", target, headers)

    one = itertools.repeat("/docs/page.html?x=1")
    thousand = [f"192.0.{n // 250}.{n % 250}" for n in range(1000)]
    pages = [f"/docs/{'abcdefgh'[n % 8]}/{'xyz'[n % 3] * (n % 7)}.html" for n in range(120)]
    # So many visitors, each seldom, that none is suspected for it.
    strays = visits([f"203.0.{n // 250}.{n % 250}" for n in range(5000)], 0.05, itertools.cycle(pages))
    identified, calm = visits(thousand, 0.01, one), visits([a.replace("192", "193") for a in thousand], 0.01, one)
    busy, marked = visits(["192.0.10.1"], 0.034, one), followed()
    blocked = gate.identifier.visit(1.8e9, BLOCKED, "GET", "/", BROWSER)
    run_now(gate.decide(gate.identifier.visit(1.8e9, BLOCKED, "GET", hidden_link(), BROWSER)))
    assert run_now(gate.decide(blocked)).action == "refuse"
    ready = list(itertools.islice(visits([a.replace("192", "194") for a in thousand], 0.01, one), 20_000))
    again = itertools.cycle(ready)
    found = measure(
        {
            "identify the visitor": lambda: next(identified),
            "identify and decide": lambda: decide(next(calm)),
            "the same, a busy visitor (30 pages a second)": lambda: decide(next(busy)),
            "the same, an unmarked page new to its visitor": lambda: decide(next(strays)),
            "the same, a marked link": lambda: decide(next(marked)),
            "decide alone, as the middleware awaits it": lambda: run_now(gate.decide(next(again))),
            "decide on a blocked visitor": lambda: run_now(gate.decide(blocked)),
        }
    )
    for name, seconds in found.items():
        print(f"{name:48} {seconds * 1e6:8.2f} µs")
    worst = max(found.values())
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {worst * 1e6:.1f} µs ({', '.join(sorted(decided))})")

"""The ban-list client: a check against local lists; and the middleware under WSGI next to that under ASGI."""

from __future__ import annotations

import asyncio
import gc
import io
import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

from bench.timing import measure
from hedgerow.core.decision import Block, Evidence
from hedgerow.core.ledger import NoLedger
from hedgerow.lists.model import Listing, network_text
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import ListMessage
from hedgerow.settings import read_settings
from hedgerow.web import asgi, wsgi
from hedgerow.web.app import Site

GOAL = 3e-6
ENTRIES, BLOCKS = 100_000, 10_000
AGENT = b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PAGE = b"<!DOCTYPE html><html><body>" + b'<p><a href="/one">one</a> some words</p>' * 40 + b"</body></html>"
TRAP = Evidence("trap", "trap", 1.0, "It followed a link that no person can see.")


def main() -> None:
    check()
    middleware()


def check() -> None:
    rng = random.Random(7)

    def address(version: int = 4) -> str:
        return network_text(version, rng.getrandbits(32) if version == 4 else 0x2001 << 112 | rng.getrandbits(112), 0)

    def again(numbers: Iterable[int]) -> Callable[[], str]:
        """The same addresses again and again, each written when it is asked for, as a server writes it."""
        cycle = itertools.cycle(numbers)
        return lambda: network_text(4 if (number := next(cycle)) >> 32 == 0 else 6, number, 0)

    local = LocalLists()
    lines = [ListMessage(put=Listing("black", address(), "bench", "bench", 1.0)) for _ in range(ENTRIES)]
    lines += [ListMessage(put=Listing("black", "198.51.0.0/16", "bench", "bench", 1.0))]
    lines += [ListMessage(put=Listing("black", "2001:db8::/32", "bench", "bench", 1.0))]
    blocked = [rng.getrandbits(32) for _ in range(BLOCKS)]
    blocked_v6 = [0x2001 << 112 | rng.getrandbits(112) for _ in range(BLOCKS)]
    keys = [network_text(4, number, 0) for number in blocked]
    keys += [network_text(6, number >> 64 << 64, 64) for number in blocked_v6]
    lines += [ListMessage(block=Block(key, key, 0.0, 1e10, "refuse", TRAP)) for key in keys]
    local.take([ListMessage(start=True), *lines, ListMessage(at="a-1")])
    del lines, keys
    gc.collect()
    gc.freeze()
    print(f"{len(local):,} entries and blocks")
    ask: dict[str, Callable[[], str]] = {
        "an address seen lately": again([rng.getrandbits(32) for _ in range(1000)]),
        "one never seen": address,
        "one of IPv6 never seen": lambda: address(6),
        "one that is blocked": again(blocked),
        "one of IPv6 that is blocked": again(blocked_v6),
        "one that is on a list, with the decision": again([0xC6330000 + n for n in range(1 << 16)]),
        "one of IPv6 on a list, with the decision": again([0x20010DB8 << 96 | n << 64 | 1 for n in range(1 << 16)]),
    }
    candidates: dict[str, Callable[[], object]] = {}
    for name, of in ask.items():
        candidates[f"to name {name}"] = lambda of=of: (of(), AGENT.decode("latin-1"))
        # A server writes the user agent of each request anew, too.
        candidates[name] = lambda of=of: local.check(2.0, of(), "", AGENT.decode("latin-1"))
    found = measure(candidates, seconds=0.2)
    taken = {name: found[name] - found[f"to name {name}"] for name in ask}
    for name, seconds in taken.items():
        print(f"{name:48} {seconds * 1e6:8.2f} µs")
    print(f"goal: at most {GOAL * 1e6:.0f} µs; the slowest is {max(taken.values()) * 1e6:.1f} µs")


def middleware() -> None:
    """CPU of one page through the middleware, in process, by each form."""
    text = "[density]\nenabled = false\n[watch]\nenabled = false\n[state]\ndurable = false\n[lists]\nenabled = false\n"
    text += "[challenge]\nstore = 'memory'\n"
    headers = [("Content-Type", "text/html"), ("Content-Length", str(len(PAGE)))]
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]

    async def asgi_app(scope, receive, send) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        await send({"type": "http.response.body", "body": PAGE})

    def wsgi_app(environ, start_response):  # noqa: ARG001
        start_response("200 OK", headers)
        return [PAGE]

    sites = [Site(read_settings(text, environment={}), ledger=NoLedger()) for _ in range(2)]
    around, beside = asgi.Hedgerow(asgi_app, site=sites[0]), wsgi.Hedgerow(wsgi_app, site=sites[1])
    loop = asyncio.new_event_loop()

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message) -> None:
        pass

    async def hundred() -> None:
        for _ in range(100):
            scope = {
                "type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "scheme": "http",
                "headers": [(b"host", b"a.example"), (b"user-agent", AGENT)], "client": ("192.0.2.1", 1),
            }  # fmt: skip
            await around(scope, receive, send)

    def by_wsgi() -> None:
        for _ in range(100):
            environ = {
                "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/", "QUERY_STRING": "", "RAW_URI": "/",
                "REMOTE_ADDR": "192.0.2.1", "HTTP_HOST": "a.example", "HTTP_USER_AGENT": AGENT.decode(),
                "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "SERVER_PROTOCOL": "HTTP/1.1",
            }  # fmt: skip
            result: Any = beside(environ, lambda *_: None)
            list(result)
            result.close()

    found = measure({"asgi": lambda: loop.run_until_complete(hundred()), "wsgi": by_wsgi}, seconds=0.2)
    for name, seconds in found.items():
        print(f"a page of 40 links through the middleware, {name}   {seconds * 1e4:8.1f} µs")
    print(f"wsgi / asgi: {found['wsgi'] / found['asgi']:.2f}")
    loop.close()
    for site in sites:
        site.close()


if __name__ == "__main__":
    main()

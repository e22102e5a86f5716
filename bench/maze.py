"""What it costs to detain and to refuse: python bench/maze.py"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from hedgerow.core.decision import Decision, Evidence
from hedgerow.markers.token import Key, TokenCodec
from hedgerow.traps.maze import Maze
from hedgerow.traps.robots_txt import disallow
from hedgerow.web.response_pages import PageRequest, refusal

ROUNDS, TIMES = 7, 2_000
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def cost(call: Callable[[int], object]) -> tuple[float, float]:
    """CPU microseconds of one call: the best and the middle of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for number in range(TIMES):
            call(number)
        rounds.append((time.process_time() - start) / TIMES * 1e6)
    rounds.sort()
    return rounds[0], rounds[ROUNDS // 2]


def show(name: str, call: Callable[[int], object], note: str = "") -> None:
    best, middle = cost(call)
    print(f"{name:28} {best:7.1f} µs best {middle:7.1f} µs median  {note}")


def main() -> None:
    seal = TokenCodec([Key(1, bytes(range(64)), 0.0)])
    start = time.process_time()
    maze = Maze("/~", b"bench")
    print(f"{'laying out a maze':28} {(time.process_time() - start) * 1e3:7.1f} ms")
    pages = [maze.page(seal, "192.0.2.7", f"/{number}") for number in range(TIMES)]
    sizes = sorted(map(len, pages))
    links = sum(page.count(b"<a ") for page in pages) / len(pages)
    note = f"{sizes[0]} to {sizes[-1]} bytes, {sum(sizes) / len(sizes):.0f} on average, {links:.1f} links"
    show("a seal", lambda _: seal.seal("maze", b"visitr", b"page..", bytes(20)))
    show("a maze page", lambda number: maze.page(seal, "192.0.2.7", f"/{number}"), note)

    evidence = Evidence("density", "density-visitor", 1.0, "More than 100 requests in 3 seconds.")
    decision = Decision("refuse", (evidence,), 1_763_203_600.0)
    for form, accept in (("html", BROWSER), ("json", "application/json"), ("text", "*/*")):
        request = PageRequest(accept, reference="7F3A-91C2", contact="a@example.org")
        refuse = partial(refusal, decision, request, site="example.org")
        body = refuse(at=1_763_200_000.0).body
        show(
            f"a refusal, {form}",
            lambda number, refuse=refuse: refuse(at=1_763_200_000.0 + number),
            f"{len(body)} bytes",
        )
    robots = b"User-agent: *\nDisallow: /private\n\nUser-agent: a\nAllow: /\nSitemap: /s.xml\n" * 5
    show("robots.txt", lambda _: disallow(robots, "/~"), f"{len(robots)} bytes, 10 groups")


if __name__ == "__main__":
    main()

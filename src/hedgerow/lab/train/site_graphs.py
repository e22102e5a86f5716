"""
Sites for simulated walks, as link graphs. Pages are numbers, and page 0 is the home page.

There are three kinds: random links (those of the suppression paper), a forum of boards and threads, and real folders of
HTML files. Models are trained on the first two and tested on the third.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from urllib.parse import unquote, urldefrag, urljoin

from hedgerow.lab.simulate.site import Site, draw_site

_LINK = re.compile(rb"""<a\b[^>]*?\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_MAX_BYTES = 1 << 20


def random_site(rng: Random) -> Site:
    """Return a site of random links: 200 to 4,000 pages with 10 to 80 links each."""
    pages = int(10 ** rng.uniform(2.3, 3.6))
    links = rng.randint(10, 80)
    return draw_site(rng, pages=pages, links=links, fixed=links // rng.randint(3, 8), deviation=pages / 3)


def forum_site(rng: Random) -> Site:
    """
    Return a forum: a home page, boards, threads, and pages of threads.

    Every page links to the home page and to all boards, a page of a board to its threads and its next page. A thread
    links to its board, its next page and a few other threads.
    """
    boards = rng.randint(3, 15)
    links: list[list[int]] = [list(range(1, boards + 1))]
    everywhere = [0, *range(1, boards + 1)]
    links.extend([] for _ in range(boards))
    threads: list[int] = []
    for board in range(1, boards + 1):
        at = board
        for _ in range(rng.randint(1, 8)):
            links[at].extend(everywhere)
            for _ in range(rng.randint(10, 30)):
                thread = len(links)
                links.append([*everywhere, at])
                links[at].append(thread)
                threads.append(thread)
                for _ in range(min(int(rng.expovariate(1.0)), 10)):
                    links[-1].append(len(links))
                    links.append([*everywhere, board, thread])
            next_page = len(links)
            links.append([])
            links[at].append(next_page)
            at = next_page
        links[at].extend(everywhere)
    for thread in threads:
        links[thread].extend(rng.choices(threads, k=rng.randint(0, 5)))
    return tuple(tuple(dict.fromkeys(page)) for page in links)


def folder_site(path: Path, home: str = "index.html", max_pages: int = 4000) -> Site:
    """Return the site in a folder of HTML files: at most *max_pages* pages that can be reached from *home*."""
    root = path.resolve()
    numbers = {home: 0}
    names = [home]
    links: list[tuple[int, ...]] = []
    while len(links) < len(names):
        name = names[len(links)]
        targets: dict[int, None] = {}
        for raw in _LINK.findall((root / name).read_bytes()[:_MAX_BYTES]):
            target = unquote(urldefrag(urljoin("http://site/" + name, raw.decode("latin-1")))[0])
            if not target.startswith("http://site/"):
                continue
            other = target.removeprefix("http://site/")
            if other not in numbers:
                if len(names) >= max_pages or not other.endswith(".html") or not (root / other).is_file():
                    continue
                numbers[other] = len(names)
                names.append(other)
            if other != name:
                targets[numbers[other]] = None
        links.append(tuple(targets))
    return tuple(links)

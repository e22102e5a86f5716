"""
Graphs: sites to walk on. Pages are numbers, page 0 is the home page.

Three kinds: links drawn by chance (the suppression paper's), a forum of boards, threads and their pages, and real
folders of HTML. Training walks on the first two, the test on the third.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from urllib.parse import unquote, urldefrag, urljoin

from hedgerow.lab.simulate.site import Site, draw_site

_LINK = re.compile(rb"""<a\b[^>]*?\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_LARGEST = 1 << 20


def drawn(chance: Random) -> Site:
    """A site of links drawn by chance: 200 to 4,000 pages, 10 to 80 links on each."""
    pages = int(10 ** chance.uniform(2.3, 3.6))
    links = chance.randint(10, 80)
    return draw_site(chance, pages=pages, links=links, fixed=links // chance.randint(3, 8), deviation=pages / 3)


def forum(chance: Random) -> Site:
    """
    A home page, boards, threads, and pages of threads. Every page links to the home page and to all boards, a board's
    page to its threads and its next page, a thread to its board, its next page and a few other threads.
    """
    boards = chance.randint(3, 15)
    links: list[list[int]] = [list(range(1, boards + 1))]
    everywhere = [0, *range(1, boards + 1)]
    links.extend([] for _ in range(boards))
    threads: list[int] = []
    for board in range(1, boards + 1):
        at = board
        for _ in range(chance.randint(1, 8)):
            links[at].extend(everywhere)
            for _ in range(chance.randint(10, 30)):
                thread = len(links)
                links.append([*everywhere, at])
                links[at].append(thread)
                threads.append(thread)
                for _ in range(min(int(chance.expovariate(1.0)), 10)):
                    links[-1].append(len(links))
                    links.append([*everywhere, board, thread])
            following = len(links)
            links.append([])
            links[at].append(following)
            at = following
        links[at].extend(everywhere)
    for thread in threads:
        links[thread].extend(chance.choices(threads, k=chance.randint(0, 5)))
    return tuple(tuple(dict.fromkeys(page)) for page in links)


def folder(path: Path, home: str = "index.html", most: int = 4000) -> Site:
    """The site in a folder of HTML files: the pages that lead on from *home*, at most *most* of them."""
    root = path.resolve()
    numbers = {home: 0}
    names = [home]
    links: list[tuple[int, ...]] = []
    while len(links) < len(names):
        name = names[len(links)]
        found: dict[int, None] = {}
        for raw in _LINK.findall((root / name).read_bytes()[:_LARGEST]):
            target = unquote(urldefrag(urljoin("http://site/" + name, raw.decode("latin-1")))[0])
            if not target.startswith("http://site/"):
                continue
            other = target.removeprefix("http://site/")
            if other not in numbers:
                if len(names) >= most or not other.endswith(".html") or not (root / other).is_file():
                    continue
                numbers[other] = len(names)
                names.append(other)
            if other != name:
                found[numbers[other]] = None
        links.append(tuple(found))
    return tuple(links)

"""Sites and crawlers that no model is trained on: folders of HTML files, and further simulated crawlers."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from hedgerow.lab.simulate.crawl import Site
from hedgerow.lab.train.simulated_crawlers import Crawler, no_delay
from hedgerow.lab.train.simulated_people import SimulatedPerson

TEST_CRAWLERS = (
    Crawler("breadth-16-workers", "breadth", no_delay, workers=16),
    Crawler("depth-even-2-20", "depth", lambda rng: rng.uniform(2, 20)),
    Crawler("random-like-a-person", "random", lambda rng: rng.lognormvariate(2.8, 1.2), assets=True),
    Crawler("popular-slow", "popular", lambda rng: rng.expovariate(1 / 60)),
    Crawler("list-second", "list", lambda rng: rng.gauss(1, 0.1), parents=False),
    Crawler("breadth-timed-as-people", "breadth", lambda rng: SimulatedPerson(rng, marked=True, assets=0.0).pause()),
    Crawler("breadth-browser", "breadth", lambda rng: rng.uniform(1, 4), assets=True),
)


_LINK = re.compile(rb"""<a\b[^>]*?\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_MAX_BYTES = 1 << 20


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

"""A plain script: `plain.py URL PAGES`. httpx with a browser's user agent, without referrers, links in random order."""

from __future__ import annotations

import random
import re
import sys
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)


def main(start: str, pages: int) -> None:
    rng = random.Random(start)
    frontier, seen, requested = [start], {start}, 0
    with httpx.Client(headers={"User-Agent": AGENT}, trust_env=False, timeout=10) as client:
        while frontier and requested < pages:
            url = frontier.pop(rng.randrange(len(frontier)))
            requested += 1
            response = client.get(url)
            if "html" not in response.headers.get("content-type", ""):
                continue
            for link in LINK.findall(response.text):
                target = urldefrag(urljoin(url, unescape(link)))[0]
                if urlsplit(target).netloc == urlsplit(start).netloc and target not in seen:
                    seen.add(target)
                    frontier.append(target)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

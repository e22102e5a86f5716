"""
A collector of texts for language models: pages by httpx, texts by trafilatura. `with_trafilatura.py URL REQUESTS`.

trafilatura's own crawler refuses to connect to loopback addresses, as it should; so it only extracts here.
"""

from __future__ import annotations

import sys
from collections import deque
from urllib.parse import urldefrag, urljoin

import httpx
from lxml import html
from trafilatura import extract  # type: ignore[import-not-found]


def collect(origin: str, most: int) -> int:
    """Follow every link of the origin, breadth first, and return the characters of text that were found."""
    waiting, seen, characters = deque([origin + "/"]), {origin + "/"}, 0
    with httpx.Client(headers={"User-Agent": "corpus-builder/1.0"}, timeout=60, trust_env=False) as client:
        for _ in range(most):
            if not waiting:
                break
            url = waiting.popleft()
            answer = client.get(url)
            if answer.status_code != httpx.codes.OK or "html" not in answer.headers.get("content-type", ""):
                continue
            characters += len(extract(answer.text) or "")
            for href in html.fromstring(answer.content).xpath("//a/@href"):
                link = urldefrag(urljoin(url, href))[0]
                if link.startswith(origin + "/") and link not in seen:
                    seen.add(link)
                    waiting.append(link)
    return characters


if __name__ == "__main__":
    print(collect(sys.argv[1], int(sys.argv[2])))

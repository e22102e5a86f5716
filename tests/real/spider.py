"""A spider for `scrapy runspider`: follows every link of its origin, writes each page's name and title to a file."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor


class Spider(scrapy.Spider):
    name = "spider"

    def __init__(self, start: str, out: str, order: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = [start]
        self._out = Path(out).open("w", encoding="utf-8")  # noqa: SIM115 - closed by closed()
        # By address and port, which allowed_domains cannot tell apart.
        self._links = LinkExtractor(allow=f"^{start}")
        self._random = random.Random(1) if order == "random" else None

    def parse(self, response: Response, **_: Any) -> Iterator[scrapy.Request]:
        if not isinstance(response, HtmlResponse):
            return
        name = urlsplit(response.url).path.removeprefix("/") or "index.html"
        title = " ".join("".join(response.css("title::text").getall()).split())
        self._out.write(json.dumps([name, title]) + "\n")
        for link in self._links.extract_links(response):
            priority = self._random.randrange(1000) if self._random else 0
            yield response.follow(link, priority=priority)

    def closed(self, _reason: str) -> None:
        self._out.close()

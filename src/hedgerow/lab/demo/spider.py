"""A spider for `scrapy runspider`: every link of its own origin. It forgets what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor


class Spider(scrapy.Spider):
    name = "spider"

    def __init__(self, start: str, **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = [start]
        # By address and port, which allowed_domains cannot tell apart.
        self._links = LinkExtractor(allow=f"^{start}")

    def parse(self, response: Response, **_: Any) -> Iterator[scrapy.Request]:
        if isinstance(response, HtmlResponse):
            yield from response.follow_all(self._links.extract_links(response))

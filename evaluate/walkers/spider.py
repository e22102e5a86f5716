"""A spider for `scrapy runspider`: every link of its origin, in the order of Scrapy's queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor


class Spider(scrapy.Spider):
    name = "spider"

    def __init__(self, start: str, **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = [start]
        # A pattern with address and port, because allowed_domains ignores the port.
        self._links = LinkExtractor(allow=f"^http://{urlsplit(start).netloc}/")

    def parse(self, response: Response, **_: Any) -> Iterator[scrapy.Request]:
        if isinstance(response, HtmlResponse):
            yield from response.follow_all(self._links.extract_links(response))

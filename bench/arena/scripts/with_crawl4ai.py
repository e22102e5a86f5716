"""crawl4ai, which turns sites into Markdown for language models: `with_crawl4ai.py URL REQUESTS`."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

from crawl4ai import AsyncWebCrawler, CacheMode, CrawlerRunConfig  # type: ignore[import-not-found]
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy  # type: ignore[import-not-found]
from crawl4ai.deep_crawling import BFSDeepCrawlStrategy  # type: ignore[import-not-found]

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


class WithoutDeclaration(AsyncHTTPCrawlerStrategy):  # type: ignore[misc]
    """Its parser stumbles over the XML declaration that older documentation begins with."""

    async def crawl(self, url: str, *given: Any, **named: Any) -> Any:
        answer = await super().crawl(url, *given, **named)
        answer.html = _DECLARATION.sub("", answer.html)
        return answer


async def main(url: str, most: int) -> None:
    deep = BFSDeepCrawlStrategy(max_depth=20, max_pages=most, include_external=False)
    config = CrawlerRunConfig(deep_crawl_strategy=deep, cache_mode=CacheMode.BYPASS, stream=True, verbose=False)
    async with AsyncWebCrawler(crawler_strategy=WithoutDeclaration(), verbose=False) as crawler:
        async for _ in await crawler.arun(url + "/", config=config):
            pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

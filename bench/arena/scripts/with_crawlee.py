"""crawlee's BeautifulSoupCrawler with its defaults, on one origin: `with_crawlee.py URL REQUESTS`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from crawlee import ConcurrencySettings  # type: ignore[import-not-found]
from crawlee.crawlers import BeautifulSoupCrawler, BeautifulSoupCrawlingContext  # type: ignore[import-not-found]


async def main(url: str, most: int) -> None:
    crawler = BeautifulSoupCrawler(
        max_requests_per_crawl=most,
        request_handler_timeout=timedelta(seconds=30),
        concurrency_settings=ConcurrencySettings(desired_concurrency=10, max_concurrency=20),
    )

    @crawler.router.default_handler
    async def follow(context: BeautifulSoupCrawlingContext) -> None:
        await context.enqueue_links(strategy="same-origin")

    await crawler.run([url + "/"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

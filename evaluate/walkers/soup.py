"""crawlee's BeautifulSoupCrawler with defaults: `soup.py URL PAGES`, run by a Python that has crawlee."""

from __future__ import annotations

import asyncio
import sys

from crawlee.crawlers import BeautifulSoupCrawler, BeautifulSoupCrawlingContext


async def main(start: str, pages: int) -> None:
    crawler = BeautifulSoupCrawler(max_requests_per_crawl=pages)

    @crawler.router.default_handler
    async def handle(context: BeautifulSoupCrawlingContext) -> None:
        await context.enqueue_links(strategy="same-origin")

    await crawler.run([start])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

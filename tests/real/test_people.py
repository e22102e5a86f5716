"""Ten people read while crawlers are being stopped around them: none of their requests is disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from . import crawling
from .people import Reader
from .servers import Protect


def test_are_undisturbed_by_crawlers(
    hedgerow: Protect,
    documentation: Path,
    program: Callable[[str], str],
    address: Callable[[], str],
    tmp_path: Path,
) -> None:
    titles = crawling.titles_in(documentation)
    wget, crawlers = program("wget"), [address() for _ in range(4)]
    readers = [Reader(hedgerow.url, address(), seed=seed) for seed in range(10)]

    async def crawl() -> None:
        await asyncio.gather(
            asyncio.to_thread(crawling.wget, wget, hedgerow.url, crawlers[0], tmp_path, "-e", "robots=off"),
            asyncio.to_thread(crawling.scrapy, hedgerow.url, crawlers[1], tmp_path, titles),
            crawling.Crawler(hedgerow.url, crawlers[2], titles, order="random").crawl(),
            crawling.Crawler(hedgerow.url, crawlers[3], titles, headers={"Connection": "close"}).crawl(),
        )

    async def everything() -> None:
        crawls = asyncio.create_task(crawl())
        await asyncio.gather(*(reader.read(12, lambda: not crawls.done()) for reader in readers))
        await crawls

    asyncio.run(everything())
    requests = sum(reader.requests for reader in readers)
    print(f"10 people: {requests} requests, {sum(len(r.disturbed) for r in readers)} disturbed")  # noqa: T201
    assert [what for reader in readers for what in reader.disturbed] == []
    assert min(reader.pages for reader in readers) >= 12
    assert min(len(reader.been) for reader in readers) >= 8, "they read the same page again and again"
    assert set(hedgerow.blocked()) == set(crawlers)

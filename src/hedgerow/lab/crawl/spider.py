"""The training crawler, on Scrapy: one request after the other, in the frontier's order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import msgspec
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import IgnoreRequest
from scrapy.http import FormRequest, HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import dnscache

from hedgerow.lab.crawl.frontier import Frontier, Order
from hedgerow.lab.crawl.own_hosts import Origin

_MAX_BYTES = 16_000_000
_TIMEOUT = 30


class CrawlPlan(msgspec.Struct, frozen=True):
    """Start page, order and limits of a crawl; *login* is the page with a form, *fields* its values."""

    start: str
    origin: Origin
    order: Order
    delay: Callable[[], float]
    pages: int
    user_agent: str
    login: str = ""
    fields: Mapping[str, str] = {}
    source: str = ""
    seed: int | None = None
    after: Callable[[int], None] = lambda _: None
    """Called after each response with the number of requests so far."""


class Crawl(msgspec.Struct):
    """The result of a crawl: responses by status, and failures by kind."""

    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    failures: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def requests(self) -> int:
        return self.statuses.total() + self.failures.total()


class _Spider(scrapy.Spider):
    """
    Follows links in the frontier's order, one request at a time.

    It has its own frontier, because Scrapy's queues have no random order. Concurrent responses would blur the other
    orders.
    """

    name = "hedgerow"

    def __init__(self, plan: CrawlPlan, crawl: Crawl, **more: Any) -> None:
        super().__init__(**more)
        self._plan = plan
        self._crawl = crawl
        self._frontier = Frontier(plan.order, plan.seed)
        self._links = LinkExtractor(deny_extensions=())

    async def start(self) -> AsyncIterator[Any]:
        if self._plan.login:
            yield self._request(self._plan.login, self._log_in)
        else:
            yield self._request(self._plan.start)

    def _request(self, url: str, callback: Callable[..., Any] | None = None, **more: Any) -> Request:
        kind = more.pop("kind", Request)
        meta = {"bindaddress": (self._plan.source, 0)} if self._plan.source else {}
        request: Request = kind(
            url, callback=callback or self._read, errback=self._fail, dont_filter=True, meta=meta, **more
        )
        return request

    def _log_in(self, response: Response) -> Iterator[Request]:
        """Fill in the form of the login page; its other fields, such as a token, are sent as well."""
        if not isinstance(response, HtmlResponse) or not response.css("form"):
            raise scrapy.exceptions.CloseSpider("no-form")
        forms = response.css("form")
        number = next((n for n, form in enumerate(forms) if _has_fields(form, self._plan.fields)), 0)
        form = FormRequest.from_response(response, formnumber=number, formdata=dict(self._plan.fields))
        yield self._request(
            form.url, self._logged_in, method=form.method, body=form.body, headers=form.headers, kind=Request
        )

    def _logged_in(self, response: Response) -> Iterator[Request]:
        if response.status >= 400:  # noqa: PLR2004
            raise scrapy.exceptions.CloseSpider("login-refused")
        yield self._request(self._plan.start)

    async def _read(self, response: Response) -> AsyncIterator[Request]:
        self._crawl.statuses[response.status] += 1
        if isinstance(response, HtmlResponse):
            links = (link.url.partition("#")[0] for link in self._links.extract_links(response))
            self._frontier.add(link for link in links if self._plan.origin.has(link))
        async for request in self._next_request():
            yield request

    async def _fail(self, failure: Any) -> AsyncIterator[Request]:
        self._crawl.failures[failure.type.__name__] += 1
        async for request in self._next_request():
            yield request

    async def _next_request(self) -> AsyncIterator[Request]:
        self._plan.after(self._crawl.requests)
        if self._crawl.requests >= self._plan.pages:
            return
        link = self._frontier.next()
        if link is not None:
            await asyncio.sleep(self._plan.delay())
            yield self._request(link)


def _has_fields(form: Any, fields: Mapping[str, str]) -> bool:
    names = set(form.css("[name]::attr(name)").getall())
    return names.issuperset(fields)


class _StayOnSite:
    """Drops requests to other origins, including redirects."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    @classmethod
    def from_crawler(cls, crawler: Any) -> _StayOnSite:
        return cls(crawler.settings["HEDGEROW_ORIGIN"])

    def process_request(self, request: Request) -> None:
        if not self._origin.has(request.url):
            raise IgnoreRequest("not on this site")


def run(plan: CrawlPlan) -> tuple[Crawl, str]:
    """Crawl. Return the result and the reason of its end: "finished", or a code of the spider."""
    dnscache[plan.origin.host] = plan.origin.address
    crawl = Crawl()
    process = CrawlerProcess(
        {
            "HEDGEROW_ORIGIN": plan.origin,
            "DOWNLOADER_MIDDLEWARES": {_StayOnSite: 1},
            "USER_AGENT": plan.user_agent,
            "CONCURRENT_REQUESTS": 1,
            "DOWNLOAD_DELAY": 0,
            "DOWNLOAD_MAXSIZE": _MAX_BYTES,
            "DOWNLOAD_TIMEOUT": _TIMEOUT,
            "HTTPERROR_ALLOW_ALL": True,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "HTTPPROXY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    crawler = process.create_crawler(_Spider)
    process.crawl(crawler, plan=plan, crawl=crawl)
    process.start()
    reason = crawler.stats.get_value("finish_reason") if crawler.stats is not None else None
    return crawl, str(reason or "stopped")

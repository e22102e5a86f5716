"""The training crawler, on Scrapy: one request after the other, in the frontier's order."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import scrapy
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import IgnoreRequest
from scrapy.http import FormRequest, HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import dnscache

from hedgerow.lab.crawl.own_hosts import Origin
from hedgerow.lab.crawl.schedule import Frontier, Order

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
    is_hidden: Callable[[str], bool] = lambda _: False
    """Tells a hidden link by its URL. Hidden links are not followed: no person or model knows them."""
    after: Callable[[int], None] = lambda _: None
    """Called after each response with the number of requests so far."""


class Crawl(msgspec.Struct):
    """The result of a crawl: responses by status, failures by kind, hidden links that were seen, time of the last."""

    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    hidden: int = 0
    until: float = 0.0
    end: str = "stopped"
    """Why it ended: "finished", or a code of the spider."""

    @property
    def requests(self) -> int:
        return self.statuses.total() + self.failures.total()


class _Spider(scrapy.Spider):
    """Sends one request at a time: Scrapy's queues have no random order, and concurrency would blur the others."""

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
        meta = {"bindaddress": (self._plan.source, 0)} if self._plan.source else {}
        read = callback or self._read
        return Request(url, callback=read, errback=self._fail, dont_filter=True, meta=meta, **more)

    def _log_in(self, response: Response) -> Iterator[Request]:
        """Fill in the form of the login page; its other fields, such as a token, are sent as well."""
        if not isinstance(response, HtmlResponse) or not response.css("form"):
            raise scrapy.exceptions.CloseSpider("no-form")
        forms = response.css("form")
        number = next((n for n, form in enumerate(forms) if _has_fields(form, self._plan.fields)), 0)
        form = FormRequest.from_response(response, formnumber=number, formdata=dict(self._plan.fields))
        yield self._request(form.url, self._logged_in, method=form.method, body=form.body, headers=form.headers)

    def _logged_in(self, response: Response) -> Iterator[Request]:
        if response.status >= 400:  # noqa: PLR2004
            raise scrapy.exceptions.CloseSpider("login-refused")
        yield self._request(self._plan.start)

    async def _read(self, response: Response) -> Request | None:
        self._crawl.statuses[response.status] += 1
        if isinstance(response, HtmlResponse):
            links = [link.url.partition("#")[0] for link in self._links.extract_links(response)]
            own = [link for link in links if self._plan.origin.has(link)]
            seen = [link for link in own if not self._plan.is_hidden(link)]
            self._crawl.hidden += len(own) - len(seen)
            self._frontier.add(seen)
        return await self._next_request()

    async def _fail(self, failure: Any) -> Request | None:
        self._crawl.failures[failure.type.__name__] += 1
        return await self._next_request()

    async def _next_request(self) -> Request | None:
        self._crawl.until = time.time()
        self._plan.after(self._crawl.requests)
        link = self._frontier.next() if self._crawl.requests < self._plan.pages else None
        if link is None:
            return None
        await asyncio.sleep(self._plan.delay())
        return self._request(link)


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


def run(plans: Sequence[CrawlPlan]) -> list[Crawl]:
    """Crawl, all *plans* side by side, and return the results. Can be called once in a process."""
    process = CrawlerProcess({"TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "ERROR"})
    crawls: list[Crawl] = []
    crawlers: list[Crawler] = []
    for plan in plans:
        dnscache[plan.origin.host] = plan.origin.address
        settings = {
            "HEDGEROW_ORIGIN": plan.origin, "DOWNLOADER_MIDDLEWARES": {_StayOnSite: 1}, "USER_AGENT": plan.user_agent,
            "CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0, "DOWNLOAD_MAXSIZE": _MAX_BYTES, "DOWNLOAD_TIMEOUT": _TIMEOUT,
            "HTTPERROR_ALLOW_ALL": True, "ROBOTSTXT_OBEY": False, "RETRY_ENABLED": False, "HTTPPROXY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "ERROR",
        }  # fmt: skip
        crawls.append(Crawl(until=time.time()))
        crawlers.append(Crawler(_Spider, settings, init_reactor=not crawlers))
        process.crawl(crawlers[-1], plan=plan, crawl=crawls[-1])
    process.start()
    for crawl, crawler in zip(crawls, crawlers, strict=True):
        reason = crawler.stats.get_value("finish_reason") if crawler.stats is not None else None
        crawl.end = str(reason or "stopped")
    return crawls

"""Somebody in front of a browser, and a record of all that went wrong for them."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, Response, expect
from playwright.sync_api import Error as PlaywrightError

from hedgerow.markers.clean import without_marks
from real.hand import Hand
from real.servers import PATIENCE

PICTURE = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////////////////////////////////////"
    "////////////wAALCAAQABgBAREA/8QAFQABAQAAAAAAAAAAAAAAAAAAAwT/xAAWEAADAAAAAAAAAAAAAAAAAAAAAQL/2gAIAQEAAD8AmhFE"
    "IeERwh4Q8I//2Q=="
)
"""A JPEG of 24 by 16."""

_QUIET = 0.05
_TIME_LEFT = """() => document.querySelector("script[src*='/.hedgerow/'], script[data-src*='/.hedgerow/']")
    ? 700 - performance.now() : 0"""
"""How long a person still looks at the page, in ms: 0.7 s in all, and 0 without Hedgerow."""
_SEEN = """() => [
    document.title,
    document.body.innerText,
    [...document.images].filter(i => i.complete && !i.naturalWidth && !i.src.endsWith(".svg")).map(i => i.src),
]"""
_LISTED = """() => [...document.querySelectorAll(
    "a[href], area[href], form, iframe[src], frame[src], button[formaction], input[formaction]"
)].map(node => {
    const name = ["href", "action", "src", "formaction"].find(name => node.hasAttribute(name));
    const written = node.getAttribute(name) || "";
    let url = "";
    try {
        url = new URL(written, node.localName === "form" && !written ? document.URL : node.baseURI);
        const field = node.localName === "form" && node.querySelector(":scope > input[type=hidden][name='~']");
        if (field) url.searchParams.append(field.name, field.value);  // where a form that asks leads
        url = url.href;
    } catch {}
    const text = (node.textContent || "").trim().slice(0, 60);
    return [node.localName, written, url, text, node.getClientRects().length > 0];
})"""


class Link(NamedTuple):
    """Something in a page that leads somewhere: a link, a form, a frame."""

    tag: str
    written: str
    """As it stands in the page."""
    url: str
    """Absolute; empty where it is no URL."""
    text: str
    visible: bool
    in_source: bool
    """
    Whether the page came with it; also true in new tabs, where this is not known.

    Otherwise a script has put it there, from its own words or from another answer.
    """


@dataclass
class Record:
    """What a visitor met. Two records are equal when the visitor could not have told the two visits apart."""

    steps: list[str] = field(default_factory=list)
    """What was done, and the title of the page on which it ended."""
    texts: list[str] = field(default_factory=list, repr=False)
    """All that could be read after each step, less times."""
    documents: list[int] = field(default_factory=list)
    """The status of every page that was asked for, redirects included."""
    refused: list[str] = field(default_factory=list)
    """Answers of 400 and more."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, and exceptions that no script has caught."""
    failures: list[str] = field(default_factory=list)
    """Requests without an answer, less those that leaving a page has ended."""
    decisions: list[str] = field(default_factory=list)
    """What Hedgerow said about itself in an answer's head."""
    broken_pictures: list[str] = field(default_factory=list)
    links: dict[str, list[Link]] = field(default_factory=dict, compare=False, repr=False)
    """Every link of the page on which a step ended, by step."""

    def faults(self) -> list[str]:
        """All that should not have been."""
        return [*self.refused, *self.complaints, *self.failures, *self.decisions, *self.broken_pictures]


class _Source(HTMLParser):
    """The values of all attributes in a page as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.values: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.values.update(value for _, value in attrs if value is not None)


class Visitor:
    """Uses the site at *base* through *page* and writes down what happens, in all tabs of its context."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base.rstrip("/")
        self._hand = Hand(page, seed=1)
        self.record = Record()
        self.requests: list[str] = []
        """Without pictures: a throbber is no event."""
        self._open: set[Request] = set()
        self._documents: dict[str, Response] = {}
        context = page.context
        context.on("request", self._asked)
        context.on("response", self._answered)
        context.on("requestfinished", self._finished)
        context.on("requestfailed", self._failed)
        context.on("console", self._said)
        context.on("weberror", lambda error: self._complain(f"uncaught: {error.error}"))

    def go(self, path: str = "/") -> None:
        """Type an address. Only for the first page: everything else is reached from there."""
        self.page.goto(self.base + path)
        self.done("typed the address")

    def done(self, what: str, page: Page | None = None) -> None:
        """A step has ended: wait until everything has come, and write down what there is."""
        page = page or self.page
        self.settle(page)
        page.wait_for_timeout(max(0, page.evaluate(_TIME_LEFT)))
        record = self.record
        title, text, broken, listed = page.evaluate(f"() => [...({_SEEN})(), ({_LISTED})()]")
        record.steps.append(f"{what}: {self._plain(title)}")
        record.texts.append(self._plain(text))
        record.links[f"{len(record.steps)} {what}"] = self._links(page, listed)
        record.broken_pictures += [f"{what}: {self._plain(source)}" for source in broken]

    def settle(self, page: Page | None = None) -> None:
        """Wait until nothing is on its way any more."""
        page = page or self.page
        page.wait_for_load_state()
        waited = quiet = 0.0
        while quiet < _QUIET:
            page.wait_for_timeout(_QUIET * 500)
            waited += _QUIET / 2
            quiet = 0.0 if self._open else quiet + _QUIET / 2
            assert waited < PATIENCE, f"still on its way: {[request.url for request in self._open]}"

    def still(self) -> None:
        """Wait until nothing slides or scrolls any more: who clicks at what moves may miss it."""
        self.page.evaluate(
            """async () => {
                const look = () => `${scrollY} ${document.documentElement.scrollHeight}`;
                for (let seen = look(), since = performance.now(); performance.now() < since + 250;) {
                    await new Promise(requestAnimationFrame);
                    if (look() !== seen) { seen = look(); since = performance.now(); }
                }
            }"""
        )

    def click(self, what: Locator, then: Locator, step: str) -> None:
        """Move the mouse to *what*, click it, and see *then*, which was not there before."""
        assert not then.is_visible(), f"{step}: what shall come is there already"
        what.scroll_into_view_if_needed()
        if box := what.bounding_box():
            self._hand.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        what.click()
        then.wait_for()
        self.done(step)

    def in_new_tab(
        self, link: Locator, find: Callable[[Page, str], Locator], name: str, step: str, *, middle: bool = False
    ) -> None:
        """Open a link in a new tab with Control or the middle button, *find* what is named so there, close it."""
        before = self.page.title()
        with self.page.context.expect_page() as opened:
            if middle:
                link.click(button="middle")
            else:
                link.click(modifiers=["ControlOrMeta"])
        tab = opened.value
        tab.wait_for_load_state()
        tab.bring_to_front()
        find(tab, name).wait_for()
        # Playwright does not tell of the request with which such a tab begins.
        status = tab.evaluate("() => performance.getEntriesByType('navigation')[0].responseStatus")
        self.record.documents.append(status)
        if status >= 400:
            self.record.refused.append(f"{status} GET {self._plain(tab.url)}")
        self.done(step, tab)
        tab.close()
        self.page.bring_to_front()
        assert self.page.title() == before

    def back(self, then: Locator) -> None:
        self.page.go_back()
        then.wait_for()
        self.done("went back")

    def forward(self, then: Locator) -> None:
        self.page.go_forward()
        then.wait_for()
        self.done("went forward")

    def reload(self, then: Locator) -> None:
        self.page.reload()
        then.wait_for()
        self.done("reloaded")

    def jump(self, link: Locator, target: Locator, step: str, *, by_key: bool = False) -> None:
        """Follow a link to a place of the same page: the page stays, it scrolls, and nothing is asked for."""
        with self.staying(step):
            if by_key:
                link.press("Enter")
            else:
                link.click()
            self.page.wait_for_timeout(100)
        self.at_top(target)
        self.done(step)

    @contextlib.contextmanager
    def staying(self, what: str, *, requests: int | None = 0) -> Iterator[None]:
        """What is done meanwhile must not leave the page, and makes so many *requests*, pictures apart; None: any."""
        self.settle()
        self.page.evaluate("() => { window.stayed = true }")
        before = len(self.requests)
        yield
        self.settle()
        assert self.page.evaluate("() => window.stayed === true"), f"{what}: the page was loaded anew"
        asked = self.requests[before:]
        assert requests is None or len(asked) == requests, f"{what}: asked for {asked}"

    def at_top(self, target: Locator) -> None:
        """The page is scrolled to *target*, or as far as it goes."""
        expect(target).to_be_in_viewport()
        top, scrolled, most = target.evaluate(
            "node => [node.getBoundingClientRect().top, scrollY, document.documentElement.scrollHeight - innerHeight]"
        )
        assert scrolled > 0, "the page has not scrolled"
        assert abs(top) < 60 or scrolled > most - 2, f"{top} pixels from the top"

    def links(self, page: Page | None = None) -> list[Link]:
        """Every `a[href]`, `area[href]`, `form`, frame and `formaction` of the page as it is now."""
        page = page or self.page
        return self._links(page, page.evaluate(_LISTED))

    def _links(self, page: Page, listed: list[list[Any]]) -> list[Link]:
        source = _Source()
        with contextlib.suppress(KeyError, PlaywrightError):  # the browser may have dropped it
            source.feed(self._documents[_without_mark(page.url)].text())
        return [
            Link(tag, written, url, text, visible, not source.values or written in source.values)
            for tag, written, url, text, visible in listed
        ]

    def _plain(self, text: str) -> str:
        text = text.replace(self.base, "")
        text = re.sub(r"\d{4}[/-]\d\d[/-]\d\d \d\d:\d\d(:\d\d)?", "(time)", text)
        text = re.sub(r"[A-Z][a-z]+\.? \d+, \d{4},? (\d+(:\d\d)? [ap]\.m\.|noon|midnight)", "(time)", text)
        return re.sub(r"\b(now|\d+ ?(s|m|h|seconds|minutes)( ago)?)\b", "(lately)", text)

    def _asked(self, request: Request) -> None:
        # Hedgerow's own script asks for a clearance once the page is idle, whatever the visitor does meanwhile.
        if request.resource_type != "image" and "/.hedgerow/" not in request.url:
            self.requests.append(f"{request.method} {request.url}")
        self._open.add(request)

    def _answered(self, response: Response) -> None:
        request = response.request
        if request.is_navigation_request():
            self.record.documents.append(response.status)
            self._documents[_without_mark(response.url)] = response
        if response.status >= 400:
            self.record.refused.append(f"{response.status} {request.method} {self._plain(response.url)}")
        decision = response.headers.get("hedgerow-decision")
        if decision:
            self.record.decisions.append(f"{decision} {self._plain(response.url)}")

    def _finished(self, request: Request) -> None:
        self._open.discard(request)

    def _failed(self, request: Request) -> None:
        self._open.discard(request)
        # What is still loading when a page is left is aborted by the browser itself.
        if request.failure != "net::ERR_ABORTED" or request.is_navigation_request():
            self.record.failures.append(f"{request.failure} {request.method} {self._plain(request.url)}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            where: Any = message.location
            self._complain(f"{message.type}: {message.text} ({self._plain(where.get('url', ''))})")

    def _complain(self, text: str) -> None:
        self.record.complaints.append(self._plain(text))


def same_site(links: list[Link], base: str) -> list[Link]:
    """The links that lead to a page of the site at *base*: not to other sites, nor to a place of the same page."""
    base = base.rstrip("/")
    return [
        link
        for link in links
        if (link.url == base or link.url.startswith(base + "/"))
        and (link.written.strip() or link.tag == "form")
        and not link.written.strip().startswith("#")
    ]


def marker_of(url: str) -> str | None:
    """How an address is marked: "opaque", "readable", "clean", or not at all."""
    where = urlsplit(url)
    if re.fullmatch(r"/~[\w-]{40,}", where.path):
        return "opaque"
    mark = re.search(r"(?:^|&)(?:~|%7E)=(?:[\w-]{40,}|[\w-]{23}(\.[\w-]{4}))", where.query)
    return None if mark is None else "clean" if mark[1] else "readable"


def _without_mark(url: str) -> str:
    """The address that the browser shows when the page has removed a clean mark from it."""
    return without_marks(url.partition("#")[0].encode()).decode()


def is_page(url: str) -> bool:
    """Not an asset or a feed, which are not marked."""
    return re.search(r"\.(css|js|png|jpe?g|gif|svg|ico|xml|json|txt)\Z", urlsplit(url).path) is None

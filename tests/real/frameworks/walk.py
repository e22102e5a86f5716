"""
Walks an application in a browser, and compares two walks.

What is compared: the tree of elements after every step, the address that the browser shows, what the console says, and
all requests with their status. Marks, hidden links, and the style and script that belong to them are left out.
"""

from __future__ import annotations

import difflib
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

from hedgerow.markers.clean import CHECK_LENGTH, SCRIPT_ELEMENT, VIEW_LENGTH
from hedgerow.markers.scripts import LINKS_ELEMENT

from .table import App, Step

_VIEW_AND_CHECK = rf"(?:~|%7E)=[\w-]{{{VIEW_LENGTH}}}\.[\w-]{{{CHECK_LENGTH}}}"
_MARK_BETWEEN = re.compile(rf"(?<=[?&]){_VIEW_AND_CHECK}&(?:amp;)?")
_MARK_LAST = re.compile(rf"(?:\?|&(?:amp;)?){_VIEW_AND_CHECK}")
# Without hidden links, the form fields of marks, the style of the former and the script that removes the latter.
_TREE = """scripts => {
    const root = document.documentElement.cloneNode(true);
    for (const link of root.querySelectorAll('a[class*=share][href*="~="]')) if (!link.firstChild) link.remove();
    for (const one of root.querySelectorAll("span[hidden][class], span[popover], datalist, noscript"))
        if (/^<a [^>]*href="[^"]*~=[^"]*"[^>]*>[^<]*<\\/a>$/.test(one.innerHTML)) one.remove();
    for (const field of root.querySelectorAll('input[type=hidden][name="~"]')) field.remove();
    for (const style of root.querySelectorAll("style"))
        if (/^\\.([\\w-]+)\\.\\1[\\w.,]*\\{display:none!important\\}$/.test(style.textContent)) style.remove();
    for (const one of root.querySelectorAll("script"))
        if (scripts.includes(one.textContent) || /\\/page\\.js$/.test(one.src || one.dataset.src)) one.remove();
    return root.outerHTML;
}"""
_SCRIPTS = [element.decode()[len("<script>") : -len("</script>")] for element in (SCRIPT_ELEMENT, LINKS_ELEMENT)]
_POLL = 25
_PATIENCE = 30.0
_MOST_SHOWN = 12


@dataclass
class Walk:
    """What was seen on a walk: by step, and over all steps."""

    trees: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """What was requested, and the status; "" where a script no longer wanted it, which depends on the moment."""
    refusals: list[str] = field(default_factory=list)


class Walker:
    """Takes the steps of one application at *origin* and notes what there is to see."""

    def __init__(self, context: BrowserContext, app: App, origin: str, stop_servers: Callable[[], None]) -> None:
        self._app = app
        self._origin = origin
        self._stop_servers = stop_servers
        self._open: set[Request] = set()
        self._last = time.monotonic()
        self._is_offline = False
        self.walk = Walk()
        context.set_default_timeout(_PATIENCE * 1000)
        context.on("request", self._begin)
        context.on("requestfinished", self._end)
        context.on("requestfailed", self._end)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.walk.console.append(self._plain(f"uncaught: {error.error}")))

    def _hear(self, said: ConsoleMessage) -> None:
        # A page that is shown without a network was stored with our script, which does not load then.
        if "/.hedgerow/" not in said.location["url"]:
            self.walk.console.append(self._plain(f"{said.type}: {said.text}"))

    def take(self, page: Page) -> Walk:
        for step in self._app.steps:
            try:
                self._act(page, step)
                if step.shows:
                    page.locator(step.shows).first.wait_for()
            except Exception as error:
                said = "\n".join(self.walk.console)
                raise AssertionError(f"{step}: {error}\nat {page.url}\n{said}\n{page.content()[:3000]}") from error
            self._settle(page)
            looks_at = self._app.looks_at
            seen = page.locator(looks_at).first.inner_text() if looks_at else page.evaluate(_TREE, _SCRIPTS)
            self.walk.trees.append(self._plain(seen))
            self.walk.addresses.append(page.url.replace(self._origin, ""))
        return self.walk

    def _act(self, page: Page, step: Step) -> None:
        if step.action == "goto":
            page.goto(self._origin + step.on)
        elif step.action == "click":
            # A hidden link may have an address that fits, too.
            # What a script loads when a person points at a link is loaded before the click, as it mostly is.
            page.locator(step.on).filter(visible=True).first.hover()
            self._settle(page)
            page.locator(step.on).filter(visible=True).first.click()
            # Or the next page would have the mouse on one of its links, sooner or later.
            page.mouse.move(0, 0)
        elif step.action == "hover":
            page.locator(step.on).filter(visible=True).first.hover()
        elif step.action == "fill":
            where, _, text = step.on.rpartition("=")
            page.locator(where).first.fill(text)
        elif step.action == "press":
            page.keyboard.press(step.on)
        elif step.action == "scroll":
            page.locator(step.on).first.scroll_into_view_if_needed()
        elif step.action == "offline":
            self._stop_servers()
            self._is_offline = True
        else:
            {"back": page.go_back, "forward": page.go_forward, "reload": page.reload}[step.action]()

    def _settle(self, page: Page) -> None:
        """Wait until no request has been under way for a moment."""
        self._last = time.monotonic()
        end = self._last + _PATIENCE
        while time.monotonic() < end and (self._open or time.monotonic() - self._last < self._app.quiet):
            page.wait_for_timeout(_POLL)

    def _begin(self, request: Request) -> None:
        self._open.add(request)
        self._last = time.monotonic()

    def _end(self, request: Request) -> None:
        self._open.discard(request)
        self._last = time.monotonic()
        if not request.url.startswith(self._origin) or self._is_offline or "/.hedgerow/" in request.url:
            return
        response = request.existing_response if not request.failure else None
        status = str(response.status) if response is not None else str(request.failure)
        what = self._plain(f"{request.method} {request.url} {request.resource_type}")
        self.walk.requests.append((what, "" if "ABORTED" in status else status))
        if response is not None and "hedgerow-decision" in response.headers:
            self.walk.refusals.append(f"{request.url}: {response.headers['hedgerow-decision']}")

    def _plain(self, text: str) -> str:
        text = _MARK_LAST.sub("", _MARK_BETWEEN.sub("", text)).replace(self._origin, "")
        host = self._origin.removeprefix("http://")
        text = text.replace(host, "HOST").replace(quote(host), "HOST")
        for pattern in self._app.varies:
            text = re.sub(pattern, "VARIES", text)
        return text


def differences(app: App, direct: Walk, other: Walk) -> list[str]:
    """Return what differs between a walk without Hedgerow and one with it, in words."""
    found = []
    for step, before, after in zip(app.steps, direct.trees, other.trees, strict=True):
        if _lines(before) != _lines(after):
            found.append(f"elements after {tuple(step)}:\n" + _diff(_lines(before), _lines(after)))
    for step, before, after in zip(app.steps, direct.addresses, other.addresses, strict=True):
        if before != after:
            found.append(f"address after {tuple(step)}: {before} became {after}")
    found += _more_and_less("console", direct.console, other.console)
    requests = [[one for one, _ in walk.requests] for walk in (direct, other)]
    if app.looks_at:
        requests = [sorted(set(one)) for one in requests]
    found += _more_and_less("requests", *requests)
    statuses: dict[str, tuple[set[str], set[str]]] = {}
    for number, walk in enumerate((direct, other)):
        for request, status in filter(lambda pair: pair[1], walk.requests):
            statuses.setdefault(request, (set(), set()))[number].add(status)
    found += [
        f"status of {request}: {one} became {two}"
        for request, (one, two) in statuses.items()
        if one and two and one != two
    ]
    return found + [f"refused: {line}" for line in other.refusals]


def _more_and_less(what: str, direct: Sequence[str], other: Sequence[str]) -> list[str]:
    before, after = Counter(direct), Counter(other)
    return [
        *(f"{what}: missing {count} x {line}" for line, count in sorted((before - after).items())),
        *(f"{what}: added {count} x {line}" for line, count in sorted((after - before).items())),
    ]


def _lines(tree: str) -> list[str]:
    """Return the elements one by one. Elements that prefetch are sorted: a script adds them as its requests end."""
    lines = tree.replace("><", ">\n<").splitlines()
    return [
        line
        for is_prefetch, group in itertools.groupby(lines, _is_prefetch)
        for line in (sorted(group) if is_prefetch else list(group))
    ]


def _is_prefetch(line: str) -> bool:
    return line.startswith('<link rel="prefetch"')


def _diff(before: Sequence[str], after: Sequence[str]) -> str:
    lines = [line[:500] for line in difflib.unified_diff(before, after, "direct", "Hedgerow", n=1, lineterm="")]
    return "\n".join(lines[:_MOST_SHOWN])

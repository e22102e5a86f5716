"""Debian's Chromium by Playwright, kept on loopback, and what is looked at in its pages."""

from __future__ import annotations

import contextlib
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, CDPSession, Error, Page, Request, expect, sync_playwright

from .servers import PATIENCE

CHROMIUM = "/usr/bin/chromium"
_OFF = [
    # Playwright's own choice, which this takes the place of.
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
    # What every window makes ready for an address that nobody will type: half of a core's second each time.
    "SpareRendererForSitePerProcess",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
]
HIDES_DRIVER = "--disable-blink-features=AutomationControlled"
"""Without this, a browser that tests drive says so in `navigator.webdriver`. No person's browser does."""
ARGUMENTS = [
    HIDES_DRIVER,
    f"--disable-features={','.join(_OFF)}",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
VIEWPORT: Any = {"width": 1000, "height": 700}
BAIT = (
    'a[class*=share][href*="~"]:empty, '
    ':is(span[hidden], span[popover], datalist)[class] > a[href*="~"]:only-child, noscript > a[class][href*="~"]'
)
"""Hidden links, by their look: marked links have the same addresses. Where scripts run, a `<noscript>` holds text."""
expect.set_options(timeout=PATIENCE * 1000)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. While it is open this thread has a running event loop: asyncio.run() must wait."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def tab(browser: Browser, **options: Any) -> Iterator[Page]:
    """A tab of a browser that has never been anywhere."""
    with contextlib.closing(browser.new_context(viewport=VIEWPORT, **options)) as context:
        context.set_default_timeout(PATIENCE * 1000)
        page = context.new_page()
        yield page
        # Playwright may wait for ever if a context is closed while a page that handles "pagehide" is being left.
        with contextlib.suppress(Error):
            page.goto("about:blank", timeout=5_000)


class Watch:
    """What a browser is told, and what it complains of, in all tabs of *context*; without the site's port."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self._origin = origin
        self.answers: list[tuple[str, int]] = []
        self.decisions: list[str] = []
        self.complaints: list[str] = []
        self.failures: list[str] = []
        context.on("response", self._response)
        context.on("requestfailed", self._fail)
        context.on("console", lambda said: said.type in {"error", "warning"} and self._complain(said.text))
        context.on("weberror", lambda error: self._complain(str(error.error)))

    def _plain(self, text: str) -> str:
        return text.replace(self._origin, "")

    def _fail(self, request: Request) -> None:
        # What our script sends while its page is left is cut off, and sent again by the next page.
        if "/.hedgerow/" not in request.url:
            self.failures.append(self._plain(request.url))

    def _complain(self, text: str) -> None:
        self.complaints.append(self._plain(text))

    def _response(self, response: Any) -> None:
        self.answers.append((self._plain(response.url), response.status))
        decision = response.headers.get("hedgerow-decision")
        if decision:
            self.decisions.append(f"{response.url}: {decision}")


class Person:
    """
    Walks a site by what can be seen of it: clicks links, goes back, opens tabs, reloads.

    The same *seed* takes the same way on sites that look the same. *plain* turns an address into the one that the site
    knows, and *is_trap* tells whether it is a hidden link's.
    """

    def __init__(
        self,
        page: Page,
        url: str,
        *,
        seed: int = 7,
        pause: float = 0.1,
        plain: Callable[[str], str] = str,
        is_trap: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.page = page
        self.url = url
        self._plain = plain
        self._is_trap = is_trap
        self.trail: list[str] = []
        self._random = random.Random(seed)
        self._pause = pause

    def walk(self, steps: int) -> list[str]:
        """The pages seen, in order."""
        self.page.goto(self.url + "/")
        self._note("start", self.page)
        for _ in range(steps):
            what = self._random.choices(["click", "tab", "back", "reload"], weights=[6, 2, 2, 1])[0]
            getattr(self, "_" + what)()
            self.page.wait_for_timeout(self._pause * 1000)
        return self.trail

    def _note(self, how: str, page: Page) -> None:
        self.trail.append(f"{how} {self._plain(page.url).removeprefix(self.url)}")

    def _link(self) -> Any:
        """A link that can be seen and leads to another page of this site."""
        links = self.page.locator("a:visible")
        here = urlsplit(self._plain(self.page.url)).path
        found = links.evaluate_all("links => links.map(link => link.href)")
        assert not [href for href in found if self._is_trap(href)], "bait can be seen"
        hrefs = [self._plain(href) for href in found]
        good = [
            number
            for number, href in enumerate(hrefs)
            if href.startswith(self.url + "/") and urlsplit(href).path not in {here, "/"}
        ]
        return links.nth(self._random.choice(good)) if good else None

    def _click(self) -> None:
        link = self._link()
        if link is None:
            self._back()
            return
        before = self.page.url
        link.click()
        self.page.wait_for_url(lambda url: url != before)
        self.page.wait_for_load_state()
        self._note("click", self.page)

    def _tab(self) -> None:
        link = self._link()
        if link is None:
            return
        with self.page.context.expect_page() as opened:
            link.click(modifiers=["ControlOrMeta"])
        other = opened.value
        other.wait_for_load_state()
        self._note("tab", other)
        other.close()

    def _back(self) -> None:
        if self.page.go_back() is None:
            self.page.goto(self.url + "/")
        self._note("back", self.page)

    def _reload(self) -> None:
        self.page.reload()
        self._note("reload", self.page)


def baits(page: Page) -> list[str]:
    """The hidden links of a page."""
    return list(page.locator(BAIT).evaluate_all("links => links.map(link => link.getAttribute('href'))"))


def seen_of_bait(page: Page) -> list[str]:
    """What a person could see or reach of the hidden links by looking or by script: nothing."""
    return list(
        page.evaluate(
            """selector => [...document.querySelectorAll(selector)].flatMap(link => {
                const found = [];
                const box = link.getBoundingClientRect();
                if (box.width || box.height || link.getClientRects().length) found.push("has a box");
                if (link.offsetParent !== null) found.push("is laid out");
                link.focus();
                if (document.activeElement === link) found.push("can be focused");
                return found.map(what => link.getAttribute("href") + " " + what);
            })""",
            BAIT,
        )
    )


def tab_stops(page: Page, *, most: int = 400) -> list[str]:
    """Where the Tab key leads on a page, from its start round to it again: addresses, or the names of elements."""
    page.evaluate(
        """() => {
            document.activeElement.blur();
            getSelection().removeAllRanges();
            window.been = new Set([document.body]);
        }"""
    )
    stops: list[str] = []
    while len(stops) < most:
        page.keyboard.press("Tab")
        stop = page.evaluate(
            """() => {
                const here = document.activeElement;
                if (!here || window.been.has(here)) return null;
                window.been.add(here);
                return here.href || here.tagName;
            }"""
        )
        if stop is None:
            break
        stops.append(stop)
    return stops


def accessible_links(page: Page, is_trap: Callable[[str], bool] = lambda _: False) -> tuple[list[str], list[str]]:
    """The links in the accessibility tree, and the bait in it, of which there must be none."""
    with contextlib.closing(_Protocol(page)) as protocol:
        session = protocol.session
        session.send("Accessibility.enable")
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
        hidden = set()
        for node in session.send("DOM.querySelectorAll", {"nodeId": root, "selector": BAIT})["nodeIds"]:
            hidden.add(session.send("DOM.describeNode", {"nodeId": node})["node"]["backendNodeId"])
    links, found = [], []
    for node in nodes:
        if node.get("ignored"):
            continue
        urls = [p["value"].get("value", "") for p in node.get("properties", []) if p["name"] == "url"]
        if node.get("role", {}).get("value") == "link":
            links.append(node.get("name", {}).get("value", ""))
        if node.get("backendDOMNodeId") in hidden or any(is_trap(url) for url in urls):
            found.append(str(node))
    return links, found


class _Protocol:
    """The browser's own protocol for one page."""

    def __init__(self, page: Page) -> None:
        self.session: CDPSession = page.context.new_cdp_session(page)
        self.session.send("DOM.enable")

    def close(self) -> None:
        self.session.detach()


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Width, height and the colours of a PNG such as browsers make: 8 bits, no palette, not interlaced."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    position, data, header = 8, b"", b""
    while position < len(png):
        length, kind = struct.unpack_from(">I4s", png, position)
        chunk = png[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            header = chunk
        elif kind == b"IDAT":
            data += chunk
        position += 12 + length
    width, height, depth, colour = struct.unpack_from(">IIBB", header)
    assert depth == 8
    size = {2: 3, 6: 4}[colour]
    return width, height, _unfiltered(zlib.decompress(data), width * size, size)


def _unfiltered(data: bytes, stride: int, size: int) -> bytes:
    out = bytearray()
    above = bytearray(stride)
    for start in range(0, len(data), stride + 1):
        kind, line = data[start], bytearray(data[start + 1 : start + 1 + stride])
        for n in range(stride):
            left = line[n - size] if n >= size else 0
            up = above[n]
            corner = above[n - size] if n >= size else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            elif kind == 4:
                guess = min((left, up, corner), key=lambda c, p=left + up - corner: abs(p - c))
            else:
                guess = 0
            line[n] = (line[n] + guess) & 255
        out += line
        above = line
    return bytes(out)


def assert_same_picture(one: bytes, other: bytes, what: str, folder: Path) -> None:
    """Two screenshots are the same to the pixel. Where they are not, both are left in *folder*."""
    if one == other:
        return
    (folder / "without.png").write_bytes(one)
    (folder / "with.png").write_bytes(other)
    first, second = pixels(one), pixels(other)
    assert first[:2] == second[:2], f"{what}: {first[:2]} without, {second[:2]} with Hedgerow; see {folder}"
    different = sum(a != b for a, b in zip(first[2], second[2], strict=True))
    assert not different, f"{what}: {different} bytes of the picture differ; see {folder}"

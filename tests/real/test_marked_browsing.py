"""
What people do with addresses in a browser, in each mode of marked links: look at them, copy, bookmark, go back, print.

What is asserted here is what `docs/marking.md` says of each mode.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from hedgerow.web.key_file import rotate

from .apps.visitor import PICTURE
from .browsing import ARGUMENTS, CHROMIUM, VIEWPORT, Watch, pixels, tab
from .servers import Nginx, Protect, wait_for

MODES = ["clean", "opaque", "readable", "off"]
HEAD = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title><style>
a {{ color: #0000ff; font: 20px monospace }} a:visited {{ color: #ff0000 }}
@media print {{ a::after {{ content: " (" attr(href) ")" }} }}
</style></head><body><h1>{title}</h1>
"""
PAGES = {
    "index.html": '<p><a href="docs/a.html?x=1">to A</a> <a href="docs/b.html" target="_blank">B apart</a></p>',
    "docs/a.html": '<p><a href="b.html">to B</a> <a href="../index.html">home</a> <a href="#below">below</a>'
    '<img src="dot.jpeg" alt="dot"></p><div style="height: 3000px"></div><h2 id="below">Below</h2>'
    '<form action="b.html"><input name="q" aria-label="find"><button>go</button></form>'
    '<div style="height: 3000px"></div>',
    "docs/b.html": '<p><a href="a.html?x=1">to A</a> <a href="http://127.0.0.1:{port}/elsewhere.html">other</a>'
    ' <a href="../app/page.html">the app</a> <a href="../moved">moved</a></p>',
    "app/page.html": """<div id="root"></div><script>
document.getElementById("root").innerHTML = location.pathname === "/app/page.html"
    ? '<p>The right page</p><a href="/docs/b.html">to B</a>' : "<p>No such page</p>";
</script>""",
    "elsewhere.html": "<p id=from></p><script>document.getElementById('from').textContent = document.referrer</script>",
}
LAUNCH: Any = {"executable_path": CHROMIUM, "args": ARGUMENTS, "viewport": VIEWPORT}
FRIEND = "198.51.100.7"


class Marked:
    """The site behind a Hedgerow in one *mode*."""

    def __init__(self, mode: str, protect: Callable[..., Protect], upstream: str) -> None:
        self.mode = mode
        settings = f'[identity]\ntrusted_proxies = ["127.0.0.1"]\n[marker]\nmode = "{mode}"\n'
        self.hedgerow = protect(upstream, settings=settings)
        self.url = self.hedgerow.url

    def drop_keys(self) -> None:
        """As years of `hedgerow keys rotate` would."""
        path = self.hedgerow.folder / "state" / "hedgerow.key"
        now = time.time()
        for _ in range(2):
            rotate(path, now, overlap=-1.0)
        os.kill(self.hedgerow.pid, signal.SIGHUP)
        wait_for("the new keys", lambda: "reloaded the settings" in self.hedgerow.said())

    def evidence(self, visitor: str) -> list[str]:
        """What is held against *visitor*, as soon as the ledger has its visits."""
        wait_for("the ledger", lambda: any(row["address"] == visitor for row in self.hedgerow.visits()))
        said = [str(tuple(row)) for row in self.hedgerow.visits() if row["address"] == visitor]
        return [code for text in said for code in ("minted-for-another", "unmarked", "tampered") if code in text]

    def is_address_of(self, url: str, target: str) -> bool:
        """Whether *url* looks as the browser shows an address of *target* in this mode."""
        return url == self.url + target if self.mode == "clean" else self.is_link_to(url, target)

    def is_link_to(self, url: str, target: str) -> bool:
        """Whether *url* looks as a link to *target* does in this mode."""
        where = urlsplit(url)
        shown = where.path + ("?" + where.query if where.query else "")
        joint = "&" if "?" in target else "?"
        forms = {
            "opaque": r"/~[\w-]{40,}",
            "readable": re.escape(target + joint + "~=") + r"[\w-]{40,}",
            "clean": re.escape(target + joint + "~=") + r"[\w-]{23}\.[\w-]{4}",
            "off": re.escape(target),
        }
        return re.fullmatch(forms[self.mode], shown) is not None


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    root = tmp_path_factory.mktemp("site")
    (root / "docs").mkdir()
    (root / "app").mkdir()
    redirect = "absolute_redirect off; location = /moved { return 302 /app/page.html; }"
    server = nginx(root, more="location = /favicon.ico { return 204; }" + redirect)
    for name, text in PAGES.items():
        title = {"index.html": "Home"}.get(name, Path(name).stem.title())
        (root / name).write_text(HEAD.format(title=title) + text.replace("{port}", str(server.port)) + "</body></html>")
    (root / "docs" / "dot.jpeg").write_bytes(PICTURE)
    return server


@pytest.fixture(scope="module", params=MODES)
def marked(request: pytest.FixtureRequest, protect: Callable[..., Protect], site: Nginx) -> Marked:
    return Marked(request.param, protect, site.url)


def follow(page: Page, name: str, title: str) -> None:
    link(page, name).click()
    page.wait_for_function("title => document.title === title", arg=title)


def link(page: Page, name: str) -> Locator:
    return page.get_by_role("link", name=name, exact=True)


def visit(page: Page, url: str) -> str:
    """Type an address; the title of what comes."""
    answer = page.goto(url)
    assert answer is not None
    assert answer.status == 200
    return page.title()


def test_the_address_bar(browser: Browser, marked: Marked) -> None:
    """And what the site's own scripts see of it."""
    with tab(browser) as page:
        watch = Watch(page.context, marked.url)
        visit(page, marked.url + "/")
        assert page.url == marked.url + "/"
        follow(page, "to A", "A")
        assert marked.is_address_of(page.url, "/docs/a.html?x=1")
        page.wait_for_load_state()
        path, picture, data = page.evaluate(
            """async () => [
                location.pathname, document.images[0].naturalWidth, (await fetch("b.html")).status
            ]"""
        )
        assert (path == "/docs/a.html") == (marked.mode != "opaque")
        assert picture > 0
        assert data == 200
        assert watch.complaints == watch.failures == []


def test_back_forward_and_reload(browser: Browser, marked: Marked) -> None:
    with tab(browser) as page:
        visit(page, marked.url + "/")
        follow(page, "to A", "A")
        at_a = page.url
        link(page, "below").click()
        assert page.url == at_a + "#below"
        expect(page.get_by_role("heading", name="Below")).to_be_in_viewport()
        scrolled = page.evaluate("scrollY")
        page.get_by_label("find").fill("typed")
        page.get_by_role("button", name="go").click()
        page.wait_for_function("document.title === 'B'")
        at_b = page.url
        assert "q=typed" in urlsplit(at_b).query
        page.go_back()
        assert (page.title(), page.url) == ("A", at_a + "#below")
        page.wait_for_function("top => Math.abs(scrollY - top) < 5", arg=scrolled)
        page.go_back()
        assert (page.title(), page.url) == ("A", at_a)
        page.go_back()
        assert (page.title(), page.url) == ("Home", marked.url + "/")
        for _ in range(3):
            page.go_forward()
        assert (page.title(), page.url) == ("B", at_b)
        answer = page.reload()
        assert answer is not None
        assert (answer.status, page.title(), page.url) == (200, "B", at_b)


def test_new_tabs(browser: Browser, marked: Marked) -> None:
    """By `target=_blank`, by the middle button, by Control."""
    with tab(browser) as page:
        visit(page, marked.url + "/")
        ways: list[tuple[str, str, str, dict[str, object]]] = [
            ("B apart", "B", "/docs/b.html", {}),
            ("to A", "A", "/docs/a.html?x=1", {"button": "middle"}),
            ("to A", "A", "/docs/a.html?x=1", {"modifiers": ["ControlOrMeta"]}),
        ]
        for name, title, target, how in ways:
            with page.context.expect_page() as opened:
                link(page, name).click(**how)  # type: ignore[arg-type]
            other = opened.value
            other.wait_for_load_state()
            assert other.title() == title
            assert marked.is_address_of(other.url, target)
            other.close()
        assert page.title() == "Home"


def test_a_bookmark(browser: Browser, marked: Marked) -> None:
    """Opened by the same person in a browser that has forgotten everything; and when its key has been dropped."""
    with tab(browser) as page:
        visit(page, marked.url + "/")
        follow(page, "to A", "A")
        bookmark = page.url
    with tab(browser) as page:
        assert visit(page, bookmark) == "A"
        assert page.url == bookmark
        follow(page, "to B", "B")
    marked.drop_keys()
    with tab(browser) as page:
        answer = page.goto(bookmark)
        assert answer is not None
        assert answer.status == (404 if marked.mode == "opaque" else 200)
        assert visit(page, marked.url + "/") == "Home"
        follow(page, "to A", "A")
        assert (page.url == bookmark) == (marked.mode in {"off", "clean"})


def test_copy_and_paste_to_a_friend(browser: Browser, marked: Marked) -> None:
    """The friend gets the page, and the ledger knows whose link it was."""
    with tab(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        visit(page, marked.url + "/")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.press("ControlOrMeta+c")
        text, html = page.evaluate(
            """async () => {
                const [item] = await navigator.clipboard.read();
                return [await navigator.clipboard.readText(), await (await item.getType("text/html")).text()];
            }"""
        )
        assert text.split() == ["Home", "to", "A", "B", "apart"]
        pasted = [href.replace("&amp;", "&") for href in re.findall(r'href="([^"]*)"', html)]
        assert marked.is_link_to(pasted[0], "/docs/a.html?x=1")
        assert len(pasted) == 2, "a hidden link was copied"
        address = link(page, "to A").evaluate("link => link.href")
        assert pasted[0] == address
    with tab(browser, extra_http_headers={"X-Forwarded-For": FRIEND}) as page:
        watch = Watch(page.context, marked.url)
        assert visit(page, address) == "A"
        follow(page, "to B", "B")
        assert watch.decisions == []
    assert marked.evidence(FRIEND) == ([] if marked.mode == "off" else ["minted-for-another"])
    assert marked.hedgerow.blocked() == {}


def test_an_address_that_was_changed_by_hand(browser: Browser, marked: Marked) -> None:
    with tab(browser) as page:
        visit(page, marked.url + "/")
        follow(page, "to A", "A")
        if marked.mode == "opaque":
            answer = page.goto(page.url[:-3] + "AAA")
            assert answer is not None
            assert answer.status == 404
        else:
            assert visit(page, page.url.replace("a.html", "b.html")) == "B"


def test_visited_links(browser: Browser, marked: Marked, tmp_path: Path) -> None:
    """A link that was followed is shown as such; another one to the same page is so only without markers."""
    # A context of its own, as tests have them, remembers nothing of this.
    with contextlib.closing(browser.browser_type.launch_persistent_context(tmp_path, **LAUNCH)) as context:
        page = context.new_page()
        visit(page, marked.url + "/")
        assert not is_red(link(page, "to A"))
        address = link(page, "to A").get_attribute("href")
        follow(page, "to A", "A")
        page.go_back()
        page.reload()
        assert link(page, "to A").get_attribute("href") == address
        assert is_red(link(page, "to A"))
        follow(page, "to A", "A")
        follow(page, "to B", "B")
        assert is_red(link(page, "to A")) == (marked.mode == "off")


def is_red(shown: Locator) -> bool:
    """The browser keeps from scripts which links were visited: only a picture tells."""
    _, _, colours = pixels(shown.screenshot())
    samples = [colours[at : at + 3] for at in range(0, len(colours) - 2, 3)]
    red, blue = (sum(sample == colour for sample in samples) for colour in (b"\xff\x00\x00", b"\x00\x00\xff"))
    assert red or blue, "the link is not to be seen"
    return red > blue


def test_view_source(browser: Browser, marked: Marked) -> None:
    """The page as it came: with its marked addresses."""
    with tab(browser) as page:
        visit(page, marked.url + "/")
        follow(page, "to A", "A")
        source_page = page.context.new_page()
        source_page.goto("view-source:" + page.url)
        text = source_page.locator("body").inner_text()
        assert "<title>A</title>" in text
        to_b = re.search(r'href="([^"]*)">to B<', text)
        assert to_b is not None
        written = to_b[1].replace("&amp;", "&")
        assert (
            written == "b.html"
            if marked.mode == "off"
            else marked.is_link_to(urljoin("/docs/", written), "/docs/b.html")
        )


def test_printing(browser: Browser, marked: Marked) -> None:
    """A style that prints addresses prints the marked ones; so do the links of a PDF; hidden links are in neither."""
    with tab(browser) as page:
        visit(page, marked.url + "/")
        follow(page, "to A", "A")
        found = {address.decode() for address in re.findall(rb"/URI \(([^)]*)\)", page.pdf())}
        # A jump within the page is none, except where the page has a base of ours: the browser leads it to itself.
        jump = {page.url + "#below"} if marked.mode == "opaque" else set()
        assert found == jump | {link(page, name).evaluate("link => link.href") for name in ("to B", "home")}
        address, written = link(page, "to B").evaluate("link => [link.href, link.getAttribute('href')]")
        assert marked.is_link_to(address, "/docs/b.html")
        page.emulate_media(media="print")
        expect(link(page, f"to B ({written})")).to_have_count(1)


@pytest.mark.parametrize("name", ["the app", "moved"])
def test_a_page_of_a_script_sees_its_own_address(browser: Browser, marked: Marked, name: str) -> None:
    """In opaque mode, too: Hedgerow knows such pages by their look, and shows them at a readable address."""
    with tab(browser) as page:
        watch = Watch(page.context, marked.url)
        visit(page, marked.url + "/docs/b.html")
        follow(page, name, "Page")
        expect(page.get_by_text("The right page")).to_be_visible()
        here = page.url
        assert re.fullmatch(r"/app/page\.html(\?~=[\w-]{40,})?", here.removeprefix(marked.url))
        page.reload()
        expect(page.get_by_text("The right page")).to_be_visible()
        follow(page, "to B", "B")
        page.go_back()
        expect(page.get_by_text("The right page")).to_be_visible()
        assert page.url == here
        page.go_back()
        assert page.title() == "B"
        assert watch.complaints == watch.failures == []


def test_other_sites_see_nothing_of_our_addresses(browser: Browser, marked: Marked) -> None:
    with tab(browser) as page:
        visit(page, marked.url + "/")
        follow(page, "to A", "A")
        follow(page, "to B", "B")
        follow(page, "other", "Elsewhere")
        assert page.locator("#from").inner_text() == marked.url + "/"
